package rediscoupons

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
	"sluice/orders/sqlstore"
)

// The test binary runs itself as another process that claims coupons until it is
// killed, when childOptions says where.
const childOptions = "SLUICE_TEST_COUPONS_CHILD"

type childHouse struct {
	Redis, URL, Path string
	Ack              Ack
	Coupon           orders.Coupon
	Name             string // of this child, for its visitors
}

func child() int {
	err := claimForever()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// claimForever prints each acknowledged claim on a line, visitor and code. It ends by
// being killed.
func claimForever() error {
	var h childHouse
	if err := json.Unmarshal([]byte(os.Getenv(childOptions)), &h); err != nil {
		return err
	}
	store, err := sqlstore.Open(context.Background(), sqlstore.Options{URL: h.URL, Path: h.Path, Workers: 8, Log: discard})
	if err != nil {
		return err
	}
	opts, err := redis.ParseURL(h.Redis)
	if err != nil {
		return err
	}
	i, err := New(redis.NewClient(opts), store, h.Ack, discard)
	if err != nil {
		return err
	}
	write := func(ctx context.Context, r orders.ClaimRequest) orders.Claimed {
		return store.Claim(ctx, []orders.ClaimRequest{r})[0]
	}
	errs := make(chan error, 8)
	for worker := range cap(errs) {
		go func() {
			for n := 0; ; n++ {
				r := orders.ClaimRequest{CouponID: h.Coupon.ID, Line: "default", Code: orders.NewCode(),
					Visitor: fmt.Sprintf("%s-%d-%d", h.Name, worker, n)}
				got := i.Claim(context.Background(), h.Coupon, r, write)
				if got.Err == nil {
					_, got.Err = fmt.Fprintln(os.Stdout, r.Visitor, got.Claim.Code) // one write
				}
				if got.Err != nil {
					errs <- got.Err
					return
				}
			}
		}()
	}
	return <-errs
}

// TestKilledProcessLosesNothing kills a process that gives coupons out, as kill -9 does,
// and holds the database against what it had acknowledged. The child has no loops: what
// it had not written is for others.
func TestKilledProcessLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, h *house) {
		store := h.store(t)
		c := addCoupon(t, store, 1_000_000)
		a := h.start(t, c.ID, nil)
		a.knows(t, c.ID)
		var all crowd
		for round := range 3 {
			text, err := json.Marshal(childHouse{
				Redis: h.redis, URL: h.database.URL, Path: h.database.Path, Ack: h.ack, Coupon: c, Name: fmt.Sprint("round-", round),
			})
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), childOptions+"="+string(text))
			cmd.Stderr = os.Stderr
			for _, line := range killAfter(t, cmd, 200) {
				visitor, code, _ := strings.Cut(line, " ")
				all.acknowledged(t, visitor, orders.Claimed{Claim: orders.Claim{Visitor: visitor, Code: code}})
			}
		}
		a.drained(t)
		written := claimsOf(t, store, c)
		all.holds(t, written)
		// Redis and the database agree on who has one.
		known, err := a.client.HLen(t.Context(), codes(c.ID)).Result()
		if err != nil || known-1 != int64(len(written)) {
			t.Errorf("Redis knows %d claims, the database %d; %v", known-1, len(written), err)
		}
		t.Logf("%d acknowledged, %d written, %d of them from the stream", len(all.codes), len(written), a.Stats().Drained)
	})
}

// killAfter kills the child as soon as it has printed n lines, and returns all that it
// printed before it died.
func killAfter(t *testing.T, cmd *exec.Cmd, n int) (printed []string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var kill sync.Once
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break // a part of a line was not printed to its end: not acknowledged
		}
		if printed = append(printed, strings.TrimSpace(line)); len(printed) >= n {
			kill.Do(func() {
				if err := cmd.Process.Kill(); err != nil {
					t.Errorf("kill: %v", err)
				}
			})
		}
	}
	_ = cmd.Wait() // it was killed: that is its error
	if len(printed) < n {
		t.Fatalf("the process ended by itself after %d claims", len(printed))
	}
	return printed
}
