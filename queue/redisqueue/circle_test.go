package redisqueue_test

import (
	"testing"
	"time"

	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/servicetest"
)

// Tickets that map to each other in a circle, as only a damaged store has them, do not
// stop Redis.
func TestACircleOfTicketsStopsNobody(t *testing.T) {
	t.Parallel()
	server := servicetest.OwnRedis(t)
	client, err := redisqueue.Dial(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	line, err := redisqueue.New(client, "default", queue.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	first, err := line.Enter(ctx, "ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Client().HSet(ctx, "sluice:{default}:aliases", "one", "two", "two", "one").Err(); err != nil {
		t.Fatal(err)
	}
	lost := first.Ticket
	lost.ID, lost.Subject, lost.ExpiresAt = "one", "ben", time.Now().Add(time.Hour)
	if _, err := line.Standing(ctx, lost); err != nil {
		t.Errorf("a ticket of the circle: %v", err)
	}
	if st, err := line.Standing(ctx, first.Ticket); err != nil || st.State != queue.Waiting {
		t.Errorf("somebody else: %+v, %v", st, err)
	}
}
