package sqlstore

import (
	"os"
	"os/exec"
	"testing"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
)

func TestCouponContract(t *testing.T) {
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orderstest.RunCoupons(t, counted(fresh))
		})
	}
}

// TestClaiming gives coupons out in the database alone.
func TestClaiming(t *testing.T) {
	for name, fresh := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			orderstest.RunClaiming(t, func(t testing.TB) orderstest.Claiming {
				opts := fresh(t)
				opts.Workers, opts.Log = orders.DefaultOptions().Workers, discard
				return orderstest.Claiming{
					Open: func(t testing.TB) *orders.Service {
						return orderstest.Serve(t, openStore(t, opts, logger.Discard), func(*orders.Service) {})
					},
					Store:  openStore(t, opts, logger.Discard),
					Settle: func(testing.TB) {}, // acknowledged is committed
					Process: func(t testing.TB, coupon int64, name string) *exec.Cmd {
						return childProcess(t, "claim", childStore{URL: opts.URL, Path: opts.Path, Coupon: coupon, Name: name})
					},
				}
			})
		})
	}
}

func claimForever(s *Store, c childStore) error {
	service, err := orders.NewService(s, orders.DefaultOptions(), discard)
	if err != nil {
		return err
	}
	return orderstest.ClaimForever(service, c.Coupon, c.Name, os.Stdout)
}
