package sqlstore

import (
	"testing"

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
