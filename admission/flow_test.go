package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/queue"
	"sluice/queue/memqueue"
)

// The parts together, in virtual time, on the line within the process: visitors
// are let in at the rate, the estimate says when, the token says who, and an
// order that is done makes room for the next.
func TestFromTheLineToTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		l, err := memqueue.New("sale", queue.DefaultOptions())
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := admission.NewTokens([][]byte{bytes.Repeat([]byte("s"), queue.MinSecret)})
		if err != nil {
			t.Fatal(err)
		}
		watch := queue.NewWatch(l, 250*time.Millisecond, log)
		done := admission.NewCompletions(func(string) queue.Line { return l }, log)
		ticker := admission.NewTicker(l, admission.Fixed(admission.FirstGuess(50, 200*time.Millisecond, 0.7)), 100*time.Millisecond, log)
		tickets := enter(t, l, 5000)

		ctx, cancel := context.WithCancel(t.Context())
		var g errgroup.Group
		for _, run := range []func(context.Context) error{watch.Run, done.Run, ticker.Run} {
			g.Go(func() error { return run(ctx) })
		}
		time.Sleep(5 * time.Second)

		// The last in line is told a wait that comes true.
		last := tickets[len(tickets)-1]
		s, err := l.Standing(ctx, last)
		if err != nil || s.State != queue.Waiting {
			t.Fatalf("%+v, %v", s, err)
		}
		v, _ := watch.View()
		e, ok := v.Movement.Estimate(s.Position)
		if !ok || e.Low > e.Expected || e.High < e.Expected {
			t.Fatalf("estimate %+v, %v of %+v", e, ok, v.Movement)
		}
		time.Sleep(e.Expected * 95 / 100)
		if s, err = l.Standing(ctx, last); err != nil || s.State != queue.Waiting {
			t.Errorf("let in long before the expected %s: %+v, %v", e.Expected, s, err)
		}
		time.Sleep(e.Expected * 10 / 100)
		if s, err = l.Standing(ctx, last); err != nil || s.State != queue.Admitted {
			t.Fatalf("not let in long after the expected %s: %+v, %v", e.Expected, s, err)
		}

		// The token of the record is good from its time on.
		raw, err := tokens.Mint(s.Admission)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(s.Admission.NotBefore.Sub(watch.Now()))
		epoch := func(string) (int64, bool) { return v.Epoch, true }
		claims, err := tokens.Verify(raw, func(string) time.Time { return watch.Now() }, epoch)
		if err != nil || claims.Subject != last.Subject || claims.TicketID != last.ID {
			t.Fatalf("%+v, %v", claims, err)
		}

		// The order ends the ticket.
		done.Committed(claims.Line, claims.Subject, claims.TicketID)
		time.Sleep(200 * time.Millisecond)
		if s, err = l.Standing(ctx, last); err != nil || s.State != queue.Spent {
			t.Errorf("after the order: %+v, %v", s, err)
		}
		cancel()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if s := ticker.Stats(); s.Admitted != 5000 || s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func ExampleFirstGuess() {
	fmt.Printf("%.0f/s\n", admission.FirstGuess(50, 200*time.Millisecond, 0.7))
	// Output: 175/s
}
