package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/queue"
)

// When the store is back it is told of everybody; until then they are answered from
// memory, whatever the line says.
func TestBypassIsRecorded(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBypass, steady: Steady{Rate: 10_000, Queues: 1}}, func(t *testing.T, f *standby) {
		const let = 2*recordBatch + 100
		tickets := f.crowd(let + 50)
		f.goAway()
		for range 2 {
			f.polled(tickets[:let])
			f.wait(time.Second)
		}
		in := f.polled(tickets[:let])
		if got := f.Stats(); len(in) != let || got.Bypassed != let || got.Unrecorded != let {
			t.Fatalf("%d are in, %+v", len(in), got)
		}
		// It answers, but does not take them yet.
		f.line.refuseRecords(true)
		f.line.in(nil)
		f.wait(1500 * time.Millisecond)
		f.isAway(false)
		if got := f.polled(tickets[:let]); !slices.Equal(got, in) {
			t.Error("who was let in is told something else while that is not recorded")
		}
		if st := f.enter("visitor-0", &tickets[0]); st.State != queue.Admitted {
			t.Errorf("entering again: %+v", st)
		}
		if st := f.position(tickets[let]); st.State != queue.Waiting || st.Position == 0 {
			t.Errorf("the others are told %+v", st)
		}
		f.line.refuseRecords(false)
		f.wait(200 * time.Millisecond)
		if got := f.line.recorded(); !slices.Equal(got, in) {
			t.Errorf("%d of %d are recorded, or others", len(got), len(in))
		}
		if got := f.Stats(); got.Unrecorded != 0 || got.Bypassed != let || got.Forgotten != 0 || f.bypass.pending.Load() != 0 || len(f.bypass.passes.byTicket) != 0 {
			t.Errorf("afterwards %+v, %d remembered", got, len(f.bypass.passes.byTicket))
		}
	})
}

// With the store there, what an operator's bypass does is in the figures at once.
func TestOperatorsBypassIsRecordedAsItGoes(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBlock, steady: Steady{Rate: 20, Queues: 1}}, func(t *testing.T, f *standby) {
		tickets := f.crowd(10)
		mode := queue.ModeBypass
		f.set(queue.Patch{Mode: &mode})
		f.line.in(nil)
		st := f.position(tickets[0])
		if st.State != queue.Admitted || f.line.called("standing") != 0 {
			t.Fatalf("%+v", st)
		}
		f.wait(200 * time.Millisecond)
		if got := f.line.recorded(); len(got) != 1 || got[0] != st.Admission {
			t.Errorf("recorded %+v", got)
		}
		if again := f.position(tickets[0]); again != st {
			t.Errorf("again %+v", again)
		}
		if err := f.Leave(t.Context(), tickets[0]); err != nil {
			t.Fatal(err)
		}
		if after := f.position(tickets[0]); after.State != queue.Left {
			t.Errorf("after leaving %+v", after)
		}
		second := f.position(tickets[1])
		if _, err := f.Remove(t.Context(), "visitor-1"); err != nil {
			t.Fatal(err)
		}
		if after := f.position(tickets[1]); second.State != queue.Admitted || after.State != queue.Removed {
			t.Errorf("after being removed %+v", after)
		}
		f.wait(200 * time.Millisecond)
		third := f.position(tickets[2])
		if err := f.Spend(t.Context(), []queue.Completion{{Subject: "visitor-2", TicketID: tickets[2].ID}}); err != nil {
			t.Fatal(err)
		}
		if after := f.position(tickets[2]); third.State != queue.Admitted || after.State != queue.Spent {
			t.Errorf("after ordering %+v", after)
		}
	})
}

// A process that stops tells what it has not, if the store is there.
func TestBypassIsRecordedAtTheStop(t *testing.T) {
	onStandby(t, bypassing, func(t *testing.T, f *standby) {
		tickets := f.crowd(1)
		f.goAway()
		f.polled(tickets)
		f.line.refuseRecords(true)
		f.line.in(nil)
		f.wait(1500 * time.Millisecond)
		f.line.refuseRecords(false)
		f.stop()
		if got := f.line.recorded(); len(got) != 1 {
			t.Errorf("recorded %+v; log: %s", got, f.log)
		}
	})
	onStandby(t, bypassing, func(t *testing.T, f *standby) {
		tickets := f.crowd(1)
		f.goAway()
		f.polled(tickets)
		f.stop()
		if !strings.Contains(f.log.String(), "left=1") {
			t.Error(f.log)
		}
	})
}

// However many were let in, so many are remembered, the latest, and the rest is counted.
func TestPassesAreBounded(t *testing.T) {
	ps := newPasses()
	give := func(n int64) {
		for range n {
			id := fmt.Sprint(ps.given)
			ps.give(queue.Admission{TicketID: id, Subject: id}, queue.Ticket{ID: id, Place: 1})
		}
	}
	give(mostPasses)
	chunk, below := ps.next(10)
	ps.taken(below, time.Time{})
	if len(chunk) != 10 || chunk[9].TicketID != "9" {
		t.Errorf("%d: %+v", len(chunk), chunk)
	}
	give(10)
	if len(ps.byTicket) != mostPasses || len(ps.bySubject) != mostPasses || ps.forgotten != 0 || ps.unrecorded() != mostPasses {
		t.Errorf("%d remembered, %d forgotten, %d not recorded", len(ps.byTicket), ps.forgotten, ps.unrecorded())
	}
	chunk, below = ps.next(500) // and while they are told more come
	give(20)
	ps.taken(below, time.Time{})
	if len(ps.byTicket) != mostPasses || ps.forgotten != 20 || chunk[0].TicketID != "10" || ps.of("29") != nil || ps.of("30") == nil {
		t.Errorf("%d remembered, %d forgotten", len(ps.byTicket), ps.forgotten)
	}
	if next, _ := ps.next(1); next[0].TicketID != "510" {
		t.Errorf("next is %s", next[0].TicketID)
	}
	give(1000) // of which as many of the oldest are forgotten
	if next, below := ps.next(1); next[0].TicketID != "1030" || below != 1031 || ps.forgotten != 20+1030-510 {
		t.Errorf("next is %s, below %d; %d forgotten", next[0].TicketID, below, ps.forgotten)
	}
}

// Many at once: nobody twice, no more than the rate, places unique.
func TestBypassUnderACrowd(t *testing.T) {
	onStandby(t, standbySetup{mode: queue.ModeBypass, steady: Steady{Rate: 100, Queues: 1}}, func(t *testing.T, f *standby) {
		tickets := f.crowd(200)
		f.goAway()
		var mu sync.Mutex
		admitted := map[string]queue.Admission{}
		places := map[int64]string{}
		note := func(st queue.Standing) {
			mu.Lock()
			defer mu.Unlock()
			if other, there := places[st.Ticket.Place]; there && other != st.Ticket.ID {
				t.Errorf("tickets %s and %s have one place", other, st.Ticket.ID)
			}
			places[st.Ticket.Place] = st.Ticket.ID
			if st.State != queue.Admitted {
				return
			}
			if before, there := admitted[st.Ticket.Subject]; there && before != st.Admission {
				t.Errorf("%s is let in twice", st.Ticket.Subject)
			}
			admitted[st.Ticket.Subject] = st.Admission
		}
		var all sync.WaitGroup
		for i := range 200 {
			for range 2 { // two tabs
				all.Go(func() {
					for range 20 {
						st, err := f.Standing(context.Background(), tickets[i])
						if err != nil {
							t.Error(err)
						}
						note(st)
						time.Sleep(50 * time.Millisecond)
					}
				})
			}
			all.Go(func() {
				st, err := f.Enter(context.Background(), fmt.Sprint("new-", i), nil)
				if err != nil {
					t.Error(err)
				}
				note(st)
			})
		}
		all.Wait()
		if n := len(admitted); n < 95 || n > 120 {
			t.Errorf("%d were let in in a second at 100/s", n)
		}
		if got := f.Stats().Bypassed; got != int64(len(admitted)) {
			t.Errorf("counted %d, told %d", got, len(admitted))
		}
	})
}
