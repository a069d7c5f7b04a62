//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// More clients than the process may open files: those it has taken are served, the
// others once there is room, and it neither ends nor fills its log meanwhile.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	const files, clients = 100, 300
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" serve`, files), shipped(t))
	shop, _ := startCommand(t, cmd)
	if !strings.Contains(shop.log.String(), "raise the hard limit") {
		t.Errorf("nothing said of the limit at the start:\n%s", shop.log)
	}
	address := strings.TrimPrefix(shop.public, "http://")
	var open []net.Conn
	hangUp := func() {
		for _, c := range open {
			_ = c.Close()
		}
	}
	defer hangUp()
	for range clients {
		c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	shop.log.await(t, "new connections have to wait")
	asked := func(c net.Conn) bool {
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = fmt.Fprint(c, "GET /queue/status HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	if !asked(open[0]) {
		t.Error("who is inside is not served")
	}
	go func() { // the last ones wait until the first ones leave
		time.Sleep(500 * time.Millisecond)
		for _, c := range open[:clients-10] {
			_ = c.Close()
		}
	}()
	if !asked(open[clients-1]) {
		t.Error("who waited to be taken is not served")
	}
	hangUp()
	for _, u := range []string{shop.public + "/queue/status", shop.admin + "/healthz"} {
		if status, _ := call(t, http.MethodGet, u, nil, ""); status != http.StatusOK {
			t.Errorf("%s afterwards: %d", u, status)
		}
	}
	if n := strings.Count(shop.log.String(), "new connections have to wait"); n > 2 { // one of each listener
		t.Errorf("said %d times", n)
	}
}
