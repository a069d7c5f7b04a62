package orders

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCatalogueIsAtMostASecondOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeStore{away: true}
		s, stop := running(t, f, nil)
		if _, err := s.Products(); !errors.Is(err, ErrDatabase) {
			t.Errorf("before the first read: %v", err)
		}
		if err := s.Ready(t.Context()); !errors.Is(err, ErrDatabase) {
			t.Errorf("ready before the first read: %v", err)
		}
		if _, err := s.Coupon(1); !errors.Is(err, ErrDatabase) {
			t.Errorf("a coupon before the first read: %v", err)
		}
		f.do(func() {
			f.away, f.products = false, []Product{{ID: 1, Stock: 5}, {ID: 7, Stock: 1}}
			f.coupons.all = []Coupon{{ID: 3, Quantity: 4}}
		})
		time.Sleep(time.Second)
		if p, err := s.Product(7); err != nil || p.Stock != 1 {
			t.Errorf("product 7: %+v, %v", p, err)
		}
		if c, err := s.Coupon(3); err != nil || c.Quantity != 4 {
			t.Errorf("coupon 3: %+v, %v", c, err)
		}
		for _, id := range []int64{0, 2, 8, -1} {
			if _, err := s.Coupon(id); !errors.Is(err, ErrCouponNotFound) {
				t.Errorf("coupon %d: %v", id, err)
			}
			if _, err := s.Product(id); !errors.Is(err, ErrProductNotFound) {
				t.Errorf("product %d: %v", id, err)
			}
		}
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("ready: %v", err)
		}
		f.do(func() { f.products[0].Stock = 4; f.reads = 0 })
		time.Sleep(time.Second)
		for range 1000 {
			if p, err := s.Product(1); err != nil || p.Stock != 4 {
				t.Fatalf("product 1: %+v, %v", p, err)
			}
		}
		f.do(func() {
			if f.reads > 3 {
				t.Errorf("%d reads in a second", f.reads)
			}
			f.away = true
		})
		time.Sleep(time.Minute)
		if p, err := s.Product(1); err != nil || p.Stock != 4 {
			t.Errorf("while the database is away: %+v, %v", p, err)
		}
		stop()
	})
}

func TestWhatIsAddedIsThereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stop := running(t, &fakeStore{}, nil)
		id, err := s.AddProduct(t.Context(), Product{Name: "Lamp", Stock: 3})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := s.Product(id); err != nil || p.Stock != 3 {
			t.Errorf("product: %+v, %v", p, err)
		}
		id, err = s.AddCoupon(t.Context(), Coupon{Name: "A tenth off", Quantity: 3})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := s.Coupon(id); err != nil || c.Quantity != 3 {
			t.Errorf("coupon: %+v, %v", c, err)
		}
		if all, err := s.Coupons(); err != nil || len(all) != 1 {
			t.Errorf("coupons: %+v, %v", all, err)
		}
		stop()
	})
}
