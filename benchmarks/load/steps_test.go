//go:build linux

package load

import (
	"fmt"
	"math"
	"strconv"
	"testing"
)

// admitted is how many are let in a second: as in the published waiting room.
const admitted = 175

// step is one scenario: what the service needs, what makes the load, and what is taken
// from what came of it.
type step struct {
	name, title, purpose string
	service              []string // settings
	provider             bool     // of payments, which takes a second
	driver               driver
	take                 func(*testing.T, *service, *found, *result)
}

// steps are all of them, at a share of their full size.
func steps(scale float64) []step {
	n := func(full, least int) int { return max(least, int(math.Round(float64(full)*scale))) }
	// Time is shortened too, but no scenario makes sense in none.
	s := func(full, least int) string { return strconv.Itoa(min(full, n(full, least))) + "s" }
	set := func(name string, value any) string { return fmt.Sprintf("%s=%v", name, value) }
	payments := "60s"
	share := "0.9"
	if scale < 1 { // which is for a machine that has other things to do
		payments, share = "9s", "0.3"
	}
	rate, arrivals := n(10_000, 100), n(30, 5)
	million, enterFor := n(1_000_000, 2_000), n(300, 30)

	return []step{
		{
			name: "blackfriday", title: "Mass entry", purpose: "1,000 come within five seconds and poll as told for thirty.",
			driver: script{"blackfriday.js", []string{set("USERS", n(1000, 20)), set("RAMP", s(5, 2)), set("HOLD", s(30, 5))}},
			take:   besideQueue("users, mass entry"),
		},
		{
			name: "full_flow", title: "A real user's path", purpose: "100 enter, poll until they are let in, order, order again, and read the order.",
			driver: script{"full_flow.js", []string{set("USERS", n(100, 10))}},
			take:   besideQueue("users, the whole path"),
		},
		{
			name: "spike", title: "Sudden burst", purpose: "1,000 come within one second and poll as told for ten.",
			driver: script{"spike.js", []string{set("USERS", n(1000, 20)), set("HOLD", s(10, 4))}},
			take:   besideQueue("users within a second"),
		},
		{
			name: "spike_x10", title: "Ten times that burst", purpose: "10,000 come within one second, each on a connection of their own: none may be refused.",
			// How long they wait is for the report: on a machine that makes the load too it is mostly
			// the load generator's time.
			driver: script{"spike.js", []string{set("USERS", n(10_000, 200)), set("HOLD", s(10, 4)), "P95_ENTER=10000", "P95_POSITION=10000"}},
			take: func(t *testing.T, s *service, f *found, r *result) {
				besideQueue("users within a second")(t, s, f, r)
				r.Figures = append(r.Figures, figure{"refused and failed", fmt.Sprintf("%d refused, %d errors", r.Seen.Overflows, f.failed)})
			},
		},
		{
			name: "cascade", title: "Slow orders beside a crowd", purpose: "1,000 poll without orders, then again while every order worker is busy with orders of 1,298 ms.",
			service: []string{"SLUICE_ORDERS_TEST_DELAY=1298ms"},
			driver:  script{"cascade.js", []string{set("USERS", n(1000, 40)), set("RAMP", s(5, 2)), set("HOLD", s(40, 15)), set("BUYERS", n(60, 20))}},
			take:    takeCascade,
		},
		{
			name: "coupon_rush", title: "Rush for coupons", purpose: "10,000 claim one of 5,000 coupons at one moment.",
			service: []string{"SLUICE_ORDERS_BACKLOG=10000"},
			driver:  script{"coupon_rush.js", []string{set("USERS", n(10_000, 200)), set("RAMP", s(30, 3)), set("SETTLE", s(5, 2)), "P95_CLAIM=10000"}},
			take:    takeCoupons,
		},
		{
			name: "order_payment", title: "Order and payment, 700 users", purpose: "Each orders, waits a second, pays (the provider takes a second), waits a second, for a minute.",
			service: []string{"SLUICE_LINE_JITTER=0s"}, provider: true,
			driver: script{"order_payment.js", []string{set("USERS", n(700, 20)), set("DURATION", payments), set("MIN_SHARE", share)}},
			take:   takePayments,
		},
		{
			name: "order_payment_1000", title: "Order and payment, 1,000 users", purpose: "The same with more users than the published system could take.",
			service: []string{"SLUICE_LINE_JITTER=0s"}, provider: true,
			driver: script{"order_payment.js", []string{set("USERS", n(1000, 25)), set("DURATION", payments), set("MIN_SHARE", share)}},
			take:   takePayments,
		},
		{
			name: "arrivals", title: "10,000 enters a second, by k6", purpose: "For thirty seconds, whether the answers keep up or not; in the end the line holds exactly who entered.",
			// The runner takes about as much of the machine as the service, so the rate that it
			// reaches is a finding, and no condition.
			driver: script{"arrivals.js", []string{set("RATE", rate), set("DURATION", fmt.Sprintf("%ds", arrivals)), "P95_ENTER=10000", "MIN_SHARE=0"}},
			take:   takeArrivals,
		},
		{
			name: "enters", title: "10,000 enters a second, by the crowd", purpose: "For thirty seconds over keep-alive connections, then polling by the poll budget; at least 9,500 a second get in, and in the end the line holds exactly who entered.",
			// Those who have entered poll at once; with the default budget of 10,000 polls/s they
			// take half of a small machine from those who enter. Nobody orders, for the same reason.
			service: []string{"SLUICE_LINE_POLL_BUDGET=1000"},
			driver: visitors{
				"--visitors", fmt.Sprint(rate * arrivals), "--connections", fmt.Sprint(n(500, 100)),
				"--arrival", "constant", "--over", fmt.Sprintf("%ds", arrivals), "--duration", fmt.Sprintf("%ds", arrivals+n(30, 10)), "--order-share", "0", "--quiet",
			},
			take: takeEnters(scale, rate),
		},
		{
			name: "million", title: "A million in line", purpose: "1,000,000 enter over keep-alive connections within five minutes, then two minutes of polls by the poll budget.",
			driver: visitors{
				"--visitors", fmt.Sprint(million), "--connections", fmt.Sprint(n(2000, 100)),
				"--arrival", "constant", "--over", fmt.Sprintf("%ds", enterFor), "--duration", fmt.Sprintf("%ds", enterFor+n(120, 10)), "--quiet",
			},
			take: takeCrowd,
		},
	}
}

// besideQueue is a row of the table of waiting rooms.
func besideQueue(what string) func(*testing.T, *service, *found, *result) {
	return func(_ *testing.T, _ *service, f *found, r *result) {
		enter, position := r.time("enter"), r.time("position")
		r.Rows = append(r.Rows, row{In: inQueue, Bar: position.P95, Cells: []string{
			whole(f.k6.Users) + " " + what, whole(f.failed), millis(enter.Avg), millis(enter.P95), millis(position.Avg), millis(position.P95), "–",
		}})
		r.Figures = append(r.Figures, figure{"checks", whole(f.k6.Checks)})
		if f.k6.Ordered > 0 {
			r.Figures = append(r.Figures, figure{"orders", whole(f.k6.Ordered)})
		}
	}
}

func takeCascade(_ *testing.T, _ *service, f *found, r *result) {
	quiet, busy, orders := f.k6.Quiet, f.k6.Saturated, f.k6.SaturatedOrders
	done := fmt.Sprintf("%.2f of %.2f: %s", orders.PerSecond, orders.Possible, percent(orders.Share))
	for _, p := range []struct {
		what, orders string
		phase        phase
	}{{"users, no orders", "–", quiet}, {"users beside slow orders", done, busy}} {
		failed := "0"
		if p.phase.Failed > 0 {
			failed = percent(p.phase.Failed)
		}
		r.Rows = append(r.Rows, row{In: inQueue, Bar: p.phase.Position.P95, Cells: []string{
			whole(f.k6.Users) + " " + p.what, failed, millis(p.phase.Enter.Avg), millis(p.phase.Enter.P95), millis(p.phase.Position.Avg), millis(p.phase.Position.P95), p.orders,
		}})
	}
	isolated := "no: a p95 beside orders was over 1.5 times that without, and over 3 ms"
	if f.k6.Isolated {
		isolated = "yes"
	}
	r.Figures = append(r.Figures, figure{"queue isolated from orders", isolated}, figure{"orders/s of what the workers can do", done})
}

func takeCoupons(_ *testing.T, _ *service, f *found, r *result) {
	claim := r.time("claim")
	answered := float64(f.k6.Issued+f.k6.SoldOut) / float64(max(1, f.k6.Users))
	r.Rows = append(r.Rows, row{In: inCoupons, Bar: claim.P95, Cells: []string{
		"one process, the database decides, in groups; " + whole(f.k6.Users) + " at once", percent(answered), millis(claim.Avg), millis(claim.P95),
	}})
	r.Figures = append(r.Figures,
		figure{"issued, told that it is sold out", whole(f.k6.Issued) + ", " + whole(f.k6.SoldOut)},
		figure{"from the moment to the answer, p95 and max", millis(f.k6.Answer.P95) + " and " + millis(f.k6.Answer.Max) + " ms"})
}

func takePayments(_ *testing.T, _ *service, f *found, r *result) {
	order := r.time("order")
	r.Rows = append(r.Rows, row{In: inOrders, Bar: 100 * f.k6.Share, Cells: []string{
		whole(f.k6.Users), fmt.Sprintf("%.1f of %.1f", f.k6.PerSecond, f.k6.Ceiling), percent(f.k6.Share), millis(order.P95),
	}})
}

func takeArrivals(_ *testing.T, _ *service, f *found, r *result) {
	r.Rows = append(r.Rows, row{In: inCrowds, Cells: []string{
		"k6, constant arrival rate", whole(f.k6.Entered), whole(int64(f.k6.EnteredASecond)), whole(f.failed), millis(r.time("enter").P95), "–",
	}})
	r.Figures = append(r.Figures, figure{"not started, since no user of k6 was free", whole(f.k6.Dropped)})
}

// takeEnters also holds the rate that was reached against the one that was asked for: at
// full size, since at less a run is not for its figures.
func takeEnters(scale float64, asked int) func(*testing.T, *service, *found, *result) {
	return func(t *testing.T, s *service, f *found, r *result) {
		takeCrowd(t, s, f, r)
		if reached := f.crowd.Entering.PerSecond; scale >= 1 && reached < 0.95*float64(asked) {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%.0f a second entered, less than 95 %% of %d", reached, asked))
		}
	}
}

// takeCrowd holds what entered against the line, and looks at the polls after that.
func takeCrowd(t *testing.T, s *service, f *found, r *result) {
	c := f.crowd
	if !c.Line.Exact || c.Entering.Entered != c.Visitors {
		r.Wrong = append(r.Wrong, fmt.Sprintf("of %d came %d; %d entered, and the line counts %d", c.Visitors, c.Entering.Entered, c.Line.Entered, c.Line.Sum))
	}
	if f.failed > 0 {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%d requests failed or were refused", f.failed))
	}
	r.Rows = append(r.Rows, row{In: inCrowds, Cells: []string{
		r.Title, whole(c.Entering.Entered), whole(int64(c.Entering.PerSecond)), whole(f.failed), millis(r.time("POST /queue/enter").P95), millis(r.time("GET /queue/position").P95),
	}})
	inLine := c.Line.Waiting + c.Line.Away
	r.Figures = append(r.Figures,
		figure{"in line at the end, let in", whole(inLine) + ", " + whole(c.Line.Admitted)},
		figure{"let in per second, of " + fmt.Sprint(admitted), fmt.Sprintf("%.1f; permits that stalls swallowed: %.0f", c.Rates.Admissions, s.dropped(t))},
		figure{"how late the crowd was, p99", millis(c.Crowd.LatenessP99) + " ms"})
	if inLine >= 1000 { // of fewer, what it holds besides is most
		r.Figures = append(r.Figures, figure{"Redis, for each in line", fmt.Sprintf("%.0f B", (s.info(t, "memory", "used_memory")-s.emptyRedis)/float64(inLine))})
	}
	if c.Ticks.Count > 0 {
		r.Figures = append(r.Figures, figure{"ticks at most 20 ms after their time", fmt.Sprintf("%s of %s", percent(c.Ticks.Within20), whole(c.Ticks.Count))})
	}
	if c.Polls.PerSecond > 0 {
		r.Figures = append(r.Figures, figure{"polls/s after the last had entered", whole(int64(c.Polls.PerSecond))})
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
