package browser

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// purchases are what the demo shop is there for.
var purchases = map[string]func(world){
	"shop":             shop,
	"purchase":         purchase,
	"purchase refused": purchaseRefused,
	"crowd":            crowd,
}

// provider starts the payment provider that only pretends.
func provider(t testing.TB, arguments ...string) (address string) {
	t.Helper()
	_, out := background(t, program(t, "sluice"), append([]string{"payment-stub", "--listen", "127.0.0.1:0"}, arguments...)...)
	eventually(t, "the provider", func() bool {
		address = regexp.MustCompile(`http://\S+`).FindString(out.String())
		return address != ""
	})
	return address
}

func shop(w world) {
	p := w.tab()
	p.goTo(w.public + "/")
	p.untilText("[data-product] button", ".")
	w.look(p, "shop")
}

// A coupon, an order that it takes from, and the payment.
func purchase(w world) {
	w.own("SLUICE_PAYMENTS_PROVIDER="+provider(w.T, "--delay", "300ms"), "SLUICE_LINE_INITIAL_RATE=50")
	p := w.tab()
	p.goTo(w.public + "/")
	p.click(`[data-coupon] [data-do=claim]`)
	p.untilAtShop()
	p.until(`document.querySelector('[data-coupon]').dataset.state === 'held'`)
	w.look(p, "shop-turn")
	p.click(`[data-product="1"] [data-do=buy]`)
	p.untilText("#receipt", "17.900|179|149")
	p.until(`document.querySelector('#receipt').dataset.state === 'pending'`)
	p.until(`document.querySelector('#receiptDiscount').checkVisibility()`)
	w.look(p, "shop-receipt")
	p.click("#receipt [data-do=pay]")
	p.until(`document.querySelector('#receipt').dataset.state === 'paid'`)
	w.look(p, "shop-paid")
	sums := w.operator(http.MethodGet, "/admin/api/orders/summary", nil)
	if by, _ := sums["by_state"].(map[string]any); sums["orders"] != 1.0 || by["paid"] != 1.0 {
		w.Errorf("the database has %v", sums)
	}
	// The receipt outlives a reload, and then the shop is as before.
	p.reload()
	p.until(`document.querySelector('#receipt').dataset.state === 'paid'`)
	p.click("#receipt [data-do=close]")
	p.until(`!document.querySelector('#receipt').checkVisibility()`)
}

// A declined payment may be tried again.
func purchaseRefused(w world) {
	w.own("SLUICE_PAYMENTS_PROVIDER="+provider(w.T, "--delay", "0s", "--decline", "1"), "SLUICE_LINE_INITIAL_RATE=50")
	p := w.tab()
	p.expect(`/payment.* 402`)
	p.goTo(w.public + "/")
	p.click(`[data-product="1"] [data-do=buy]`)
	p.click("#receipt [data-do=pay]")
	p.until(`document.querySelector('#receipt').dataset.state === 'declined'`)
	w.look(p, "shop-declined")
}

// A visitor with a browser among 500 without: the position falls, the turn comes, and what
// all of them saw is judged.
func crowd(w world) {
	w.own("SLUICE_LINE_INITIAL_RATE=50")
	w.patch("default", settings{"paused": true})
	others, out := background(w.T, program(w.T, "crowd"), "--target", w.public, "--operator", w.admin, "--visitors", "500",
		"--product", "2", "--connections", "50", "--order-share", "0.5", "--order-delay", "200ms", "--duration", "120s", "--quiet")
	eventually(w.T, "the crowd is in line", func() bool { return w.figures("default")["waiting"] == 500.0 })
	p := w.tab()
	p.goTo(w.public + "/")
	p.click(`[data-product="1"] [data-do=buy]`)
	p.state("waiting")
	p.untilText("#position", "^501$")
	w.patch("default", settings{"paused": false, "rate_override": 40})
	seen := []int{501}
	eventually(w.T, "the turn", func() bool {
		now, err := tryEval[string](p, `location.pathname === '/' ? 'shop' : document.querySelector('#position')?.innerText ?? ''`)
		if n, bad := strconv.Atoi(now); bad == nil && err == nil && n != seen[len(seen)-1] {
			seen = append(seen, n)
		}
		return now == "shop"
	})
	if len(seen) < 3 || !slices.IsSortedFunc(seen, func(a, b int) int { return b - a }) {
		w.Errorf("the positions that were shown: %v", seen)
	}
	p.until(`document.querySelector('#receipt')?.dataset.state === 'pending'`)
	if err := others.Wait(); err != nil {
		w.Errorf("the crowd was judged: %v\n%s", err, out)
	}
}
