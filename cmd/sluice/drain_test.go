package main

import (
	"net/http"
	"strings"
	"testing"

	"sluice/servicetest"
)

// A process that stops takes its capacity out when it begins to drain: whoever is
// let in from then on could not order there any more.
func TestDrainWithdrawsTheCapacity(t *testing.T) {
	t.Parallel()
	environ := []string{
		"SLUICE_REDIS=" + servicetest.OwnRedis(t).URL, "SLUICE_DATABASE=" + servicetest.MySQL(t),
		"SLUICE_SECRET=" + strings.Repeat("shared-secret-", 3),
	}
	stays, goes := serveEmbedded(t, environ...), serveEmbedded(t, append(environ, "SLUICE_DRAIN_DELAY=3s")...)
	capacity := func() any {
		_, line := call(t, http.MethodGet, stays.admin+lineAPI+"default", nil, "")
		return line["capacity"]
	}
	eventually(t, "both count", func() bool { return capacity() == 400.0 })
	ended := make(chan int)
	go func() { ended <- goes.end() }()
	eventually(t, "one counts", func() bool { return capacity() == 200.0 })
	if status, _ := call(t, http.MethodGet, goes.admin+"/healthz", nil, ""); status != http.StatusOK {
		t.Errorf("healthz: %d; the capacity went with the process and not with the drain", status)
	}
	if code := <-ended; code != exitOK {
		t.Errorf("exit %d", code)
	}
}
