package rediscoupons

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/orders/sqlstore"
	"sluice/servicetest"
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
		orderstest.RunClaiming(t, func(t testing.TB) orderstest.Claiming { return claiming(t, fresh(t)) })
	})
}

// What holds on one server holds behind sentinels and on a cluster.
func TestClaimingOnManyServers(t *testing.T) {
	for name, servers := range map[string]func(testing.TB) string{
		"sentinel": func(t testing.TB) string { return servicetest.OwnSentinel(t).URL },
		"cluster":  func(t testing.TB) string { return servicetest.OwnCluster(t).URL },
	} {
		for _, ack := range []Ack{Committed, Issued} {
			t.Run(name+"/"+string(ack), func(t *testing.T) {
				t.Parallel()
				orderstest.RunClaiming(t, func(t testing.TB) orderstest.Claiming {
					return claiming(t, newHouse(t, servers(t), databases["sqlite"](t), ack))
				})
			})
		}
	}
}

func claiming(t testing.TB, h *house) orderstest.Claiming {
	client := new(wire).dial(t, h.redis)
	return orderstest.Claiming{
		Open:   func(t testing.TB) *orders.Service { return h.start(t).Service },
		Store:  h.store,
		Settle: func(t testing.TB) { settled(t, client) },
		Process: func(t testing.TB, coupon int64, name string) *exec.Cmd {
			return childProcess(t, childHouse{h.redis, h.database.URL, h.database.Path, h.ack, coupon, name})
		},
	}
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
	client, err := connect(h.Redis, new(wire).connect)
	if err != nil {
		return err
	}
	store, err := sqlstore.Open(context.Background(), sqlstore.Options{URL: h.URL, Path: h.Path, Workers: 4, Log: discard})
	if err != nil {
		return err
	}
	issuer, err := New(client, store, h.Ack, discard)
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
