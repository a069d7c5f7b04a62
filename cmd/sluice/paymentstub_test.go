package main

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/orders"
	"sluice/orders/httpprovider"
)

// TestPaymentStub stops it while somebody waits for an answer that never comes.
func TestPaymentStub(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	out, errs := newLines(), newLines()
	exit := make(chan int, 1)
	go func() {
		exit <- run(ctx, []string{"payment-stub", "--listen", "127.0.0.1:0", "--delay", "0s", "--timeout", "1"}, nil, out, errs)
	}()
	_, line, _ := strings.Cut(out.await(t, "\n"), "payment stub: ")
	url := strings.TrimSpace(line)
	client, err := httpprovider.New(httpprovider.Options{URL: url, AtOnce: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	asked := make(chan error, 1)
	go func() {
		_, err := client.Charge(t.Context(), orders.Payment{OrderID: "order", Attempt: 1, Amount: 700, Method: "card"})
		asked <- err
	}()
	eventually(t, "the charge is made", func() bool {
		status, report := call(t, http.MethodGet, url+"/charges", nil, "")
		return status == http.StatusOK && report["paid"] == 1.0 && report["unanswered"] == 1.0
	})
	stop()
	if code := <-exit; code != exitOK || errs.String() != "" {
		t.Errorf("exit %d, stderr %q", code, errs)
	}
	select {
	case err := <-asked:
		if err == nil {
			t.Error("who waited was answered")
		}
	case <-time.After(patience):
		t.Error("who waited is not cut off")
	}
}

func TestPaymentStubRefuses(t *testing.T) {
	t.Parallel()
	for code, all := range map[int][][]string{
		exitUsage:  {{"--decline", "2"}, {"--timeout", "-1"}, {"--delay", "-1s"}, {"--delay", "soon"}, {"extra"}},
		exitFailed: {{"--listen", "127.0.0.1:99999"}},
	} {
		for _, args := range all {
			var out, errs bytes.Buffer
			// A stub that is served after all must end the test.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			got := run(ctx, append([]string{"payment-stub", "--listen", "127.0.0.1:0"}, args...), nil, &out, &errs)
			cancel()
			if got != code || out.Len() > 0 || !strings.HasPrefix(errs.String(), "sluice: ") {
				t.Errorf("%q: exit %d, stdout %q, stderr %q", args, got, out.String(), errs.String())
			}
		}
	}
}
