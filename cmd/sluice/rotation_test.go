package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/servicetest"
)

// fleet are instances behind a balancer: whoever asks gets the next live one.
type fleet struct {
	t       *testing.T
	environ []string
	next    atomic.Int64
	mu      sync.Mutex
	live    []*instance // guarded by mu
}

func (f *fleet) any() *instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[int(f.next.Add(1))%len(f.live)]
}

// roll replaces one instance after the other by one with other settings. Each leaves
// the balancer before it stops.
func (f *fleet) roll(environ ...string) {
	f.t.Helper()
	for n := range 2 {
		fresh := serveEmbedded(f.t, append(slices.Clone(f.environ), environ...)...)
		f.mu.Lock()
		var old *instance
		if len(f.live) < 2 {
			f.live = append(f.live, fresh)
		} else {
			old, f.live[n] = f.live[n], fresh
		}
		f.mu.Unlock()
		if old != nil {
			if code := old.end(); code != exitOK {
				f.t.Errorf("exit %d; log:\n%s", code, old.log)
			}
		}
	}
}

// ask sends to a live instance; who is told to come again does.
func (f *fleet) ask(ctx context.Context, method, path string, header map[string]string, body string) (status int, answer map[string]any, err error) {
	for {
		status, answer, err = try(ctx, method, "", f.any().public+path, header, body)
		if ctx.Err() != nil || err == nil && status != http.StatusServiceUnavailable {
			return status, answer, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// shopper goes through the line again and again, and is refused nowhere.
func (f *fleet) shopper(ctx context.Context, product int, visits *atomic.Int64) error {
	for ctx.Err() == nil {
		token, err := f.visit(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		status, answer, err := f.order(ctx, token, product)
		if err != nil || status != http.StatusCreated && status != http.StatusOK {
			return fmt.Errorf("order: %d %v %w", status, answer, err)
		}
		visits.Add(1)
	}
	return nil
}

func (f *fleet) order(ctx context.Context, token string, product int) (int, map[string]any, error) {
	return f.ask(ctx, http.MethodPost, "/orders", map[string]string{"Authorization": "Bearer " + token},
		fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product))
}

// visit enters and waits for the token; it is empty if ctx ended first.
func (f *fleet) visit(ctx context.Context) (token string, err error) {
	status, answer, err := f.ask(ctx, http.MethodPost, "/queue/enter", nil, "{}")
	if err != nil || status != http.StatusCreated {
		return "", fmt.Errorf("enter: %d %v %w", status, answer, err)
	}
	ticket, _ := answer["ticket"].(string)
	for {
		status, answer, err = f.ask(ctx, http.MethodGet, "/queue/position", map[string]string{"X-Queue-Ticket": ticket}, "")
		if err != nil || status != http.StatusOK {
			return "", fmt.Errorf("position: %d %v %w", status, answer, err)
		}
		if answer["state"] == "admitted" {
			usableIn, _ := answer["usable_in_ms"].(float64)
			time.Sleep(time.Duration(usableIn) * time.Millisecond)
			token, _ = answer["token"].(string)
			return token, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A secret and an algorithm are changed under load, one instance after the other, by the
// steps of docs/operations.md: nobody who waits, is let in, or orders notices.
func TestRotationUnderLoad(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, environ: []string{"SLUICE_REDIS=" + ownRedis(t), "SLUICE_DATABASE=" + servicetest.MySQL(t)}}
	former, latter := strings.Repeat("former-secret-", 3), strings.Repeat("latter-secret-", 3)
	settings := func(algorithms string, secrets ...string) []string {
		return []string{"SLUICE_SECRET=" + strings.Join(secrets, ","), "SLUICE_ADMISSION_ALGORITHMS=" + algorithms}
	}
	f.roll(settings("HS256", former)...)
	product := addProduct(t, f.any(), 1_000_000)
	patientLine := func() string { return f.any().admin + lineAPI + "patient" }
	if status, answer := call(t, http.MethodPut, patientLine(), nil, `{"paused":true}`); status != http.StatusCreated {
		t.Fatalf("a line for those who wait: %d %v", status, answer)
	}
	eventually(t, "both serve the line", func() bool {
		a, _ := call(t, http.MethodGet, f.live[0].public+"/queue/status?line=patient", nil, "")
		b, _ := call(t, http.MethodGet, f.live[1].public+"/queue/status?line=patient", nil, "")
		return a == http.StatusOK && b == http.StatusOK
	})
	var patient []*visitor
	for range 20 {
		v := &visitor{t: t, line: "patient"}
		v.enter(f.any())
		patient = append(patient, v)
	}
	unused, err := f.visit(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var shoppers sync.WaitGroup
	visits := make([]atomic.Int64, 10)
	for n := range visits {
		shoppers.Go(func() {
			if err := f.shopper(ctx, product, &visits[n]); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	everybodyVisits := func() {
		t.Helper()
		from := make([]int64, len(visits))
		for n := range visits {
			from[n] = visits[n].Load()
		}
		eventually(t, "everybody has begun anew", func() bool {
			for n := range visits {
				if visits[n].Load() < from[n]+2 {
					return false
				}
			}
			return true
		})
	}
	everybodyVisits()
	f.roll(settings("HS256,EdDSA", former, latter)...)
	everybodyVisits()
	f.roll(settings("EdDSA,HS256", latter, former)...)
	everybodyVisits()

	// Who waited from the beginning stands where they stood; who was let in then orders.
	for n, v := range patient {
		if a := v.position(f.any()); a["position"] != float64(n+1) {
			t.Errorf("visitor %d stands at %v", n+1, a)
		}
	}
	if status, answer := call(t, http.MethodPatch, patientLine(), nil, `{"paused":false}`); status != http.StatusOK {
		t.Fatalf("resume: %d %v", status, answer)
	}
	for _, v := range patient {
		v.beAdmitted(f.any(), f.any())
		if status, answer := v.order(f.any(), product); status != http.StatusCreated {
			t.Errorf("order: %d %v", status, answer)
		}
	}
	if status, answer, err := f.order(t.Context(), unused, product); status != http.StatusCreated {
		t.Errorf("the first secret's token: %d %v %v", status, answer, err)
	}

	// Nothing of the former is out any more but what is refused now.
	f.roll(settings("EdDSA", latter)...)
	everybodyVisits()
	stop()
	shoppers.Wait()
	if status, answer, err := f.order(t.Context(), unused, product); status != http.StatusUnauthorized {
		t.Errorf("after the last step the first secret is still good: %d %v %v", status, answer, err)
	}
	status, keys := call(t, http.MethodGet, f.any().public+"/.well-known/jwks.json", nil, "")
	if list, _ := keys["keys"].([]any); status != http.StatusOK || len(list) != 1 {
		t.Errorf("public keys: %d %v", status, keys)
	}
}

// One token, offered to two instances at the same moment many times over, makes one
// order: with the same cart everybody is told of it, with another all but one are refused.
func TestTokenReplayedToTwoInstances(t *testing.T) {
	t.Parallel()
	environ := sharedStores(t)
	both := []*instance{serveEmbedded(t, environ...), serveEmbedded(t, environ...)}
	product := addProduct(t, both[0], 1_000_000)
	for round := range 5 {
		v := &visitor{t: t}
		v.enter(both[0])
		v.beAdmitted(both...)
		const times = 20
		type outcome struct {
			status int
			order  any
		}
		outcomes, together := make(chan outcome, times), make(chan struct{})
		for n := range times {
			quantity := 1
			if round%2 == 1 {
				quantity = n + 1 // each asks for something else
			}
			go func() {
				<-together
				status, answer, err := try(t.Context(), http.MethodPost, "", both[n%2].public+"/orders", map[string]string{"Authorization": "Bearer " + v.token},
					fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":%d}]}`, product, quantity))
				if err != nil {
					t.Error(err)
				}
				outcomes <- outcome{status, answer["order_id"]}
			}()
		}
		close(together)
		statuses, orders := map[int]int{}, map[any]bool{}
		for range times {
			o := <-outcomes
			statuses[o.status]++
			if o.order != nil {
				orders[o.order] = true
			}
		}
		again := http.StatusOK
		if round%2 == 1 {
			again = http.StatusConflict
		}
		if statuses[http.StatusCreated] != 1 || statuses[again] != times-1 || len(orders) != 1 {
			t.Errorf("round %d: %v, %d orders", round, statuses, len(orders))
		}
	}
	if _, sum := call(t, http.MethodGet, both[1].admin+"/admin/api/orders/summary", nil, ""); sum["orders"] != 5.0 {
		t.Errorf("summary: %v", sum)
	}
}
