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

// Thousands who connect at the same moment are all answered: none is refused or reset,
// however few of them have been accepted when the last one comes.
func TestConnectionsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	many := 5000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(min(limit.Cur, 1<<20)) / 3; most < many {
		many = most
		t.Logf("ONLY %d connections: %d files may be open", many, limit.Cur)
	}
	shop, process := startProcess(t)
	address := strings.TrimPrefix(shop.public, "http://")
	open := make([]net.Conn, many)
	defer func() {
		for _, c := range open {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	ask := func(n int) error {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		open[n] = c // stays open until all are answered
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := fmt.Fprint(c, "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK || res.Close {
			return fmt.Errorf("%s, close %v", res.Status, res.Close)
		}
		return nil
	}
	moment := make(chan struct{})
	var all sync.WaitGroup
	for n := range many {
		all.Go(func() {
			<-moment
			if err := ask(n); err != nil {
				t.Errorf("connection %d: %v", n, err)
			}
		})
	}
	close(moment)
	all.Wait()
	if code := terminate(t, process); code != exitOK {
		t.Errorf("exit %d; log:\n%s", code, shop.log)
	}
}
