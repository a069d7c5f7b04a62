//go:build linux

package load

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"sluice/servicetest"
)

// The accept queue is looked at often, since what fills it is over soon; everything else
// once a second.
const (
	glance = 50 * time.Millisecond
	look   = time.Second
)

// watch looks at the machine until the function that it returns is called.
func (s *service) watch(t *testing.T, driverPID int) (stop func() watched) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan watched)
	go func() { done <- s.look(ctx, t, driverPID) }()
	return func() watched {
		cancel()
		return <-done
	}
}

func (s *service) look(ctx context.Context, t *testing.T, driverPID int) (w watched) {
	port := portOf(s.public)
	began, overflows := time.Now(), servicetest.ListenOverflows()
	used := func() [4]float64 {
		return [4]float64{cpuSeconds(s.process.Process.Pid), cpuSeconds(s.redisPID), cpuSeconds(s.databasePID), cpuSeconds(driverPID)}
	}
	first := used()
	last, lastAt := first, began
	queue := 0
	ticks := time.NewTicker(glance)
	defer ticks.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticks.C:
			queue = max(queue, sockets(port, true).queue)
		case <-ctx.Done():
		}
		// A process that has ended has used nothing: the look after the end would be wrong.
		if now := time.Now(); now.Sub(lastAt) >= look && ctx.Err() == nil {
			u := used()
			all := sockets(port, false)
			w.add(sample{
				At: now.Sub(began), Cores: between(last, u, now.Sub(lastAt)),
				AcceptQueue: queue, Established: all.established, TimeWait: all.timeWait,
				RSS: resident(s.process.Process.Pid), RedisMemory: uint64(s.info(t, "memory", "used_memory")),
			})
			if u[3] >= last[3] {
				w.Cores = between(first, u, now.Sub(began))
			}
			last, lastAt, queue = u, now, 0
		}
	}
	w.Overflows = max(0, servicetest.ListenOverflows()-overflows)
	return w
}

func between(from, to [4]float64, over time.Duration) cores {
	per := func(i int) float64 { return max(0, to[i]-from[i]) / over.Seconds() }
	return cores{Service: per(0), Redis: per(1), Database: per(2), Driver: per(3)}
}

// cpuSeconds are those that a process has used; 0 once it is gone.
func cpuSeconds(pid int) float64 {
	used, err := servicetest.ProcessorTime(pid)
	if err != nil {
		return 0
	}
	return used.Seconds()
}

func resident(pid int) uint64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return uint64(stat.ResidentMemory())
}

func portOf(base string) uint64 {
	u, err := url.Parse(base)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(u.Port(), 10, 16)
	return n
}

// socketCounts are the sockets of a port on this side of the connection.
type socketCounts struct{ queue, established, timeWait int }

// The states, as the kernel numbers them.
const (
	established = "01"
	timeWait    = "06"
	listening   = "0A"
)

// sockets counts them. Listeners stand first: whoever wants only their queue reads a page
// and not 20,000 lines, and can look often. (procfs reads all.)
func sockets(port uint64, onlyListeners bool) (n socketCounts) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return n
	}
	defer func() { _ = f.Close() }()
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(f)
	lines.Scan() // the names of the columns
	for lines.Scan() {
		// sl local remote state transmit:receive …
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		local, state, queues := fields[1], fields[3], fields[4]
		if onlyListeners && state != listening {
			return n
		}
		if !strings.HasSuffix(local, suffix) {
			continue
		}
		switch state {
		case listening:
			_, waiting, _ := strings.Cut(queues, ":")
			q, _ := strconv.ParseUint(waiting, 16, 32)
			n.queue = int(q)
		case established:
			n.established++
		case timeWait:
			n.timeWait++
		}
	}
	return n
}
