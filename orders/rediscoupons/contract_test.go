package rediscoupons

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/orders/sqlstore"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis says on stderr what the tests do to it
	if told := os.Getenv(childOptions); told != "" {
		fmt.Fprintln(os.Stderr, claimForever(told))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func TestClaiming(t *testing.T) {
	onEach(t, func(t *testing.T, fresh func(testing.TB) *house) {
		orderstest.RunClaiming(t, func(t testing.TB) orderstest.Claiming {
			h := fresh(t)
			client := new(wire).dial(t, h.redis)
			return orderstest.Claiming{
				Open:   func(t testing.TB) *orders.Service { return h.start(t).Service },
				Store:  h.store,
				Settle: func(t testing.TB) { settled(t, client) },
				Process: func(t testing.TB, coupon int64, name string) *exec.Cmd {
					return childProcess(t, childHouse{h.redis, h.database.URL, h.database.Path, h.ack, coupon, name})
				},
			}
		})
	})
}

// The test binary runs itself as another process, which claims until it is killed, when
// childOptions says where.
const childOptions = "SLUICE_TEST_COUPONS_CHILD"

type childHouse struct {
	Redis, URL, Path string
	Ack              Ack
	Coupon           int64
	Name             string // of this child, for its visitors
}

func childProcess(t testing.TB, h childHouse) *exec.Cmd {
	t.Helper()
	told, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childOptions+"="+string(told))
	cmd.Stderr = os.Stderr
	return cmd
}

func claimForever(told string) error {
	var h childHouse
	if err := json.Unmarshal([]byte(told), &h); err != nil {
		return err
	}
	opts, err := redis.ParseURL(h.Redis)
	if err != nil {
		return err
	}
	store, err := sqlstore.Open(context.Background(), sqlstore.Options{URL: h.URL, Path: h.Path, Workers: 4, Log: discard})
	if err != nil {
		return err
	}
	issuer, err := New(redis.NewClient(opts), store, h.Ack, discard)
	if err != nil {
		return err
	}
	service, err := orders.NewService(store, orders.DefaultOptions(), discard)
	if err != nil {
		return err
	}
	service.IssueThrough(issuer)
	if err := service.Refresh(context.Background()); err != nil {
		return err
	}
	var g errgroup.Group
	g.Go(func() error { return service.Run(context.Background()) })
	g.Go(func() error { return issuer.Run(context.Background()) })
	g.Go(func() error { return orderstest.ClaimForever(service, h.Coupon, h.Name, os.Stdout) })
	return g.Wait()
}
