// Package standin pretends to be a payment provider: it is as slow, as strict and as
// unreliable as it is told to be, and keeps books that show whether anybody was charged
// twice. It is for tests, for measuring, and for the demo; no money moves.
package standin

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/orders"
)

// Options are how it behaves. The zero value takes every payment at once.
type Options struct {
	// Delay is how long a charge takes. It goes on if whoever asked leaves.
	Delay time.Duration
	// Decline is the share of charges that are declined, from 0 to 1.
	Decline float64
	// Timeout is the share of charges whose first answer is never sent, from 0 to 1:
	// the money is taken, or not, and whoever asked hears nothing until they leave.
	// Asked again it answers.
	Timeout float64
	// Seed decides which charges these are: the same keys have the same fate.
	Seed uint64
}

// Standin is an [orders.Provider], and over HTTP by [Standin.Handler]. It remembers
// every charge until it is thrown away.
type Standin struct {
	opts Options

	mu       sync.Mutex
	requests int64              // guarded by mu
	charges  map[string]*charge // guarded by mu; by idempotency key
}

var _ orders.Provider = (*Standin)(nil)

// charge is what is done for one idempotency key.
type charge struct {
	payment terms
	fate
	done chan struct{} // closed, under mu, once the charge has been made or declined
	made bool          // guarded by mu; likewise
}

// terms are what a key stands for. The same key with others is refused.
type terms struct {
	orderID string
	amount  int64
	method  string
}

// fate is what becomes of a charge.
type fate struct {
	declined bool
	unheard  bool // its first answer
}

var errOtherTerms = errors.New("this idempotency key was used for another payment")

// New checks the options.
func New(opts Options) (*Standin, error) {
	var errs []error
	if opts.Delay < 0 {
		errs = append(errs, fmt.Errorf("the delay must be at least 0, not %s", opts.Delay))
	}
	for name, share := range map[string]float64{"declined": opts.Decline, "not answered": opts.Timeout} {
		if !(share >= 0 && share <= 1) { // NaN is neither
			errs = append(errs, fmt.Errorf("the share of charges that are %s must be between 0 and 1, not %v", name, share))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Standin{opts: opts, charges: map[string]*charge{}}, nil
}

// Charge implements [orders.Provider], in process.
func (s *Standin) Charge(ctx context.Context, p orders.Payment) (orders.Outcome, error) {
	return s.charge(ctx, p.Key(), terms{p.OrderID, p.Amount, p.Method})
}

// charge makes the key's charge, or waits for it if somebody else has asked for it.
func (s *Standin) charge(ctx context.Context, key string, t terms) (orders.Outcome, error) {
	c, first := s.enter(key, t)
	if c.payment != t {
		return orders.Outcome{}, errOtherTerms
	}
	done := c.done
	if first && c.unheard {
		done = nil // for ever
	}
	select {
	case <-done:
	case <-ctx.Done():
		return orders.Outcome{}, ctx.Err()
	}
	if c.declined {
		return orders.Outcome{Reason: "insufficient funds"}, nil
	}
	return orders.Outcome{Paid: true, Reference: "standin-" + key}, nil
}

// enter finds or begins the charge of a key.
func (s *Standin) enter(key string, t terms) (c *charge, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if c, ok := s.charges[key]; ok {
		return c, false
	}
	c = &charge{payment: t, fate: s.opts.fate(key), done: make(chan struct{})}
	s.charges[key] = c
	time.AfterFunc(s.opts.Delay, func() { s.make(c) })
	return c, true
}

func (s *Standin) make(c *charge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.made = true
	close(c.done)
}

// fate depends on nothing but seed and key, so that a run can be repeated whatever the
// order in which its requests arrive.
func (o Options) fate(key string) fate {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // cannot fail
	r := rand.New(rand.NewPCG(o.Seed, h.Sum64()))
	return fate{declined: r.Float64() < o.Decline, unheard: r.Float64() < o.Timeout}
}

// Report is what the books say.
type Report struct {
	// Requests counts every time that somebody asked, Charges the idempotency keys.
	Requests int64 `json:"requests"`
	Charges  int64 `json:"charges"`
	// Paid and Declined are the charges that have been made and declined, Unanswered
	// those of both whose first answer was not sent.
	Paid       int64 `json:"paid"`
	Declined   int64 `json:"declined"`
	Unanswered int64 `json:"unanswered"`
	// ChargedTwice counts the orders that were paid more than once: it must be 0.
	ChargedTwice int64 `json:"charged_twice"`
	// PaidByOrder is how often each order was paid, of those that were.
	PaidByOrder map[string]int64 `json:"paid_by_order"`
}

// Report reads the books.
func (s *Standin) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{Requests: s.requests, Charges: int64(len(s.charges)), PaidByOrder: map[string]int64{}}
	for _, c := range s.charges {
		if !c.made {
			continue
		}
		if c.unheard {
			r.Unanswered++
		}
		if c.declined {
			r.Declined++
			continue
		}
		r.Paid++
		r.PaidByOrder[c.payment.orderID]++
		if r.PaidByOrder[c.payment.orderID] == 2 {
			r.ChargedTwice++
		}
	}
	return r
}
