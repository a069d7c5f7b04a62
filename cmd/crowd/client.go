package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// answer is what the service said, of any endpoint; what it did not say is zero.
type answer struct {
	Status     int           `json:"-"`
	RetryAfter time.Duration `json:"-"`

	Code       string   `json:"code"` // of a problem
	State      string   `json:"state"`
	Reason     string   `json:"reason"`
	Position   int64    `json:"position"`
	Estimate   estimate `json:"estimated_wait_ms"`
	Range      [2]int64 `json:"estimated_wait_range_ms"` // zero if none was told
	PollAfter  int64    `json:"poll_after_ms"`
	ServerTime wireTime `json:"server_time"`
	OpensAt    wireTime `json:"opens_at"`
	Ticket     string   `json:"ticket"`
	Token      string   `json:"token"`
	UsableIn   int64    `json:"usable_in_ms"`
	ExpiresIn  int64    `json:"expires_in_ms"`
	OrderID    string   `json:"order_id"`
	Coupon     string   `json:"-"` // the code of one that was claimed
	Retry      int64    `json:"retry_after_ms"`
	Challenge  string   `json:"challenge"` // of a newcomer's proof of work
	Bits       int64    `json:"bits"`
}

// api is the service as a visitor sees it. An error means that there was no
// answer; nothing is known then about what the service did.
type api interface {
	enter(target int, ticket string) (answer, error)
	position(target int, ticket string) (answer, error)
	leave(target int, ticket string) (answer, error)
	claim(target int, token string) (answer, error)
	order(target int, token string, quantity int, coupon string) (answer, error)
}

// client speaks HTTP to the instances of the service over keep-alive
// connections. It retries nothing: what goes wrong is the visitor's to meet.
type client struct {
	instances []*instance
	heads     [][endpoints]string // of the requests to each instance
	product   int64
}

// maxBody bounds an answer: one with a token and a ticket has about 1 KiB.
const maxBody = 64 << 10

func newClient(targets []*url.URL, line string, product, coupon int64, connections int, timeout time.Duration, remote bool) *client {
	c := &client{product: product}
	query := "?line=" + url.QueryEscape(line)
	for _, u := range targets {
		i := newInstance(u, max(1, connections/len(targets)), timeout, remote)
		c.instances = append(c.instances, i)
		c.heads = append(c.heads, [endpoints]string{
			epEnter:    i.request(http.MethodPost, "/queue/enter"+query, ""),
			epPosition: i.request(http.MethodGet, "/queue/position"+query, ""),
			epLeave:    i.request(http.MethodPost, "/queue/leave"+query, ""),
			epClaim:    i.request(http.MethodPost, fmt.Sprintf("/coupons/%d/claim", coupon), ""),
			epOrder:    i.request(http.MethodPost, "/orders", "Content-Type: application/json\r\n"),
		})
	}
	return c
}

func (c *client) close() {
	for _, i := range c.instances {
		i.close()
	}
}

// enter does the work that a newcomer may be asked for first, as the pages do.
func (c *client) enter(target int, ticket string) (answer, error) {
	a, err := c.do(target, epEnter, headTicket, ticket, "")
	if err != nil || a.Code != "proof_required" {
		return a, err
	}
	proof, err := prove(a.Challenge, int(a.Bits))
	if err != nil {
		return a, err
	}
	return c.do(target, epEnter, "X-Queue-Proof: ", proof, "")
}

// maxProofBits bounds what the crowd lets a service make it do.
const maxProofBits = 24

// prove finds a nonce such that the SHA-256 of challenge:nonce begins with so many zero
// bits.
func prove(challenge string, zeroBits int) (string, error) {
	if challenge == "" || zeroBits < 1 || zeroBits > maxProofBits {
		return "", fmt.Errorf("a proof of %d bits for the challenge %q", zeroBits, challenge)
	}
	proof := append([]byte(challenge), ':')
	for n := uint64(0); ; n++ {
		tried := strconv.AppendUint(proof, n, 36)
		if sum := sha256.Sum256(tried); bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= zeroBits {
			return string(tried), nil
		}
	}
}

func (c *client) position(target int, ticket string) (answer, error) {
	return c.do(target, epPosition, headTicket, ticket, "")
}

func (c *client) leave(target int, ticket string) (answer, error) {
	return c.do(target, epLeave, headTicket, ticket, "")
}

// claim asks for the coupon. In an answer of success "code" is what was claimed, and
// not what is wrong.
func (c *client) claim(target int, token string) (answer, error) {
	a, err := c.do(target, epClaim, headToken, token, "")
	if a.Status < 300 {
		a.Coupon, a.Code = a.Code, ""
	}
	return a, err
}

func (c *client) order(target int, token string, quantity int, coupon string) (answer, error) {
	body := fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":%d}],"coupon_code":%q}`, c.product, quantity, coupon)
	if coupon == "" {
		body = fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":%d}]}`, c.product, quantity)
	}
	return c.do(target, epOrder, headToken, token, body)
}

// What proves who asks.
const (
	headTicket = "X-Queue-Ticket: "
	headToken  = "Authorization: Bearer "
)

// do asks an instance, with a header unless its value is empty.
func (c *client) do(target int, ep endpoint, header, value, body string) (a answer, err error) {
	write := func(b []byte) []byte {
		b = append(b, c.heads[target][ep]...)
		if value != "" {
			b = append(append(append(b, header...), value...), "\r\n"...)
		}
		if body != "" {
			b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10), "\r\n"...)
		}
		return append(append(b, "\r\n"...), body...)
	}
	err = c.instances[target].ask(write, func(r *fasthttp.Response) (err error) {
		a, err = decode(r.StatusCode(), r.Header.Peek("Retry-After"), r.Body())
		return err
	})
	if err != nil {
		return a, fmt.Errorf("%s: %w", ep, err)
	}
	return a, nil
}

// longestRetry bounds what a refusal can ask for: no crowd stays as long.
const longestRetry = 24 * time.Hour

// decode reads an answer. The service's body says more exactly than the header
// when to try again; a proxy in front of it may say it in the header alone.
func decode(status int, retryAfter, body []byte) (answer, error) {
	a := answer{Status: status}
	if len(body) > 0 && !a.fields(body) {
		a = answer{Status: status}
		if err := json.Unmarshal(body, &a); err != nil && status < 300 {
			return a, fmt.Errorf("the answer is no JSON: %w", err)
		}
	}
	if a.Retry > 0 {
		a.RetryAfter = time.Duration(min(a.Retry, longestRetry.Milliseconds())) * time.Millisecond
	} else if s, err := strconv.Atoi(string(retryAfter)); err == nil && s > 0 {
		a.RetryAfter = time.Duration(min(s, int(longestRetry.Seconds()))) * time.Second
	}
	return a, nil
}

// claims are what anybody can read of a ticket or a token without a key.
type claims struct {
	ID        string  `json:"jti"`
	Place     int64   `json:"place"`
	IssuedAt  float64 `json:"iat"` // s; of a token the time of the admission, to the ms
	ExpiresAt float64 `json:"exp"`
}

func readClaims(jwt string) (claims, error) {
	var c claims
	_, rest, _ := strings.Cut(jwt, ".")
	payload, _, ok := strings.Cut(rest, ".")
	if !ok {
		return c, errors.New("not a JWT")
	}
	var space [512]byte
	raw, err := base64.RawURLEncoding.AppendDecode(space[:0], []byte(payload))
	if err != nil {
		return c, fmt.Errorf("the payload of a JWT: %w", err)
	}
	if !c.fields(raw) {
		c = claims{}
		if err := json.Unmarshal(raw, &c); err != nil {
			return c, fmt.Errorf("the payload of a JWT: %w", err)
		}
	}
	if c.ID == "" {
		return c, errors.New("a JWT without an id")
	}
	return c, nil
}

// milliseconds is a NumericDate of a claim in whole milliseconds.
func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// dialer connects to this machine alone, unless remote is allowed: a name can lead
// elsewhere by the time it is dialled, and between two dials.
func dialer(timeout time.Duration, remote bool) *net.Dialer {
	d := &net.Dialer{Timeout: timeout, KeepAlive: -1} // probes are four calls of the system for each connection
	if !remote {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().Unmap().IsLoopback() {
				return fmt.Errorf("%s is not this machine: only with --allow-remote", address)
			}
			return nil
		}
	}
	return d
}

// parseTarget checks a base URL; unless remote is allowed every address of its
// host must be this machine's own: a crowd is a weapon.
func parseTarget(ctx context.Context, raw string, remote bool) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("%q is not a base URL like http://127.0.0.1:8080", raw)
	}
	if remote {
		return u, nil
	}
	addresses, err := net.DefaultResolver.LookupIPAddr(ctx, u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", u.Hostname(), err)
	}
	for _, a := range addresses {
		if !a.IP.IsLoopback() {
			return nil, fmt.Errorf("%s is %s, not this machine: only with --allow-remote", u.Hostname(), a.IP)
		}
	}
	return u, nil
}
