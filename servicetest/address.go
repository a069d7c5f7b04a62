package servicetest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Ports that the system gives to nobody's outgoing connections, on Linux and elsewhere.
const firstPort, lastPort = 10_000, 32_000

// given are the ports of the tests that run: each stays its test's, also while nobody
// listens there.
var given sync.Map

// Address is a free one of this machine, for a server that is stopped and started again:
// meanwhile no outgoing connection of anybody takes its port, and no other test of this
// process is given it, or tries it.
func Address(t testing.TB) string {
	t.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		t.Cleanup(func() { given.Delete(port) })
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		defer func() { _ = l.Close() }()
		return l.Addr().String()
	}
	t.Fatalf("no free address: %v", last)
	return ""
}
