//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/servicetest"
)

var (
	nginxStream = filepath.Join(root, "configs/nginx-stream.conf")
	nginxHTTP   = filepath.Join(root, "configs/nginx-http.conf")
)

// caller is a visitor's connection that is kept.
type caller struct {
	conn   net.Conn
	ticket string
}

// dialFrom connects from an address of this machine: 127.0.0.1 and all of 127.0.0.0/8
// on Linux.
func dialFrom(ctx context.Context, from, to string) (*caller, error) {
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(ctx, "tcp", to)
	return &caller{conn: c}, err
}

// ask sends one request with the visitor's ticket, and learns it from an answer that
// has one.
func (c *caller) ask(method, path string, header ...string) (status int, answer map[string]any, err error) {
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	header = append(header, "Host: sluice", "Content-Length: 0")
	if c.ticket != "" {
		header = append(header, "X-Queue-Ticket: "+c.ticket)
	}
	if _, err = fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\n%s\r\n\r\n", method, path, strings.Join(header, "\r\n")); err != nil {
		return 0, nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(c.conn), nil)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if err = json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return 0, nil, err
	}
	if ticket, ok := answer["ticket"].(string); ok {
		c.ticket = ticket
	}
	return res.StatusCode, answer, nil
}

func (c *caller) poll() error {
	status, answer, err := c.ask(http.MethodGet, "/queue/position")
	if err == nil && (status != http.StatusOK || answer["state"] != "waiting") {
		err = fmt.Errorf("%d %v", status, answer)
	}
	return err
}

// served is how many requests an instance's public listener has answered.
func served(t *testing.T, at *instance) (n int) {
	t.Helper()
	_, answer := call(t, http.MethodGet, at.admin+"/metrics", nil, "")
	for line := range strings.Lines(fmt.Sprint(answer["text"])) {
		if !strings.HasPrefix(line, "sluice_http_requests_total{") || !strings.Contains(line, "/queue/") {
			continue
		}
		count, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 64)
		if err != nil {
			t.Fatal(err)
		}
		n += int(count)
	}
	return n
}

// behindNginx are two instances of the queue half, and nginx in front of them.
func behindNginx(t *testing.T, file string, environ ...string) (front *servicetest.NginxServer, first, second *instance, killFirst func()) {
	t.Helper()
	environ = append(environ, "SLUICE_ROLE=queue", "SLUICE_REDIS="+ownRedis(t), "SLUICE_SECRET="+strings.Repeat("shared-secret-", 3))
	first, process := startProcess(t, environ...)
	second, _ = startProcess(t, environ...)
	front = servicetest.Nginx(t, file, strings.TrimPrefix(first.public, "http://"), strings.TrimPrefix(second.public, "http://"))
	return front, first, second, func() {
		_ = process.Process.Kill()
		// Until it has ended its listener may still take connections, and reset them.
		_ = process.Wait()
	}
}

// A crowd behind nginx, each visitor on a connection that is kept, more of them than
// nginx takes unless it is told to: all are answered, by both instances, and when one is
// killed those who come again are answered by the other at their places.
func TestNginx(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"stream": nginxStream, "http": nginxHTTP} {
		t.Run(name, func(t *testing.T) {
			front, first, second, killFirst := behindNginx(t, file)
			pause(t, first)
			const visitors = 1500
			callers := make([]*caller, visitors)
			defer func() {
				for _, c := range callers {
					if c != nil && c.conn != nil {
						_ = c.conn.Close()
					}
				}
			}()
			everybody(t, visitors, func(n int) (err error) {
				if callers[n], err = dialFrom(t.Context(), "127.0.0.1", front.Address); err != nil {
					return err
				}
				status, answer, err := callers[n].ask(http.MethodPost, "/queue/enter")
				if err == nil && status != http.StatusCreated {
					err = fmt.Errorf("enter: %d %v", status, answer)
				}
				return err
			})
			everybody(t, visitors, func(n int) error { return callers[n].poll() })
			if a, b := served(t, first), served(t, second); a+b != 2*visitors || a < visitors/2 || b < visitors/2 {
				t.Errorf("the instances have answered %d and %d of %d requests", a, b, 2*visitors)
			}
			killFirst()
			everybody(t, visitors, func(n int) (err error) {
				if callers[n].poll() == nil {
					return nil
				}
				again, err := dialFrom(t.Context(), "127.0.0.1", front.Address)
				if err != nil {
					return err
				}
				_ = callers[n].conn.Close()
				callers[n].conn = again.conn
				return callers[n].poll()
			})
			if b := served(t, second); b < 2*visitors {
				t.Errorf("the instance that is left has answered %d", b)
			}
		})
	}
}

// everybody has each of n do something, a hundred at once.
func everybody(t *testing.T, n int, do func(n int) error) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(100)
	for i := range n {
		all.Go(func() error {
			if err := do(i); err != nil {
				return fmt.Errorf("visitor %d: %w", i, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

// What bounds an address finds it behind nginx at layer 7, whatever the visitor says of
// it; at layer 4 all have one address, and nobody's word is taken.
func TestNginxAndAddresses(t *testing.T) {
	t.Parallel()
	for name, layer := range map[string]struct {
		file, trusted string
		newcomer      int
	}{
		"stream": {nginxStream, "", http.StatusTooManyRequests},
		"http":   {nginxHTTP, "127.0.0.1/32", http.StatusCreated},
	} {
		t.Run(name, func(t *testing.T) {
			front, _, _, _ := behindNginx(t, layer.file, "SLUICE_LIMITS_ENTER_PER_ADDRESS=1", "SLUICE_IDENTITY_TRUSTED_PROXIES="+layer.trusted)
			enter := func(from, said string) int {
				c, err := dialFrom(t.Context(), from, front.Address)
				if err != nil {
					t.Skipf("this system has no %s: %v", from, err)
				}
				defer func() { _ = c.conn.Close() }()
				status, _, err := c.ask(http.MethodPost, "/queue/enter", "X-Forwarded-For: "+said, "X-User-Id: "+said)
				if err != nil {
					t.Fatal(err)
				}
				return status
			}
			in := 0
			for n := range 8 { // two instances, and one place in each
				if enter("127.0.0.2", fmt.Sprintf("192.0.2.%d", n)) == http.StatusCreated {
					in++
				}
			}
			if in != 2 {
				t.Errorf("%d entered from one address", in)
			}
			if status := enter("127.0.0.3", "192.0.2.100"); status != layer.newcomer {
				t.Errorf("from another address: %d, want %d", status, layer.newcomer)
			}
		})
	}
}
