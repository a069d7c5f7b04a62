package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// refreshEvery is how old a set of keys gets: a key that is withdrawn is believed
	// for that long. A new key is asked for when somebody comes with it.
	refreshEvery = 5 * time.Minute
	// retryEvery is when an address that failed is asked again.
	retryEvery = 5 * time.Second
	// askEvery bounds how often an unknown key id has the address asked. Anybody can
	// make one up.
	askEvery = 10 * time.Second
	// patience is how long a visitor is kept for the answer; the rest of fetchTimeout
	// is for those who come later.
	patience     = time.Second
	fetchTimeout = 5 * time.Second
	maxSet       = 1 << 20 // bytes
)

// remote is a set of keys that is fetched from an address. The last good one is kept
// while the address does not answer, or answers something else.
type remote struct {
	address string
	name    string // without a password
	client  *http.Client
	log     *slog.Logger

	current atomic.Pointer[keys]
	ask     chan struct{} // wakes run

	mu      sync.Mutex
	pending chan struct{} // closed when the fetch under way, or asked for, has ended; nil without one
	began   time.Time     // the last one
}

func newRemote(address string, log *slog.Logger) *remote {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	transport := http.DefaultTransport
	if t, ok := transport.(*http.Transport); ok {
		transport = t.Clone() // its connections end with us
	}
	name := "the address"
	if u, err := url.Parse(address); err == nil {
		// Without what may be secret in it: the user, the query.
		name = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	// The first fetch is asked for: who comes before it waits for it.
	return &remote{
		address: address, name: name, client: &http.Client{Timeout: fetchTimeout, Transport: transport}, log: log,
		ask: make(chan struct{}, 1), pending: make(chan struct{}),
	}
}

// find implements [source].
func (r *remote) find(ctx context.Context, id, algorithm string) (any, error) {
	found, err := r.known(ctx, id, algorithm)
	if !errors.Is(err, errNoKey) && !errors.Is(err, ErrUnavailable) {
		return found, err
	}
	select {
	case <-r.asked():
	case <-ctx.Done():
	}
	return r.known(ctx, id, algorithm)
}

func (r *remote) known(ctx context.Context, id, algorithm string) (any, error) {
	set := r.current.Load()
	if set == nil {
		return nil, ErrUnavailable
	}
	return set.find(ctx, id, algorithm)
}

// asked is closed once the address was asked for keys that are not here; at once if
// that was done lately.
func (r *remote) asked() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending != nil {
		return r.pending
	}
	done := make(chan struct{})
	if time.Since(r.began) < askEvery {
		close(done)
		return done
	}
	r.pending = done
	select {
	case r.ask <- struct{}{}:
	default:
	}
	return done
}

// run fetches now, when somebody asks, and from time to time, until ctx ends.
func (r *remote) run(ctx context.Context) error {
	defer r.client.CloseIdleConnections()
	failing := false
	for {
		r.begin()
		err := r.fetch(ctx)
		r.end()
		wait := refreshEvery
		switch {
		case ctx.Err() != nil:
		case err != nil:
			wait = retryEvery
			if !failing {
				r.log.Warn("the keys of logins cannot be read; those that are here stay good", "from", r.name, "error", err)
			}
		case failing:
			r.log.Info("the keys of logins can be read again", "from", r.name)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-r.ask:
		case <-time.After(wait):
		}
	}
}

func (r *remote) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = time.Now()
	if r.pending == nil { // whoever comes meanwhile waits for this one
		r.pending = make(chan struct{})
	}
}

func (r *remote) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.pending)
	r.pending = nil
	select {
	case <-r.ask: // it has been done
	default:
	}
}

// fetch takes over what the address has, if it is a set of keys.
func (r *remote) fetch(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/jwk-set+json, application/json")
	res, err := r.client.Do(req)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil {
			err = inner // the outer one repeats the address
		}
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxSet+1))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if len(raw) > maxSet {
		return fmt.Errorf("the answer is longer than %d bytes", maxSet)
	}
	set, err := parseSet(raw)
	if err != nil {
		return err
	}
	r.current.Store(&set)
	return nil
}
