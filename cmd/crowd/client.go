package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
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

	Code       string  `json:"code"` // of a problem
	State      string  `json:"state"`
	Reason     string  `json:"reason"`
	Position   int64   `json:"position"`
	Estimate   *int64  `json:"estimated_wait_ms"`
	Range      []int64 `json:"estimated_wait_range_ms"`
	PollAfter  int64   `json:"poll_after_ms"`
	ServerTime string  `json:"server_time"`
	OpensAt    string  `json:"opens_at"`
	Ticket     string  `json:"ticket"`
	Token      string  `json:"token"`
	UsableIn   int64   `json:"usable_in_ms"`
	ExpiresIn  int64   `json:"expires_in_ms"`
	OrderID    string  `json:"order_id"`
	Coupon     string  `json:"-"` // the code of one that was claimed
	Retry      int64   `json:"retry_after_ms"`
	Challenge  string  `json:"challenge"` // of a newcomer's proof of work
	Bits       int     `json:"bits"`
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
	hosts   []*fasthttp.HostClient
	bases   []string
	query   string
	product int64
	coupon  int64
}

// maxBody bounds an answer: one with a token and a ticket has about 1 KiB.
const maxBody = 64 << 10

func newClient(targets []*url.URL, line string, product, coupon int64, connections int, timeout time.Duration, remote bool) *client {
	dial := dialer(timeout, remote)
	c := &client{query: "?line=" + url.QueryEscape(line), product: product, coupon: coupon}
	for _, u := range targets {
		c.bases = append(c.bases, strings.TrimSuffix(u.String(), "/"))
		c.hosts = append(c.hosts, &fasthttp.HostClient{
			Addr:                      address(u),
			IsTLS:                     u.Scheme == "https",
			TLSConfig:                 &tls.Config{MinVersion: tls.VersionTLS12},
			MaxConns:                  max(1, connections/len(targets)),
			MaxConnWaitTimeout:        timeout,
			MaxIdleConnDuration:       5 * time.Second, // below every server's own
			MaxIdemponentCallAttempts: 1,
			ReadTimeout:               timeout,
			WriteTimeout:              timeout,
			MaxResponseBodySize:       maxBody,
			NoDefaultUserAgentHeader:  true,
			Dial:                      func(addr string) (net.Conn, error) { return dial.Dial("tcp", addr) },
		})
	}
	return c
}

func (c *client) close() {
	for _, h := range c.hosts {
		h.CloseIdleConnections()
	}
}

// enter does the work that a newcomer may be asked for first, as the pages do.
func (c *client) enter(target int, ticket string) (answer, error) {
	a, err := c.do(target, fasthttp.MethodPost, "/queue/enter", c.query, "X-Queue-Ticket", ticket, "")
	if err != nil || a.Code != "proof_required" {
		return a, err
	}
	proof, err := prove(a.Challenge, a.Bits)
	if err != nil {
		return a, err
	}
	return c.do(target, fasthttp.MethodPost, "/queue/enter", c.query, "X-Queue-Proof", proof, "")
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
	return c.do(target, fasthttp.MethodGet, "/queue/position", c.query, "X-Queue-Ticket", ticket, "")
}

func (c *client) leave(target int, ticket string) (answer, error) {
	return c.do(target, fasthttp.MethodPost, "/queue/leave", c.query, "X-Queue-Ticket", ticket, "")
}

// claim asks for the coupon. In an answer of success "code" is what was claimed, and
// not what is wrong.
func (c *client) claim(target int, token string) (answer, error) {
	a, err := c.do(target, fasthttp.MethodPost, fmt.Sprintf("/coupons/%d/claim", c.coupon), "", "Authorization", "Bearer "+token, "")
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
	return c.do(target, fasthttp.MethodPost, "/orders", "", "Authorization", "Bearer "+token, body)
}

func (c *client) do(target int, method, path, query, header, value, body string) (answer, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.Header.SetMethod(method)
	req.SetRequestURI(c.bases[target] + path + query)
	if value != "" {
		req.Header.Set(header, value)
	}
	if body != "" {
		req.Header.SetContentType("application/json")
		req.SetBodyString(body)
	}
	if err := c.hosts[target].Do(req, resp); err != nil {
		return answer{}, fmt.Errorf("%s %s: %w", method, path, err)
	}
	a, err := decode(resp.StatusCode(), resp.Header.Peek("Retry-After"), resp.Body())
	if err != nil {
		return a, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return a, nil
}

// longestRetry bounds what a refusal can ask for: no crowd stays as long.
const longestRetry = 24 * time.Hour

// decode reads an answer. The service's body says more exactly than the header
// when to try again; a proxy in front of it may say it in the header alone.
func decode(status int, retryAfter, body []byte) (answer, error) {
	a := answer{Status: status}
	if len(body) > 0 {
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
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return c, fmt.Errorf("the payload of a JWT: %w", err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("the payload of a JWT: %w", err)
	}
	if c.ID == "" {
		return c, errors.New("a JWT without an id")
	}
	return c, nil
}

// milliseconds is a NumericDate of a claim in whole milliseconds.
func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }

// wireMS is a time of an answer in Unix milliseconds, 0 if there is none.
func wireMS(s string) int64 {
	if s == "" {
		return 0
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}

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
	d := &net.Dialer{Timeout: timeout}
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
