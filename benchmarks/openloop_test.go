package benchmarks

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// openLoop sends at a fixed rate, whatever becomes of the requests before, as visitors do
// who do not know of one another. Each connection carries one request at a time; one that
// finds all of them taken waits, and that is part of how long it took.
type openLoop struct {
	requests [][]byte
	good     string
	conns    []*driverConn
	next     int
}

// openLoopOf connects over many more than it needs at once while all is well.
func openLoopOf(t testing.TB, address string, over int, good string, requests ...[]byte) *openLoop {
	t.Helper()
	o := &openLoop{requests: requests, good: good}
	for range over {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		o.conns = append(o.conns, &driverConn{conn: c, in: make([]byte, 16<<10)})
	}
	return o
}

// send asks for so many a second. The clock of a request starts when it is handed to a
// connection and not at its time by the plan: how late this process is woken on a busy
// machine is not the server's doing, and the same with and without orders.
func (o *openLoop) send(perSecond int, lasts time.Duration) (times, error) {
	type request struct {
		bytes []byte
		since time.Time
	}
	n := int(float64(perSecond) * lasts.Seconds())
	due := make(chan request, n)
	took := make([][]time.Duration, len(o.conns))
	var sending errgroup.Group
	for i, c := range o.conns {
		sending.Go(func() error {
			for r := range due {
				if _, err := c.conn.Write(r.bytes); err != nil {
					return err
				}
				status, answer, err := c.receive()
				if err != nil {
					return err
				}
				if status/100 != 2 || !bytes.Contains(answer, []byte(o.good)) {
					return fmt.Errorf("an answer of %d without %s: %s", status, o.good, answer)
				}
				took[i] = append(took[i], time.Since(r.since))
			}
			return nil
		})
	}
	began := time.Now()
	for i := range n {
		if early := time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))); early > 0 {
			time.Sleep(early)
		}
		due <- request{o.requests[o.next%len(o.requests)], time.Now()}
		o.next++
	}
	close(due)
	if err := sending.Wait(); err != nil {
		return times{}, err
	}
	var all []time.Duration
	for _, some := range took {
		all = append(all, some...)
	}
	return timesOf(all), nil
}
