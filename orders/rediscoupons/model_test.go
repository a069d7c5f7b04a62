package rediscoupons

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"sluice/orders"
	"sluice/servicetest"
)

// TestAnswersAsTheDatabaseWould plays what may happen to two processes, their Redis and
// their database in any order: losses, deaths between Redis and the database, answers
// that are lost, claims past Redis, catalogues that are behind, anything of that while a
// claim is on its way. Who is told that the database has their claim is told the truth,
// and unless Redis loses something, whoever is told a code keeps it. In the end, when
// the stream has been written and the catalogue is fresh, everybody is answered as the
// database would: nobody is refused what they have, and no coupon is lost.
func TestAnswersAsTheDatabaseWould(t *testing.T) {
	var wire wire
	client := wire.dial(t, servicetest.OwnRedis(t).URL)
	for name, acks := range map[string][]Ack{
		"committed": {Committed, Committed}, "issued": {Issued, Issued}, "both": {Committed, Issued},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m := newModel(t, rt, client, acks)
				rt.Repeat(m.actions())
				m.end(rt)
			})
		})
	}
}

// actions are what may happen next, also while a claim is on its way to the database or
// back.
func (m *model) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"claim":       m.claim,
		"slow claim":  m.slowClaim,
		"lost answer": m.lostAnswer,
		"no worker":   m.noWorker,
		"death":       m.death,
		"catalogue":   func(rt *rapid.T) { m.any(rt).look() },
		"learn":       func(rt *rapid.T) { m.must(rt, m.any(rt).learnOnce(m.ctx, 1)) },
		"drain":       func(rt *rapid.T) { m.must(rt, m.any(rt).drainOnce(m.ctx)) },
	}
	if m.mayLose {
		actions["loss of Redis"] = m.lose
	}
	if m.mayBypass {
		actions["past Redis"] = m.pastRedis
	}
	return actions
}

// some lets up to three things happen.
func (m *model) some(rt *rapid.T) {
	if m.depth == 2 {
		return
	}
	m.depth++
	defer func() { m.depth-- }()
	actions := m.actions()
	names := slices.Sorted(maps.Keys(actions))
	for range rapid.IntRange(0, 3).Draw(rt, "happen") {
		actions[rapid.SampledFrom(names).Draw(rt, "what")](rt)
	}
}

const modelCoupons, modelVisitors = 3, 6

type model struct {
	ctx       context.Context
	shelf     *shelf
	processes []*process
	told      map[string]string // code that each visitor was last told
	lost      bool              // Redis has lost what it promised
	mayLose   bool
	mayBypass bool // no process acknowledges what is issued
	depth     int  // of claims that are on their way
}

func newModel(t *testing.T, rt *rapid.T, client redis.UniversalClient, acks []Ack) *model {
	m := &model{ctx: t.Context(), shelf: newShelf(modelCoupons), told: map[string]string{}}
	m.must(rt, client.FlushAll(m.ctx).Err())
	m.mayLose = rapid.Bool().Draw(rt, "may lose")
	m.mayBypass = !slices.Contains(acks, Issued)
	for _, ack := range acks {
		m.processes = append(m.processes, newProcess(t, client, m.shelf, ack))
	}
	return m
}

func (m *model) must(rt *rapid.T, err error) {
	if err != nil {
		rt.Fatal(err)
	}
}

func (m *model) any(rt *rapid.T) *process { return rapid.SampledFrom(m.processes).Draw(rt, "process") }

func (m *model) visitor(rt *rapid.T) string {
	return fmt.Sprint("v", rapid.IntRange(1, modelVisitors).Draw(rt, "visitor"))
}

func (m *model) claim(rt *rapid.T) { m.ask(rt, m.any(rt), m.visitor(rt)) }

func (m *model) ask(rt *rapid.T, p *process, visitor string) orders.Claimed {
	got := p.claim(visitor)
	if got.Err != nil && !errors.Is(got.Err, orders.ErrSoldOut) {
		rt.Fatalf("%s: %v", visitor, got.Err)
	}
	if got.Err == nil {
		m.tell(rt, p.ack, visitor, got)
	}
	return got
}

func (m *model) tell(rt *rapid.T, ack Ack, visitor string, got orders.Claimed) {
	code := got.Claim.Code
	if ack == Committed && m.shelf.claims[visitor].Code != code {
		rt.Fatalf("%s was told %s, the database has %q", visitor, code, m.shelf.claims[visitor].Code)
	}
	if before, told := m.told[visitor]; told && before != code && !m.lost {
		rt.Fatalf("%s was told %s and %s", visitor, before, code)
	}
	m.told[visitor] = code
}

// slowClaim is a claim during which other things happen.
func (m *model) slowClaim(rt *rapid.T) {
	p, r := m.any(rt), request(m.visitor(rt))
	got := p.Claim(m.ctx, p.coupon, r, func(ctx context.Context, r orders.ClaimRequest) orders.Claimed {
		m.some(rt)
		got := m.shelf.write(ctx, r)
		m.some(rt)
		return got
	})
	if got.Err == nil {
		m.tell(rt, p.ack, r.Visitor, got)
	}
}

func (m *model) lose(rt *rapid.T) {
	m.lost = true
	m.must(rt, m.processes[0].client.FlushAll(m.ctx).Err())
}

// lostAnswer is a claim that is written, and the answer does not come back.
func (m *model) lostAnswer(rt *rapid.T) {
	p, r := m.any(rt), request(m.visitor(rt))
	got := p.Claim(m.ctx, p.coupon, r, func(ctx context.Context, r orders.ClaimRequest) orders.Claimed {
		if got := m.shelf.write(ctx, r); got.Err != nil {
			return got
		}
		return orders.Claimed{Err: orders.ErrDatabase}
	})
	if got.Err == nil {
		m.tell(rt, p.ack, r.Visitor, got)
	}
}

// noWorker is a claim that the pool has no worker for.
func (m *model) noWorker(rt *rapid.T) {
	p, r := m.any(rt), request(m.visitor(rt))
	got := p.Claim(m.ctx, p.coupon, r, func(context.Context, orders.ClaimRequest) orders.Claimed {
		return orders.Claimed{Err: orders.ErrOverloaded}
	})
	if got.Err == nil {
		m.tell(rt, p.ack, r.Visitor, got)
	}
}

// death ends a process after Redis has given a coupon out, before anything else.
func (m *model) death(rt *rapid.T) {
	p := m.any(rt)
	_, err := p.issue(m.ctx, p.coupon, request(m.visitor(rt)))
	m.must(rt, err)
}

// pastRedis is a claim by a process that does not reach Redis.
func (m *model) pastRedis(rt *rapid.T) {
	if got := m.shelf.write(m.ctx, request(m.visitor(rt))); got.Err == nil {
		m.tell(rt, Committed, got.Claim.Visitor, got)
	}
}

func (m *model) end(rt *rapid.T) {
	for _, p := range m.processes {
		m.must(rt, p.drainOnce(m.ctx))
		p.look()
	}
	for n := range modelVisitors {
		visitor := fmt.Sprint("v", n+1)
		p := m.processes[n%2]
		p.look()
		had, has := m.shelf.claims[visitor]
		left := m.shelf.coupon.Quantity - m.shelf.coupon.Issued
		got := m.ask(rt, p, visitor)
		m.must(rt, p.drainOnce(m.ctx))
		switch now := m.shelf.claims[visitor]; {
		case has && (got.Err != nil || got.Claim.Code != had.Code):
			rt.Fatalf("%s has %s and was told %+v", visitor, had.Code, got)
		case !has && left > 0 && (got.Err != nil || now.Code != got.Claim.Code):
			rt.Fatalf("%d left: %s was told %+v and has %q", left, visitor, got, now.Code)
		case !has && left == 0 && got.Err == nil:
			rt.Fatalf("none left: %s was told %+v", visitor, got)
		}
	}
	if len(m.shelf.claims) != modelCoupons {
		rt.Fatalf("%v have one, of %d coupons", slices.Collect(maps.Keys(m.shelf.claims)), modelCoupons)
	}
	for visitor, code := range m.told {
		if !m.lost && m.shelf.claims[visitor].Code != code {
			rt.Fatalf("%s was told %s, the database has %q", visitor, code, m.shelf.claims[visitor].Code)
		}
	}
}
