// Package configs is everything about Sluice that can be set: the keys, their
// defaults and rules, and how they are read.
//
// Defaults give way to the YAML file, the file to the environment (SLUICE_*),
// the environment to flags. Nothing is guessed: a wrong type or a value out of
// range is a mistake, in the file so is a key that is unknown or there twice, and
// [Load] reports all of them at once, each with the place it came from. An unknown
// variable is none, since others put their own into the environment; one that
// looks like a slip of the pen is a warning.
package configs

import "time"

// Config is the whole configuration. Start from [Default] or [Load]: the zero
// value is not usable. Durations are Go durations ("100ms", "3m").
type Config struct {
	// Listen is the public address: queue, orders and pages. Port 0 takes any
	// free port.
	Listen string
	Admin  Admin
	// Role is what this process serves: RoleAll, RoleQueue or RoleOrders. The
	// last two need Redis, which is what the halves meet in.
	Role string
	// Redis is where the line lives; empty is an in-process line, which ends
	// with the process. redis://, rediss://, redis-cluster://a,b,c or
	// redis-sentinel://a,b,c?master=name.
	Redis URL
	// Database is where products and orders live, mysql://user:pass@host/name;
	// empty is SQLite in the data folder.
	Database URL
	// Data is the folder of the embedded database, the generated secret, and what
	// this process remembers of the line.
	Data string
	// Secret signs tickets and tokens: at least 32 bytes, or base64:… of that;
	// several separated by commas, of which the first signs. Required with
	// Redis, since every process must share it; otherwise empty makes one in
	// the data folder.
	Secret Secret
	Line   Line
	// Lines are lines to have beside the default one, by id, with what each is
	// born with; it may name the default line too.
	Lines     map[string]*FirstSettings
	Admission Admission
	Identity  Identity
	Limits    Limits
	CORS      CORS
	Pages     Pages
	Orders    Orders
	Coupons   Coupons
	Payments  Payments
	Log       Log
	Tracing   Tracing
	// DrainDelay is how long a stopping process goes on serving while it says
	// that it is not ready, so that a balancer can take it out first.
	DrainDelay time.Duration
	// DrainTimeout bounds how long what is in flight may take to be answered
	// after that.
	DrainTimeout time.Duration
}

// Roles of a process.
const (
	RoleAll    = "all"
	RoleQueue  = "queue"
	RoleOrders = "orders"
)

// Admin is the operator's listener.
type Admin struct {
	// Listen is the address of the operator page and API, metrics and health.
	Listen string
	// Token is what operators present as Bearer, at least 16 bytes each: one, or several
	// separated by commas as NAME=TOKEN ([ParseOperators]); required when Listen is not a
	// loopback address.
	Token Secret
	// Hosts are the Host headers believed besides the listen address.
	Hosts []string
}

// Line is what every line is made with. All processes on one Redis should
// agree on it.
type Line struct {
	Tick         time.Duration // between two batches
	Jitter       time.Duration // window over which a batch's not-before times are spread
	AdmissionTTL time.Duration // how long an admission is good after its not-before
	TicketTTL    time.Duration // how long a ticket is good
	KeepPlace    time.Duration // how long somebody away keeps a place that the head has passed
	RecoveryHold time.Duration // how long nobody is let in after a loss, beyond the longest interval told
	// How many may wait, and how many be inside at once; 0 is no limit. A new
	// line is born with these: one that is there on Redis, or that an operator
	// has changed, keeps its own.
	MaxLength, MaxActive int64

	PollBudget  float64 // polls/s this instance is willing to answer; 0 is no budget
	InitialRate float64 // orders/s to begin with; 0 is workers ÷ assumed time × margin
}

// MaxLines bounds how many lines there are, the default one included: each costs
// every process a handful of calls to the store a second.
const MaxLines = 100

// FirstSettings are what one line is born with; nil is what every line is. A line
// that is there on Redis, or that an operator has changed, keeps its own.
type FirstSettings struct {
	Weight            *int64
	MaxLength         *int64
	MaxActive         *int64
	PollBudget        *float64   // polls/s of this line and instance
	OpensAt, ClosesAt *time.Time // in whole milliseconds
	Message           *string
	Mode              *string // normal, passthrough, block, bypass
	Paused, SoldOut   *bool
	RateOverride      *float64 // admissions/s
}

// Admission is how the rate is found, what an admission is signed with, and what
// becomes of it without the line's store.
type Admission struct {
	// Margin scales the first guess of the rate: below 1 leaves the database
	// air to breathe.
	Margin float64
	// OnRedisFailure is what visitors meet while the line's store is away: OnFailureBlock,
	// nobody is let in, or OnFailureBypass, they are let in without a line at what was
	// last measured.
	OnRedisFailure string
	// Algorithms of admission tokens: the first signs, all are accepted. AlgorithmHS256,
	// or AlgorithmEdDSA, whose public keys are at /.well-known/jwks.json for others to
	// verify with.
	Algorithms []string
}

// What becomes of visitors while the line's store is away.
const (
	OnFailureBlock  = "block"
	OnFailureBypass = "bypass"
)

// Algorithms of admission tokens.
const (
	AlgorithmHS256 = "HS256"
	AlgorithmEdDSA = "EdDSA"
)

// Identity is how a visitor is told from another.
type Identity struct {
	// Mode is IdentityAnonymous, IdentityHeader or IdentityJWT.
	Mode string
	// TrustedProxies are the addresses of the proxies in front, as CIDR or single
	// addresses: what they say in X-User-Id and X-Forwarded-For is believed.
	TrustedProxies []string
	// Key is a file with the key that verifies the shop's login tokens: a public key in
	// PEM, or the secret of HS256. JWKS is a file or http(s):// address with a set of
	// keys. With IdentityJWT one of the two.
	Key, JWKS string
	// Issuer and Audience, where set, are what a login token must be of.
	Issuer, Audience string
}

// Modes of identity.
const (
	IdentityAnonymous = "anonymous" // the ticket alone says who one is
	IdentityHeader    = "header"    // a trusted proxy says it in X-User-Id
	IdentityJWT       = "jwt"       // the shop's login token says it in Authorization
)

// Limits are what one visitor may do.
type Limits struct {
	// PollFactor is how often a ticket may poll within the interval that it was told;
	// 0 is no bound.
	PollFactor int
	// EnterPerAddress is how many may enter per minute from one address; 0 is no bound.
	EnterPerAddress int
	// ProofOfWork is how many leading zero bits the hash must have that a newcomer's
	// browser has to find before it may enter; 0 asks for none.
	ProofOfWork int
}

// CORS is who else's pages may call the public API.
type CORS struct {
	// Origins are those of other sites, such as https://www.example.com.
	Origins []string
}

// Pages is what a shop changes of the pages; empty is the demo's.
type Pages struct {
	Name     string // of the shop, on top of each page
	Shop     string // where visitors go on to: an http(s):// address, or a path of this server
	Currency string // ISO 4217 code of the demo shop's prices
	Logo     string // a file in Folder, or an http(s):// address
	// Colours as #rrggbb, for light and for dark.
	Accent, AccentDark, Background, BackgroundDark, Text, TextDark string
	// Folder holds the shop's own template, texts and files.
	Folder string
}

// Orders is the order side.
type Orders struct {
	Workers     int           // orders in progress at once, each on its own database connection
	Backlog     int           // orders that may wait for a worker; beyond it is 503
	Deadline    time.Duration // how long an order may wait for a worker
	WaitTarget  time.Duration // how long orders should wait for a worker: above it fewer are let in
	AssumedTime time.Duration // of one order, for the first guess of the rate
	PayWithin   time.Duration // unpaid orders give their stock back after this; 0 is never
	FollowupTTL time.Duration // how long a token is good for the order it made
	// TestDelay makes every order sleep in its transaction, for experiments; 0
	// is off for good. Only a value above 0 can be changed while the process
	// runs.
	TestDelay time.Duration
}

// Coupons is how they are given out.
type Coupons struct {
	// Mode is CouponsDatabase, or CouponsRedis: Redis turns those away who come too
	// late, and the database hears of the others only.
	Mode string
	// Ack is when a claim is acknowledged: AckCommitted, once the database has it, or
	// AckIssued, once Redis has it, which is as durable as that Redis.
	Ack string
}

// Ways of giving coupons out.
const (
	CouponsDatabase = "database"
	CouponsRedis    = "redis"
	AckCommitted    = "committed"
	AckIssued       = "issued"
)

// Payments is who takes them.
type Payments struct {
	// Provider is the http:// or https:// address of the payment provider; empty is
	// none.
	Provider URL
	// Token is what the provider is presented as Bearer; empty is none.
	Token   Secret
	Timeout time.Duration // how long the provider is waited for; then it is asked again in the background
	AtOnce  int           // payments under way at once; beyond it is 503
}

// Log is what is written to standard error.
type Log struct {
	Level       string // debug, info, warn, error
	Format      string // text, json
	AccessEvery int    // log every n-th request, and every 500; 0 is none
}

// Tracing is what a collector is told of requests.
type Tracing struct {
	// Endpoint is the http:// or https:// address of a collector that takes OTLP over HTTP;
	// empty is no tracing.
	Endpoint URL
	// Sample is the share of requests that are traced, 0 to 1.
	Sample float64
	// FollowProxies has the traceparent that identity.trusted_proxies send decide which
	// requests are traced.
	FollowProxies bool
}

// Default is the configuration of `sluice serve` without any file, variable
// or flag.
func Default() Config {
	return Config{
		Listen: "127.0.0.1:8080",
		Admin:  Admin{Listen: "127.0.0.1:9090"},
		Role:   RoleAll,
		Data:   "./data",
		Line: Line{
			Tick:         100 * time.Millisecond,
			Jitter:       2 * time.Second,
			AdmissionTTL: 3 * time.Minute,
			TicketTTL:    12 * time.Hour,
			KeepPlace:    30 * time.Minute,
			RecoveryHold: 15 * time.Second,
			PollBudget:   10_000,
		},
		Admission: Admission{Margin: 0.7, OnRedisFailure: OnFailureBlock, Algorithms: []string{AlgorithmHS256}},
		Identity:  Identity{Mode: IdentityAnonymous},
		Limits:    Limits{PollFactor: 20},
		Pages:     Pages{Shop: "/", Currency: "EUR"},
		Orders: Orders{
			Workers:     10,
			Backlog:     1000,
			Deadline:    10 * time.Second,
			WaitTarget:  500 * time.Millisecond,
			AssumedTime: 200 * time.Millisecond,
			PayWithin:   15 * time.Minute,
			FollowupTTL: 24 * time.Hour,
		},
		Coupons:      Coupons{Mode: CouponsDatabase, Ack: AckCommitted},
		Payments:     Payments{Timeout: 10 * time.Second, AtOnce: 1000},
		Log:          Log{Level: "info", Format: "text", AccessEvery: 100},
		Tracing:      Tracing{Sample: 0.01},
		DrainTimeout: 10 * time.Second,
	}
}
