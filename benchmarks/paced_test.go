package benchmarks

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// pace sends so many requests a second, evenly, each connection its part. Times count
// from when a request was due: whoever is served late is not spared the waiting of those
// behind. perSecond 0 is as many as are answered, each as soon as the last was.
func (d *driver) pace(t testing.TB, requests []asked, perSecond float64, lasts time.Duration) driven {
	t.Helper()
	if perSecond == 0 {
		return right(t, d.drive(t, requests, lasts))
	}
	every := time.Duration(float64(len(d.conns)) / perSecond * float64(time.Second))
	var driving errgroup.Group
	used, began := processorTime(t), time.Now()
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
	lasted := time.Since(began)
	used = processorTime(t) - used
	if err != nil {
		t.Fatal(err)
	}
	r := d.sum()
	r.lasted, r.perSecond, r.cpu = lasted, float64(r.requests)/lasted.Seconds(), used/time.Duration(max(1, r.requests))
	return right(t, r)
}

// right fails where an answer was not.
func right(t testing.TB, r driven) driven {
	t.Helper()
	if r.wrong > 0 {
		t.Fatalf("%d wrong answers of %d: %v", r.wrong, r.requests, r.example)
	}
	return r
}

func (c *driverConn) pace(requests []asked, next int, due time.Time, every time.Duration, until time.Time) error {
	for ; due.Before(until); due, next = due.Add(every), next+1 {
		time.Sleep(time.Until(due))
		one := &requests[next%len(requests)]
		if _, err := c.conn.Write(one.send); err != nil {
			return err
		}
		status, answer, err := c.receive()
		if err != nil {
			return err
		}
		c.sent++
		if len(c.took) < cap(c.took) {
			c.took = append(c.took, time.Since(due))
		}
		if !c.judge(one, status, answer) {
			c.wrong++
			c.example = fmt.Errorf("wanted %d, %s: %s", one.status, one.good, answer)
		}
	}
	return nil
}
