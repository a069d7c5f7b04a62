package benchmarks

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
	"sluice/web"
)

// TestRecords tells what Redis keeps of a visitor on the way through a line: waiting, let
// in, and, until the ticket's own end, of one that has ordered.
func TestRecords(t *testing.T) {
	n := 500
	if *full {
		n = 50_000
	}
	server := servicetest.OwnRedis(t)
	client, err := redisqueue.Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	line, err := redisqueue.New(client, web.DefaultLine, queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	ask := server.Client()
	var all []queue.Completion
	for _, ticket := range enter(t, line, n) {
		all = append(all, queue.Completion{Subject: ticket.Subject, TicketID: ticket.ID})
	}
	waiting := stored(t, ask)
	admitted := 0
	for deadline := time.Now().Add(time.Minute); admitted < n; time.Sleep(20 * time.Millisecond) {
		batch, err := line.Admit(t.Context(), queue.MaxRate, queue.LimitedByCapacity)
		if err != nil {
			t.Fatal(err)
		}
		if admitted += len(batch.Admitted); time.Now().After(deadline) {
			t.Fatalf("%d of %d are let in", admitted, n)
		}
	}
	inside := stored(t, ask)
	for len(all) > 0 {
		some := all[:min(1000, len(all))]
		if err := line.Spend(t.Context(), some); err != nil {
			t.Fatal(err)
		}
		all = all[len(some):]
	}
	ended := stored(t, ask)
	each := func(bytes int64) string { return fmt.Sprintf("%.0f B", float64(bytes)/float64(n)) }
	t.Logf("of %d visitors Redis keeps, for each: waiting %s, let in %s, ordered %s", n, each(waiting), each(inside), each(ended))
	if ended >= inside {
		t.Errorf("what is kept of orders, %d bytes, is no less than that of admissions, %d", ended, inside)
	}
}

// enter has so many enter a line, many at once; their tickets, in the order of their places.
func enter(t testing.TB, line queue.Line, n int) []queue.Ticket {
	t.Helper()
	tickets := make([]queue.Ticket, n)
	var entering errgroup.Group
	entering.SetLimit(200)
	for i := range n {
		entering.Go(func() error {
			standing, err := line.Enter(t.Context(), queue.NewID(), nil)
			tickets[i] = standing.Ticket
			return err
		})
	}
	if err := entering.Wait(); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(tickets, func(a, b queue.Ticket) int { return cmp.Compare(a.Place, b.Place) })
	return tickets
}
