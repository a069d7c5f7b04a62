package benchmarks

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// pace sends so many requests a second, evenly, each connection its part. perSecond 0 is
// as many as are answered, each as soon as the last was.
func (d *driver) pace(t testing.TB, requests []asked, perSecond float64, lasts time.Duration) driven {
	t.Helper()
	if perSecond == 0 {
		return right(t, d.drive(t, requests, lasts))
	}
	used := processorTime(t)
	r, err := d.paced(requests, perSecond, lasts)
	if err != nil {
		t.Fatal(err)
	}
	r.cpu = (processorTime(t) - used) / time.Duration(max(1, r.requests))
	return right(t, r)
}

// paced is that, whatever else this process does meanwhile.
func (d *driver) paced(requests []asked, perSecond float64, lasts time.Duration) (driven, error) {
	every := time.Duration(float64(len(d.conns)) / perSecond * float64(time.Second))
	var driving errgroup.Group
	began := time.Now()
	for i, c := range d.conns {
		first, due := i*len(requests)/len(d.conns), began.Add(time.Duration(i)*every/time.Duration(len(d.conns)))
		driving.Go(func() error {
			if err := c.begin(); err != nil {
				return err
			}
			return c.pace(requests, first, due, every, began.Add(lasts))
		})
	}
	err := driving.Wait()
	d.rest()
	r := d.sum()
	r.lasted = time.Since(began)
	r.perSecond = float64(r.requests) / r.lasted.Seconds()
	return r, err
}

// right fails where an answer was not.
func right(t testing.TB, r driven) driven {
	t.Helper()
	if r.wrong > 0 {
		t.Fatalf("%d wrong answers of %d: %v", r.wrong, r.requests, r.example)
	}
	return r
}

// pace sends what is due. Times count from when a request was due, where the one before it
// was still not answered: whoever is served late is not spared the waiting of those behind.
// Else they count from when this process woke: how late a busy machine lets it is not the
// server's doing.
func (c *driverConn) pace(requests []asked, next int, due time.Time, every time.Duration, until time.Time) error {
	for ; due.Before(until); due, next = due.Add(every), next+1 {
		since := due
		if early := time.Until(due); early > 0 {
			time.Sleep(early)
			since = time.Now()
		}
		one := &requests[next%len(requests)]
		if _, err := c.conn.Write(one.send); err != nil {
			return err
		}
		status, _, body, err := c.receive()
		if err != nil {
			return err
		}
		c.sent++
		if len(c.took) < cap(c.took) {
			c.took = append(c.took, time.Since(since))
		}
		if !c.judge(one, status, body) {
			c.wrong++
			c.example = fmt.Errorf("wanted %d, %s: %s", one.status, one.good, body)
		}
	}
	return nil
}
