package identity

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// site is where the keys are; it answers in virtual time.
type site struct {
	mu     sync.Mutex
	status int
	body   []byte
	takes  time.Duration
	asked  int
}

func (s *site) has(status int, body []byte, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body, s.takes = status, body, takes
}

func (s *site) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked++
	status, body, takes := s.status, s.body, s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

// journal is a log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// withSite runs a test on keys that are fetched, in virtual time.
func withSite(t *testing.T, test func(t *testing.T, s *site, l *Logins, log *journal)) {
	signers() // not in the bubble: it takes real time
	synctest.Test(t, func(t *testing.T) {
		s, log := &site{}, &journal{}
		s.has(200, jwks(t, jwk(t, "a", "ed25519")), 10*time.Millisecond)
		l := newLogins(t, Options{JWKS: "https://keys:hunter2@shop.test/jwks?api-key=hunter2", Log: slog.New(slog.NewTextHandler(log, nil))})
		l.remote.client.Transport = s
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		test(t, s, l, log)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("a password is in the log: %s", log)
		}
	})
}

var (
	byA = by("a", "ed25519", jwt.SigningMethodEdDSA)
	byB = by("b", "p256", jwt.SigningMethodES256)
)

// asks is how a login fares, and how long that took.
func asks(t *testing.T, l *Logins, login login) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	got, err := l.Subject(login.raw(t), now)
	if err == nil && got != "ann" {
		t.Errorf("subject %q", got)
	}
	return time.Since(began), err
}

func refused(err error) bool { return errors.As(err, new(*Refusal)) }

// The first visitors wait for the keys, for a moment; then it is said that they are not
// here, which is no verdict on a login.
func TestFirstKeys(t *testing.T) {
	withSite(t, func(t *testing.T, s *site, l *Logins, _ *journal) {
		if took, err := asks(t, l, byA); err != nil || took > 20*time.Millisecond {
			t.Errorf("%v after %s", err, took)
		}
	})
	withSite(t, func(t *testing.T, s *site, l *Logins, log *journal) {
		s.has(200, nil, time.Hour)
		for range 3 {
			if took, err := asks(t, l, byA); !errors.Is(err, ErrUnavailable) || took > patience {
				t.Errorf("%v after %s", err, took)
			}
		}
		s.has(200, jwks(t, jwk(t, "a", "ed25519")), 10*time.Millisecond)
		time.Sleep(fetchTimeout + retryEvery + time.Second)
		if took, err := asks(t, l, byA); err != nil || took > 0 {
			t.Errorf("once the address answers: %v after %s", err, took)
		}
		if got := strings.Count(log.String(), "\n"); got != 2 {
			t.Errorf("an outage and its end are %d lines:\n%s", got, log)
		}
	})
}

// A new key is asked for when somebody comes with it; whoever makes ids up has the
// address asked once in a while, and holds nobody up who has a good one.
func TestNewKeys(t *testing.T) {
	withSite(t, func(t *testing.T, s *site, l *Logins, _ *journal) {
		time.Sleep(time.Minute)
		s.has(200, jwks(t, jwk(t, "a", "ed25519"), jwk(t, "b", "p256")), 10*time.Millisecond)
		var waiting sync.WaitGroup
		for range 100 { // together
			waiting.Go(func() {
				if took, err := asks(t, l, byB); err != nil || took > 20*time.Millisecond {
					t.Errorf("%v after %s", err, took)
				}
			})
		}
		waiting.Wait()
		if n := s.count(); n != 2 {
			t.Errorf("asked %d times", n)
		}
		began := time.Now()
		for time.Since(began) < time.Minute {
			if took, err := asks(t, l, by("made up", "p256", jwt.SigningMethodES256)); !refused(err) || took > 20*time.Millisecond {
				t.Fatalf("%v after %s", err, took)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.count() - 2; n < 5 || n > 7 {
			t.Errorf("asked %d times in a minute", n)
		}
		s.has(200, nil, time.Hour) // and while it hangs
		time.Sleep(askEvery)
		go func() { _, _ = asks(t, l, by("made up", "p256", jwt.SigningMethodES256)) }()
		synctest.Wait()
		if took, err := asks(t, l, byA); err != nil || took > 0 {
			t.Errorf("a good login beside made up ones: %v after %s", err, took)
		}
		if took, err := asks(t, l, by("made up", "p256", jwt.SigningMethodES256)); !refused(err) || took > patience {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// A key that is withdrawn is believed for refreshEvery at most, without anybody asking.
func TestWithdrawnKeys(t *testing.T) {
	withSite(t, func(t *testing.T, s *site, l *Logins, _ *journal) {
		if _, err := asks(t, l, byA); err != nil {
			t.Fatal(err)
		}
		s.has(200, jwks(t, jwk(t, "b", "p256")), 10*time.Millisecond)
		time.Sleep(refreshEvery + time.Second)
		if _, err := asks(t, l, byA); !refused(err) {
			t.Errorf("the key that was withdrawn: %v", err)
		}
		if _, err := asks(t, l, byB); err != nil {
			t.Errorf("the new one: %v", err)
		}
	})
}

// Whatever the address says instead of keys, those that are here stay good.
func TestKeysOutliveTheirAddress(t *testing.T) {
	good := jwks(t, jwk(t, "b", "p256"))
	for name, c := range map[string]struct {
		status int
		body   []byte
		takes  time.Duration
	}{
		"an error":       {500, good, 0},
		"another page":   {200, []byte("<html>please log in</html>"), 0},
		"no keys":        {200, []byte(`{"keys":[]}`), 0},
		"an empty one":   {200, []byte(`{}`), 0},
		"nothing":        {200, nil, 0},
		"nothing useful": {200, jwks(t, jwk(t, "weak", "weak rsa")), 0},
		"too much":       {200, append(bytes.Clone(good), bytes.Repeat([]byte(" "), maxSet)...), 0},
		"silence":        {200, good, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			withSite(t, func(t *testing.T, s *site, l *Logins, log *journal) {
				time.Sleep(time.Second)
				s.has(c.status, c.body, c.takes)
				for range 60 {
					time.Sleep(time.Minute)
					if took, err := asks(t, l, byA); err != nil || took > 0 {
						t.Fatalf("%v after %s", err, took)
					}
				}
				if got := strings.Count(log.String(), "\n"); got != 1 {
					t.Errorf("%d lines:\n%s", got, log)
				}
				s.has(200, good, 0)
				time.Sleep(retryEvery + fetchTimeout)
				if _, err := asks(t, l, byB); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
}
