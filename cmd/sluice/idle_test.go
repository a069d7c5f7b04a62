//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Ten thousand visitors who rest between two polls, each on a connection that is kept:
// others are served, each of them has its next answer, and a stop waits for none.
func TestTenThousandIdleConnections(t *testing.T) {
	t.Parallel()
	idle := 10_000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(min(limit.Cur, 1<<20)) - 2_000; most < idle {
		idle = max(most, int(limit.Cur)/2)
		t.Logf("ONLY %d connections: %d files may be open", idle, limit.Cur)
	}
	shop, process := startProcess(t)
	memory := func() float64 {
		_, answer := call(t, http.MethodGet, shop.admin+"/metrics", nil, "")
		text := fmt.Sprint(answer["text"])
		var bytes float64
		if _, after, ok := strings.Cut(text, "\nprocess_resident_memory_bytes "); ok {
			_, _ = fmt.Sscan(after, &bytes)
		}
		return bytes
	}
	before := memory()
	open := make([]net.Conn, idle)
	defer func() {
		for _, c := range open {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	ask := func(n int) error {
		_ = open[n].SetDeadline(time.Now().Add(patience))
		if _, err := fmt.Fprint(open[n], "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(open[n]), nil)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK || res.Close {
			return fmt.Errorf("%s, close %v", res.Status, res.Close)
		}
		return nil
	}
	const clients = 50
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for n := client; n < idle; n += clients {
				c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", strings.TrimPrefix(shop.public, "http://"))
				if err == nil {
					open[n] = c
					err = ask(n)
				}
				if err != nil {
					t.Errorf("connection %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if after := memory(); before > 0 {
		t.Logf("%d idle connections, %.1f KiB each", idle, (after-before)/float64(idle)/1024)
	}
	v := &visitor{t: t}
	v.enter(shop)
	v.position(shop)
	for n := range 100 {
		if err := ask(n * idle / 100); err != nil {
			t.Errorf("the next request of connection %d: %v", n, err)
		}
	}
	if code := terminate(t, process); code != exitOK {
		t.Errorf("exit %d; log:\n%s", code, shop.log)
	}
}
