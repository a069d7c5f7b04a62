package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// Polls are counted over whole windows in which everybody is there.
func TestPollsInWindows(t *testing.T) {
	r := newRecorder()
	r.arrives(1, 1500*time.Millisecond)
	var timeline []moment
	for second := 1; second <= 25; second++ {
		m := moment{Second: second, Polls: int64(100 * second)}
		if second > 12 {
			m.Polls += int64(50 * (second - 12))
		}
		timeline = append(timeline, m)
	}
	p := r.polling(timeline, 24*time.Second)
	if len(p.Windows) != 2 || p.Least != 100 || p.Most != 150 || p.PerSecond != 125 {
		t.Errorf("%+v", p)
	}
	if p = newRecorder().polling(timeline, 24*time.Second); len(p.Windows) != 0 {
		t.Errorf("not everybody had entered, and yet %+v", p)
	}
}

func TestTheLineAddsUp(t *testing.T) {
	before := sample{Waiting: 5, Admitted: 10, Left: 1}
	after := sample{Waiting: 65, Away: 3, Admitted: 40, Left: 8, GivenUp: 1}
	if l := newLineReport(before, after, 101); l.Sum != 101 || !l.Exact {
		t.Errorf("%+v", l)
	}
	if l := newLineReport(before, after, 100); l.Exact {
		t.Errorf("%+v", l)
	}
}

func TestTicksOfInstances(t *testing.T) {
	text := func(within, all int) io.Reader {
		return strings.NewReader(fmt.Sprintf("# HELP x\n"+tickMetric+`line="a",le="0.01"} 0`+"\n"+tickMetric+`line="a",le="0.02"} %d`+"\n"+
			tickMetric+`line="a",le="+Inf"} %d`+"\n"+tickMetric+`line="b",le="0.02"} 7`+"\nother 3\n", within, all))
	}
	all := ticks{}
	for range 2 {
		one, err := readTicks(text(50, 51), "a")
		if err != nil {
			t.Fatal(err)
		}
		all.add(one, 1)
	}
	r := all.report()
	if r == nil || r.Count != 102 || r.Within20 != 100.0/102 || r.P50 < 10 || r.P50 > 20 || r.P99 != 20 {
		t.Errorf("%+v", r)
	}
	if r := (ticks{}).report(); r != nil {
		t.Errorf("%+v of nothing", r)
	}
	all.add(ticks{0.02: 20, math.Inf(1): 30}, -1) // by an instance that has begun anew since
	if r := all.report(); r != nil {
		t.Errorf("%+v of what was counted anew", r)
	}
}

// Every one of a spike has a connection of its own, and what is wrong with connections is
// told apart.
func TestConnections(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const many = 20
	var here sync.WaitGroup // nobody is answered before all are connected
	here.Add(many)
	server := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) {
		if string(c.Path()) == "/queue/enter" {
			here.Done()
			here.Wait()
		}
		c.SetBodyString(`{"state":"waiting"}`)
	}}
	go func() { _ = server.Serve(ln) }()
	u, err := url.Parse("http://" + ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := newClient([]*url.URL{u}, "default", 1, 0, many, time.Minute, false)
	t.Cleanup(c.close)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if _, err := c.enter(0, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range 3 * many {
		if _, err := c.position(0, ""); err != nil {
			t.Error(err)
		}
	}
	if r := c.connections(); r.Opened != many || r.AllWithin <= 0 {
		t.Errorf("%+v", r)
	}
	if err := server.Shutdown(); err != nil {
		t.Fatal(err)
	}
	c.close()
	for _, e := range []struct {
		err  error
		want string
	}{
		{syscall.ECONNRESET, "reset"}, {syscall.EPIPE, "reset"}, {io.EOF, "closed"}, {errNoLink, "crowd"},
		{syscall.EMFILE, "crowd"}, {syscall.ECONNREFUSED, "refused"}, {net.ErrClosed, "other"},
	} {
		if got := troubleOf(fmt.Errorf("asking: %w", e.err)); got != e.want {
			t.Errorf("%v is %q, want %q", e.err, got, e.want)
		}
	}
}
