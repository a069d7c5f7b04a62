package web

import (
	"context"
	"errors"
	"hash/maphash"
	"net/netip"
	"time"

	"github.com/gofiber/fiber/v2"

	"sluice/queue"
)

// Limits are what one visitor may do. The zero value sets none. Each instance
// counts what comes to it: of two, each allows as much.
type Limits struct {
	// PollFactor is how many times a ticket may poll within the interval that it was
	// told; 0 is no bound.
	PollFactor int
	// EnterPerAddress is how many new places one address may take per minute; an IPv6
	// address stands for its network of 64 bits. 0 is no bound.
	EnterPerAddress int
	// Proofs, where set, ask every newcomer for a proof of work.
	Proofs *Proofs
}

func (l Limits) validate() error {
	if l.PollFactor < 0 || l.EnterPerAddress < 0 {
		return errors.New("limits must not be negative")
	}
	return nil
}

// unknownInterval is what a ticket goes by that was told no interval lately: one
// that came seldom enough to be forgotten, or whose wait is over.
const unknownInterval = time.Second

// limits count what visitors do; each is nil where it is off.
type limits struct {
	polls, enters *pacer
	proofs        *Proofs
}

func newLimits(l Limits) limits {
	return limits{newPacer(l.PollFactor, pacerSets), newPacer(l.EnterPerAddress, pacerSets), l.Proofs}
}

// poll refuses a ticket that comes far more often than it was told to, before the
// line is asked.
func (l *limits) poll(ticketID string) error {
	if l.polls == nil {
		return nil
	}
	if early := l.polls.take(l.polls.key(ticketID), unknownInterval); early > 0 {
		return retryAfter(errRateLimited, early)
	}
	return nil
}

// told notes the interval that a ticket was told.
func (l *limits) told(ticketID string, interval time.Duration) {
	if l.polls != nil {
		l.polls.told(l.polls.key(ticketID), interval)
	}
}

// place gives the visitor a place, or finds the one they have. Limits are for new
// places only, so with limits it is looked first whether the visitor has one: who
// reloads a page is no newcomer, who has left and comes back is.
func (s *Server) place(ctx context.Context, c *fiber.Ctx, l *line, subject string, held *queue.Ticket) (queue.Standing, error) {
	if s.limits.enters == nil && s.limits.proofs == nil {
		return l.line.Enter(ctx, subject, held)
	}
	if held != nil {
		standing, err := l.line.Standing(ctx, *held)
		if err == nil && standing.State.Live() || err != nil && !errors.Is(err, queue.ErrEpoch) {
			return standing, err
		}
	}
	address := s.limits.enters.address(s.client(c))
	if err := s.limits.enter(address); err != nil {
		return queue.Standing{}, err
	}
	if err := s.limits.proofs.check(c, l); err != nil {
		s.limits.enters.giveBack(address)
		return queue.Standing{}, err
	}
	standing, err := l.line.Enter(ctx, subject, held)
	if err != nil || !standing.Created { // whom the line knows by another ticket
		s.limits.enters.giveBack(address)
	}
	return standing, err
}

// enter refuses an address from which too many have entered.
func (l *limits) enter(address uint64) error {
	if l.enters == nil {
		return nil
	}
	if early := l.enters.take(address, time.Minute); early > 0 {
		// Spread, since all who share the address are told the same.
		return &explained{error: errRateLimited, detail: "Too many have entered from this address lately.", retry: spread(max(early, time.Second))}
	}
	return nil
}

// address is the key of an address; 0 of a nil pacer. Whoever has one address of
// IPv6 has 2^64.
func (p *pacer) address(a netip.Addr) uint64 {
	if p == nil {
		return 0
	}
	if a.Is6() {
		if network, err := a.WithZone("").Prefix(64); err == nil {
			a = network.Addr()
		}
	}
	return maphash.Comparable(p.seed, a)
}
