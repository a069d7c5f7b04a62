package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"sluice/orders/httpprovider/standin"
)

// In every way of giving coupons out: whatever moment the process dies in, a claim that
// was acknowledged is there, once, asking again gives the same code, and no coupon is
// given more often than there are.
func TestKilledWhileClaiming(t *testing.T) { endedWhileClaiming(t, (*rush).killing) }

// The same where it is asked to stop.
func TestStoppedWhileClaiming(t *testing.T) { endedWhileClaiming(t, (*rush).stopping) }

func endedWhileClaiming(t *testing.T, ending func(*rush)) {
	t.Parallel()
	const coupons = 60
	for name, environ := range map[string][]string{
		"database":  {},
		"committed": {"SLUICE_COUPONS_MODE=redis"},
		"issued":    {"SLUICE_COUPONS_MODE=redis", "SLUICE_COUPONS_ACK=issued"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRush(t, environ...)
			for n := range coupons { // some are gone soon, some last
				body := fmt.Sprintf(`{"name":"First come","quantity":%d}`, 10*(n+1))
				if status, answer := call(t, http.MethodPost, r.at.admin+"/admin/api/coupons", nil, body); status != http.StatusCreated {
					t.Fatalf("coupon: %d %v", status, answer)
				}
			}
			r.buying(func(ctx context.Context, token string) error {
				answer, err := r.do(ctx, token, fmt.Sprintf("/coupons/%d/claim", 1+rand.IntN(coupons)), "")
				if answer["code"] == "sold_out" {
					return nil
				}
				return err
			}, func() { ending(r) })
			acknowledged := r.again("code")
			t.Logf("%d claims acknowledged, %d of %d coupons gone", acknowledged, r.count("SELECT COUNT(*) FROM coupons WHERE issued = quantity"), coupons)
			if acknowledged < kills {
				t.Error("too few: nothing was shown")
			}
			// What is acknowledged when it is issued is written a little later.
			eventually(t, "all that was acknowledged is written", func() bool {
				for _, value := range r.answers.Range {
					if r.count("SELECT COUNT(*) FROM coupon_claims WHERE code = ?", value.(deed).answer["code"]) != 1 {
						return false
					}
				}
				return true
			})
			if n := r.count("SELECT COUNT(*) FROM coupons c WHERE issued > quantity OR issued <> (SELECT COUNT(*) FROM coupon_claims WHERE coupon_id = c.id)"); n != 0 {
				t.Errorf("%d coupons were given more often than there are, or not as often as they say", n)
			}
		})
	}
}

// Whatever moment the process dies in, nobody is charged twice, and what the provider
// took is paid.
func TestKilledWhilePaying(t *testing.T) { endedWhilePaying(t, (*rush).killing) }

// The same where it is asked to stop.
func TestStoppedWhilePaying(t *testing.T) { endedWhilePaying(t, (*rush).stopping) }

func endedWhilePaying(t *testing.T, ending func(*rush)) {
	t.Parallel()
	provider, err := standin.New(standin.Options{Delay: 40 * time.Millisecond, Decline: 0.1, Timeout: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(provider.Handler())
	t.Cleanup(server.Close)
	r := newRush(t, "SLUICE_PAYMENTS_PROVIDER="+server.URL, "SLUICE_PAYMENTS_TIMEOUT=300ms")
	product := addProduct(t, r.at, 1_000_000)
	r.buying(func(ctx context.Context, token string) error {
		order, err := r.ask(ctx, token, "/orders", fmt.Sprintf(`{"items":[{"product_id":%d,"quantity":1}]}`, product))
		if err != nil {
			return err
		}
		answer, err := r.do(ctx, token, fmt.Sprintf("/orders/%v/payment", order["order_id"]), byCard)
		if answer["code"] == "payment_declined" {
			return nil
		}
		return err
	}, func() { ending(r) })
	acknowledged := r.again("paid_at")
	t.Logf("%d payments acknowledged", acknowledged)
	if acknowledged < kills {
		t.Error("too few: nothing was shown")
	}
	eventually(t, "all payments are settled", func() bool {
		return r.count("SELECT COUNT(*) FROM orders WHERE state = 'payment_unknown'") == 0
	})
	books := provider.Report()
	if books.ChargedTwice != 0 {
		t.Errorf("%d orders were charged twice", books.ChargedTwice)
	}
	for id := range books.PaidByOrder {
		if r.count("SELECT COUNT(*) FROM orders WHERE state = 'paid' AND id = ?", id) != 1 {
			t.Errorf("the provider took the money for %s, which is not paid", id)
		}
	}
	if paid := r.count("SELECT COUNT(*) FROM orders WHERE state = 'paid'"); paid != len(books.PaidByOrder) {
		t.Errorf("%d orders are paid, and the provider took the money for %d", paid, len(books.PaidByOrder))
	}
}
