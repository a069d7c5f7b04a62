package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// ErrNoProvider means that this service takes no payments: the shop does it elsewhere.
var ErrNoProvider = errors.New("orders: no payment provider")

// Pay has an order paid with the token that made it. The payment's state is Paid, or
// PaymentUnknown when the provider did not answer in time or its answer could not be
// stored: then it is asked again in the background until it does. An order that is
// paid already is not charged again. Of all that ask with one token at the same time,
// one is at work; the others wait for it and share what it comes to, but for those who
// name another order: as a token makes one order, they get [ErrOverloaded].
//
// Once begun a payment goes on without whoever asked for it: the end of ctx changes
// nothing. After an error other than [ErrDatabase] nothing is under way; after that
// one the payment may have begun, and the same again finds it.
//
// Errors: [ErrInvalid], [ErrOrderNotFound], [ErrOrderOfAnother], [ErrOrderState],
// [ErrDeclined], whose text ends with ": " and the provider's reason if it gave one,
// [ErrNoProvider], [ErrOverloaded], [ErrStopping], [ErrDatabase].
func (s *Service) Pay(ctx context.Context, b Buyer, orderID, method string) (Payment, error) {
	switch {
	case s.payments == nil:
		return Payment{}, ErrNoProvider
	case method == "" || len(method) > maxMethod || !utf8.ValidString(method):
		return Payment{}, invalid("the payment method must be UTF-8 of 1 to %d bytes", maxMethod)
	case len(orderID) > maxOrderID || !utf8.ValidString(orderID):
		return Payment{}, ErrOrderNotFound
	}
	return s.payments.pay(context.WithoutCancel(ctx), b.TokenID, orderID, method)
}

// Lengths that the store has room for.
const (
	maxMethod    = 64 // bytes
	maxReference = 255
	maxOrderID   = 36
)

// maxReason is how much of a provider's reason is passed on, in bytes.
const maxReason = 200

// payments has orders paid. What it begins and cannot settle it asks for again: see
// [payments.Run].
type payments struct {
	store    PaymentStore
	provider Provider
	timeout  time.Duration
	log      *slog.Logger

	// However often it is paid at once, a token takes one slot, and the provider has
	// one call for its order, the reconciler's included.
	byToken  singleflight.Group
	attempts singleflight.Group
	// slots bound what is under way. Whoever holds all of them knows that nothing is.
	slots  *semaphore.Weighted
	atOnce int
	// halted ends when the process stops, and with it every call of the provider:
	// what is not known by then is asked for by another process, or the next.
	halted context.Context
	halt   context.CancelFunc

	counts paymentCounts
}

func newPayments(store PaymentStore, opts Options, log *slog.Logger) *payments {
	p := &payments{
		store:    store,
		provider: opts.Provider,
		timeout:  opts.PayTimeout,
		log:      log,
		slots:    semaphore.NewWeighted(int64(opts.PaymentsAtOnce)),
		atOnce:   opts.PaymentsAtOnce,
	}
	p.halted, p.halt = context.WithCancel(context.Background())
	return p
}

// pay takes one slot for a token at a time: it has one order, so whoever names another
// meanwhile is refused, or one token with ids made up would hold all slots.
func (p *payments) pay(ctx context.Context, tokenID, orderID, method string) (Payment, error) {
	type told struct {
		Payment
		about string // the order
	}
	v, err, _ := p.byToken.Do(tokenID, func() (any, error) {
		payment, err := p.begin(ctx, tokenID, orderID, method)
		return told{payment, orderID}, err
	})
	if came := v.(told); came.about == orderID {
		return came.Payment, err
	}
	return Payment{}, ErrOverloaded
}

// begin notes that the order is being paid and then has it paid. The slot is taken
// first: an attempt that is noted will be asked for, so it is too late to refuse it.
func (p *payments) begin(ctx context.Context, tokenID, orderID, method string) (Payment, error) {
	if p.halted.Err() != nil {
		return Payment{}, ErrStopping
	}
	if !p.slots.TryAcquire(1) {
		p.counts.refused.Add(1)
		return Payment{}, ErrOverloaded
	}
	defer p.slots.Release(1)
	begun, err := p.note(ctx, tokenID, orderID, method)
	if err != nil {
		return Payment{}, err
	}
	came := settled{Payment: begun}
	if begun.State == PaymentUnknown {
		if came, err = p.settle(ctx, begun); err != nil {
			p.log.Debug("a payment is not settled yet", "order", begun.OrderID, "attempt", begun.Attempt, "error", err)
			return begun, nil
		}
	}
	if came.State == Declined {
		return Payment{}, came.refusal()
	}
	return came.Payment, nil
}

func (p *payments) note(ctx context.Context, tokenID, orderID, method string) (Payment, error) {
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	return p.store.BeginPayment(ctx, orderID, tokenID, method)
}

// settled is what an attempt came to.
type settled struct {
	Payment
	reason string // of the provider for declining it; not stored
}

func (s settled) refusal() error {
	if s.reason == "" {
		return ErrDeclined
	}
	return fmt.Errorf("%w: %s", ErrDeclined, s.reason)
}

// settle asks the provider for the attempt and stores what it says. An error means
// that the payment is as unknown as before.
func (p *payments) settle(ctx context.Context, attempt Payment) (settled, error) {
	v, err, _ := p.attempts.Do(attempt.Key(), func() (any, error) {
		came, err := p.settleOnce(ctx, attempt)
		p.counts.count(came.State, err)
		return came, err
	})
	return v.(settled), err
}

func (p *payments) settleOnce(ctx context.Context, attempt Payment) (settled, error) {
	outcome, err := p.charge(ctx, attempt)
	if err != nil {
		return settled{}, fmt.Errorf("ask the payment provider: %w", err)
	}
	outcome.Reference = presentable(outcome.Reference, maxReference)
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	stored, err := p.store.SettlePayment(ctx, attempt, outcome)
	if err != nil {
		return settled{}, fmt.Errorf("store the outcome of a payment: %w", err)
	}
	return settled{stored, presentable(outcome.Reason, maxReason)}, nil
}

// charge asks the provider, which may be slow, wrong, or panic.
func (p *payments) charge(ctx context.Context, attempt Payment) (o Outcome, err error) {
	defer func() {
		if v := recover(); v != nil {
			p.log.Error("panic in the payment provider's client", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in the payment provider's client: %v", v)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	defer context.AfterFunc(p.halted, cancel)()
	return p.provider.Charge(ctx, attempt)
}

// presentable makes a provider's text one line of valid UTF-8 that the store has room
// for: a payment must not stay unknown because its reference cannot be written.
func presentable(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") // what the cut left of a character
	}
	return strings.TrimSpace(s)
}
