package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"sluice/admission"
	"sluice/admission/redisregister"
	"sluice/configs"
	"sluice/journal"
	"sluice/journal/filejournal"
	"sluice/journal/redisjournal"
	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/queue/redisqueue"
	"sluice/web"
)

// lineStore is where the lines of this process live, and where it keeps what it
// remembers of them.
type lineStore struct {
	name      string // for the banner
	directory queue.Directory
	newLine   func(id string, opts queue.Options) (queue.Line, error)
	register  admission.Register
	journal   journal.Journal
	redis     redis.UniversalClient       // nil for lines in the process
	need      string                      // what a start waits for
	check     func(context.Context) error // whether the store may hold a line

	data string // folder
	// suffix ends the names of the files of this store. What was said to a line
	// elsewhere, say when trying things out without Redis, must not reach the line
	// of the sale.
	suffix string
	// onlyHome is true if nothing but these files outlives the process.
	onlyHome bool
}

// checkRedisEvery is how soon it is said that Redis has become one that loses visitors.
const checkRedisEvery = 5 * time.Second

// openLineStore makes a client of Redis, which has not connected yet, or a home in the
// process.
func (a *app) openLineStore() (*lineStore, error) {
	if a.cfg.Redis == "" {
		s := &lineStore{
			name: "in this process (it ends with it)", data: a.cfg.Data, suffix: "-embedded.json", onlyHome: true,
			newLine:  func(id string, opts queue.Options) (queue.Line, error) { return memqueue.New(id, opts) },
			register: admission.NewLocalRegister(),
			need:     web.NeedLine, check: func(context.Context) error { return nil },
		}
		s.directory = folder{s}
		kept, err := filejournal.Open(filepath.Join(a.cfg.Data, "journal.jsonl"))
		if err != nil {
			return nil, err
		}
		a.onClose("journal", kept.Close)
		s.journal = kept
		return s, nil
	}
	// Each failure comes back as an error and is logged in our own way, once; the client
	// would write a line for every attempt to dial.
	logging.Disable()
	client, err := redisqueue.Dial(string(a.cfg.Redis))
	if err != nil {
		return nil, err
	}
	a.onClose("Redis client", client.Close)
	a.lineLoops = append(a.lineLoops, func(ctx context.Context) error {
		return redisqueue.Guard(ctx, client, checkRedisEvery, a.log)
	})
	_, address, _ := strings.Cut(string(a.cfg.Redis), "://")
	if at := strings.LastIndex(address, "@"); at >= 0 {
		address = address[at+1:] // whoever logs in, it is the same line
	}
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(address)))
	return &lineStore{
		name: a.cfg.Redis.String(), data: a.cfg.Data, suffix: "-redis-" + hash[:12] + ".json",
		directory: redisqueue.NewDirectory(client),
		newLine:   func(id string, opts queue.Options) (queue.Line, error) { return redisqueue.New(client, id, opts) },
		register:  redisregister.New(client, redisregister.Key),
		journal:   redisjournal.New(client, redisjournal.Key),
		redis:     client,
		need:      web.NeedRedis,
		check:     func(ctx context.Context) error { return redisqueue.Check(ctx, client) },
	}, nil
}

const rememberedPrefix = "line-"

// path is the file for what must outlive this process of a line.
func (s *lineStore) path(id string) string {
	return filepath.Join(s.data, rememberedPrefix+id+s.suffix)
}

// remembered are the ids of the lines that this process remembers, sorted.
func (s *lineStore) remembered() ([]string, error) {
	files, err := os.ReadDir(s.data)
	if err != nil {
		return nil, fmt.Errorf("looking for lines: %w", err)
	}
	var ids []string
	for _, file := range files {
		id, isLine := strings.CutPrefix(file.Name(), rememberedPrefix)
		id, isOurs := strings.CutSuffix(id, s.suffix)
		if isLine && isOurs && queue.ValidID(id) && file.Type().IsRegular() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// recall is what this process remembers of a line; nil if nothing.
func (s *lineStore) recall(id string, log *slog.Logger) (*queue.Remembered, error) {
	known, ok, err := queue.Recall(s.path(id))
	if err != nil && s.onlyHome {
		return nil, err
	}
	if err != nil { // Redis has the truth, unless it loses it in this moment
		log.Warn("what this process remembers of the line cannot be read", "line", id, "error", err)
	}
	if !ok {
		return nil, nil
	}
	return &known, nil
}

// folder is the directory of the embedded lines: each is there as long as the
// file that its keeper writes.
type folder struct{ store *lineStore }

// Lines implements [queue.Directory].
func (f folder) Lines(context.Context) ([]string, error) { return f.store.remembered() }

// Add implements [queue.Directory].
func (f folder) Add(context.Context, ...string) error { return nil }

// lineOptions are what a line is made with: every line's, and what the
// configuration says of this one.
func lineOptions(c configs.Config, id string) queue.Options {
	opts := queue.DefaultOptions()
	opts.Tick = c.Line.Tick
	opts.Jitter = c.Line.Jitter
	opts.AdmissionTTL = c.Line.AdmissionTTL
	opts.TicketTTL = c.Line.TicketTTL
	opts.KeepPlace = c.Line.KeepPlace
	opts.RecoveryHold = c.Line.RecoveryHold
	opts.Initial.MaxLength = c.Line.MaxLength
	opts.Initial.MaxActive = c.Line.MaxActive
	if first := c.Lines[id]; first != nil {
		opts.Initial = opts.Initial.Apply(firstPatch(first))
	}
	return opts
}

func firstPatch(s *configs.FirstSettings) queue.Patch {
	p := queue.Patch{
		Paused: s.Paused, Message: s.Message, Mode: (*queue.Mode)(s.Mode), MaxActive: s.MaxActive, MaxLength: s.MaxLength,
		SoldOut: s.SoldOut, Weight: s.Weight,
	}
	if s.RateOverride != nil {
		p.RateOverride = &s.RateOverride
	}
	if s.PollBudget != nil {
		p.PollBudget = &s.PollBudget
	}
	if s.OpensAt != nil {
		p.OpensAt = &s.OpensAt
	}
	if s.ClosesAt != nil {
		p.ClosesAt = &s.ClosesAt
	}
	return p
}
