package queuetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"sluice/queue"
)

func testOnePlace(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	first := f.enter("ada", nil)
	if !first.Created || first.State != queue.Waiting || first.Position != 1 || first.Length != 1 {
		t.Fatalf("first enter: %+v", first)
	}
	f.enter("bob", nil)
	for name, held := range map[string]*queue.Ticket{"by subject": nil, "by ticket": &first.Ticket} {
		again := f.enter("ada", held)
		if again.Created || again.Ticket != first.Ticket || again.Position != 1 || again.Length != 2 {
			t.Errorf("entering again %s: %+v, want the place of %+v", name, again, first.Ticket)
		}
	}
}

func testArrivalOrder(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	tickets := f.enterMany("v", 50)
	for i, ticket := range tickets {
		if i > 0 && ticket.Place <= tickets[i-1].Place {
			t.Fatalf("place %d after place %d", ticket.Place, tickets[i-1].Place)
		}
		f.wantPosition(ticket, int64(i+1))
	}
}

// 50 goroutines enter 200 visitors each, every visitor twice and from two
// clients: nobody has two places, nobody shares one, positions are 1…n.
func testConcurrentEnters(t *testing.T, impl Implementation) {
	const goroutines, visitors = 50, 200
	f := open(t, impl, options())
	clients := []queue.Line{f.client(), f.client(), f.client(), f.client()}
	places := make([][]int64, goroutines)
	created := make([]int, goroutines)
	var g errgroup.Group
	for i := range goroutines {
		g.Go(func() error {
			for j := range visitors {
				// Two goroutines enter the same visitor, on different clients.
				subject := fmt.Sprint(i/2, "-", j)
				s, err := clients[i%len(clients)].Enter(f.ctx, subject, nil)
				if err != nil {
					return err
				}
				places[i] = append(places[i], s.Ticket.Place)
				if s.Created {
					created[i]++
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	made := 0
	for i := 0; i < goroutines; i += 2 {
		if !slices.Equal(places[i], places[i+1]) {
			t.Fatalf("a visitor has two places: %v and %v", places[i], places[i+1])
		}
		if !slices.IsSorted(places[i]) {
			t.Fatalf("a later enter got an earlier place: %v", places[i])
		}
		for _, p := range places[i] {
			if seen[p] {
				t.Fatalf("place %d was given twice", p)
			}
			seen[p] = true
		}
		made += created[i] + created[i+1]
	}
	if want := goroutines / 2 * visitors; made != want || f.snapshot().Waiting != int64(want) {
		t.Fatalf("%d created, %d waiting, want %d", made, f.snapshot().Waiting, want)
	}
}

// testModel plays random histories against a sorted slice, each beginning with a
// draw of some.
func testModel(t *testing.T, impl Implementation) {
	f := open(t, impl, options())
	f.snapshot() // the line is older than any place below
	f.wait(2 * time.Millisecond)
	rapid.Check(t, func(rt *rapid.T) {
		if _, err := f.line.Restart(f.ctx); err != nil {
			rt.Fatal(err)
		}
		m := f.draw(rapid.IntRange(0, 6).Draw(rt, "early"))
		step := 0
		rt.Repeat(map[string]func(*rapid.T){
			"enter": func(rt *rapid.T) {
				step++
				s, err := f.line.Enter(f.ctx, fmt.Sprint("v", step), nil)
				if err != nil {
					rt.Fatal(err)
				}
				m.waiting = append(m.waiting, s.Ticket) // the newest place is the last
			},
			"enter again": func(rt *rapid.T) {
				if i, ok := m.pick(rt, len(m.waiting)); ok {
					if s, err := f.line.Enter(f.ctx, m.waiting[i].Subject, nil); err != nil || s.Ticket != m.waiting[i] {
						rt.Fatalf("entering again: %+v, %v", s, err)
					}
				}
			},
			"leave": func(rt *rapid.T) {
				if i, ok := m.pick(rt, len(m.waiting)); ok {
					if err := f.line.Leave(f.ctx, m.waiting[i]); err != nil {
						rt.Fatal(err)
					}
					m.ended = append(m.ended, m.waiting[i])
					m.waiting = slices.Delete(m.waiting, i, i+1)
				}
			},
			"return without a record": func(rt *rapid.T) {
				if i, ok := m.pick(rt, len(m.waiting)); ok {
					step++
					t := m.waiting[i]
					if !t.Early() {
						t = f.ticket("", t.Epoch, t.Place-rapid.Int64Range(0, 1000).Draw(rt, "before"))
					}
					t.Subject, t.ID = fmt.Sprint("r", step), queue.NewID()
					m.insert(t)
					if s, err := f.line.Standing(f.ctx, t); err != nil || s.State != queue.Waiting {
						rt.Fatalf("returning: %+v, %v", s, err)
					}
				}
			},
			"admit": func(rt *rapid.T) {
				f.wait(f.opts.Tick / 4)
				b, err := f.line.Admit(f.ctx, 100, queue.LimitedByCapacity)
				if err != nil || len(b.Admitted) > len(m.waiting) {
					rt.Fatalf("admitted %d of %d: %v", len(b.Admitted), len(m.waiting), err)
				}
				for i, a := range b.Admitted {
					if a.TicketID != m.waiting[i].ID {
						rt.Fatalf("admitted %s, want %s", a.Subject, m.waiting[i].Subject)
					}
				}
				m.waiting = m.waiting[len(b.Admitted):]
			},
			"let in without the line": func(rt *rapid.T) {
				if i, ok := m.pick(rt, len(m.waiting)); ok {
					t := m.waiting[i]
					a := queue.Admission{
						Line: t.Line, Epoch: t.Epoch, Subject: t.Subject, TicketID: t.ID, Place: m.place(t),
						AdmittedAt: time.UnixMilli(1), NotBefore: time.UnixMilli(1), ExpiresAt: time.UnixMilli(4e12),
					}
					if err := f.line.Record(f.ctx, []queue.Admission{a}); err != nil {
						rt.Fatal(err)
					}
					m.passed = append(m.passed, a)
					m.waiting = slices.Delete(m.waiting, i, i+1)
				}
			},
			"": func(rt *rapid.T) { m.compare(f.ctx, rt, f.line) },
		})
	})
}

type model struct {
	seed           string
	waiting, ended []queue.Ticket    // waiting in place order
	passed         []queue.Admission // let in without the line
}

// draw begins a model with n visitors before the opening.
func (f *fixture) draw(n int) *model {
	m := &model{}
	if n == 0 {
		return m
	}
	m.seed = f.opensIn(time.Hour).Seed
	for _, t := range f.enterMany("early", n) {
		m.insert(t)
	}
	f.opensIn(-time.Second)
	return m
}

func (m *model) place(t queue.Ticket) int64 {
	if t.Early() {
		return queue.DrawPlace(m.seed, t.ID)
	}
	return t.Place
}

func (m *model) pick(rt *rapid.T, n int) (int, bool) {
	if n == 0 {
		return 0, false
	}
	return rapid.IntRange(0, n-1).Draw(rt, "who"), true
}

func (m *model) insert(t queue.Ticket) {
	i, _ := slices.BinarySearchFunc(m.waiting, t, func(a, b queue.Ticket) int {
		return cmp.Or(cmp.Compare(m.place(a), m.place(b)), cmp.Compare(a.Subject, b.Subject)) // as drawn places may be equal
	})
	m.waiting = slices.Insert(m.waiting, i, t)
}

func (m *model) compare(ctx context.Context, rt *rapid.T, line queue.Line) {
	for i, ticket := range m.waiting {
		s, err := line.Standing(ctx, ticket)
		if err != nil || s.State != queue.Waiting || s.Position != int64(i+1) || s.Length != int64(len(m.waiting)) {
			rt.Fatalf("%s: %+v, %v; want position %d of %d", ticket.Subject, s, err, i+1, len(m.waiting))
		}
	}
	for _, ticket := range m.ended {
		if s, err := line.Standing(ctx, ticket); err != nil || s.State != queue.Left {
			rt.Fatalf("%s: %+v, %v; want left", ticket.Subject, s, err)
		}
	}
	for _, a := range m.passed {
		if s, err := line.Enter(ctx, a.Subject, nil); err != nil || s.Admission != a {
			rt.Fatalf("%s: %+v, %v; want %+v", a.Subject, s, err, a)
		}
	}
	if s, err := line.Snapshot(ctx); err != nil || s.Waiting != int64(len(m.waiting)) {
		rt.Fatalf("%+v, %v; want %d waiting", s, err, len(m.waiting))
	}
}

func testMaxLength(t *testing.T, impl Implementation) {
	opts := options()
	opts.Initial.MaxLength = 3
	f := open(t, impl, opts)
	tickets := f.enterMany("v", 3)
	if _, err := f.line.Enter(f.ctx, "late", nil); !errors.Is(err, queue.ErrFull) {
		t.Fatalf("a fourth of three: %v", err)
	}
	if again := f.enter("v1", nil); again.Created {
		t.Fatal("a full line took a place away")
	}
	// An old place returns whatever the length: it was given out.
	stranger := f.ticket("old", tickets[0].Epoch, tickets[0].Place-1)
	f.wantPosition(stranger, 1)
	f.configure(queue.Patch{MaxLength: ptr(int64(0))})
	f.enter("late", nil)
}
