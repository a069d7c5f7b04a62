//go:build prove

package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// finding is what one of the rules came to.
type finding struct {
	rule  string
	wrong []string // what broke it; empty is right
	seen  string   // the figures
	// untried is true if nothing happened that could have broken it.
	untried bool
}

func (f *finding) wrongIf(broken bool, format string, args ...any) {
	if broken {
		f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
	}
}

// crowdSaw is the part of the crowd's report that is judged and reported here.
type crowdSaw struct {
	Started   int64          `json:"started_ms"`
	Outcomes  map[string]int `json:"outcomes"`
	Endpoints []struct {
		Endpoint string           `json:"endpoint"`
		Answers  int64            `json:"answers"`
		Refused  map[string]int64 `json:"refused"`
	} `json:"endpoints"`
	Crowd struct {
		Requests    int64   `json:"requests"`
		Unanswered  int64   `json:"unanswered"`
		Unavailable int64   `json:"unavailable"`
		Losses      int     `json:"losses"`
		LatenessP99 float64 `json:"lateness_p99_ms"`
	} `json:"crowd"`
	Verdicts []struct {
		Rule     string   `json:"rule"`
		Right    bool     `json:"right"`
		Judged   int      `json:"judged"`
		Wrong    int      `json:"wrong"`
		Excused  int      `json:"excused"`
		Note     string   `json:"note"`
		Evidence []string `json:"evidence"`
	} `json:"verdicts"`
	Timeline []instant `json:"timeline"`
}

// instant is where the crowd stood then.
type instant struct {
	Second  int      `json:"second"`
	Waiting int64    `json:"waiting"`
	In      int64    `json:"admitted"`
	Ordered int64    `json:"ordered"`
	Queue   refusals `json:"queue"`
	Orders  refusals `json:"orders"`
}

type refusals struct {
	Unanswered  int64 `json:"unanswered"`
	Unavailable int64 `json:"unavailable"`
}

func (t refusals) sum() int64 { return t.Unanswered + t.Unavailable }

// receipt is what one visitor was told was theirs.
type receipt struct{ ticket, order, coupon string }

// judged is everything that was found.
type judged struct {
	findings []finding
	saw      crowdSaw
	receipts []receipt
}

// judge holds the run against the invariants of the design, by what the crowd saw, the
// database itself, and the logs.
func (c *chaos) judge(crowdEnded error) judged {
	c.Helper()
	j := judged{saw: c.crowdSaw(crowdEnded), receipts: c.receipts()}
	byCrowd := func(name, rule string) finding { return j.saw.finding(name, rule) }
	j.findings = []finding{
		byCrowd("1. admitted per tick ≤ batch, whatever the number of instances", "batch never exceeded"),
		byCrowd("2. among those who keep polling, admission order = place order", "place order kept"),
		byCrowd("3. a position never grows, but for returns", "positions monotone"),
		byCrowd("4a. one place and one order per visitor, as the crowd saw it", "nobody twice"),
		byCrowd("4b. what is spent gives nothing twice", "replays refused"),
		c.judgeOrders(), c.judgeStock(), c.judgeCoupons(),
		c.judgeAcknowledged(j.receipts),
		c.judgeLosses(j.saw),
		byCrowd("   nobody lost", "nobody lost"),
		c.judgeCopies(j.saw),
		c.judgeIsolation(j.saw),
		c.judgeAnswers(j.saw),
		c.judgeLogs(), c.judgeExits(),
	}
	for _, f := range j.findings {
		for _, w := range f.wrong {
			c.Errorf("%s: %s", f.rule, w)
		}
	}
	return j
}

func (c *chaos) crowdSaw(ended error) (saw crowdSaw) {
	c.Helper()
	raw, err := os.ReadFile(c.file("crowd.json"))
	if err == nil {
		err = json.Unmarshal(raw, &saw)
	}
	if err != nil {
		c.Fatalf("the crowd left no report: %v, %v\n%s", err, ended, &c.said)
	}
	return saw
}

func (c *chaos) receipts() (all []receipt) {
	c.Helper()
	f, err := os.Open(c.file("receipts.csv"))
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 2 {
		c.Fatalf("%d receipts: %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		all = append(all, receipt{row[0], row[1], row[2]})
	}
	return all
}

// finding is a verdict of the crowd's judge.
func (saw crowdSaw) finding(name, rule string) finding {
	f := finding{rule: name}
	for _, v := range saw.Verdicts {
		if v.Rule != rule {
			continue
		}
		f.seen = fmt.Sprintf("%d judged, %d wrong, %d excused. %s", v.Judged, v.Wrong, v.Excused, v.Note)
		f.wrong = v.Evidence
		f.wrongIf(!v.Right && len(v.Evidence) == 0, "%d wrong of %d: %s", v.Wrong, v.Judged, v.Note)
		return f
	}
	f.wrongIf(true, "the crowd did not judge %q", rule)
	return f
}

func (c *chaos) count(query string, args ...any) (n int) {
	c.Helper()
	if err := c.db.QueryRow(query, args...).Scan(&n); err != nil {
		c.Fatalf("%s: %v", query, err)
	}
	return n
}

func (c *chaos) judgeOrders() finding {
	f := finding{rule: "4c. one order per token and per visitor"}
	n := c.count("SELECT COUNT(*) FROM orders")
	tokens, visitors := c.count("SELECT COUNT(DISTINCT token_id) FROM orders"), c.count("SELECT COUNT(DISTINCT visitor) FROM orders")
	f.seen = fmt.Sprintf("%d orders of %d tokens and %d visitors in the database", n, tokens, visitors)
	f.wrongIf(n == 0, "nobody ordered")
	f.wrongIf(tokens != n || visitors != n, "%s", f.seen)
	return f
}

func (c *chaos) judgeStock() finding {
	f := finding{rule: "4d. stock ≥ 0, and what was sold is the sum of the orders' items"}
	stock := c.count("SELECT stock FROM products WHERE id = ?", c.product)
	sold := c.count("SELECT COALESCE(SUM(quantity), 0) FROM order_items i JOIN orders o ON o.id = i.order_id WHERE product_id = ? AND o.state <> 'cancelled'", c.product)
	empty := c.count("SELECT COUNT(*) FROM orders o WHERE pieces <> (SELECT COALESCE(SUM(quantity), 0) FROM order_items WHERE order_id = o.id)")
	f.seen = fmt.Sprintf("%d at first, %d left, %d in orders", c.stock, stock, sold)
	f.wrongIf(stock < 0 || stock+sold != c.stock, "%s", f.seen)
	f.wrongIf(empty != 0, "%d orders have not the items that they say", empty)
	return f
}

func (c *chaos) judgeCoupons() finding {
	f := finding{rule: "4e. coupons: never more than there are, one per visitor, each used once"}
	issued := c.count("SELECT issued FROM coupons WHERE id = ?", c.coupon)
	claims, visitors := c.count("SELECT COUNT(*) FROM coupon_claims"), c.count("SELECT COUNT(DISTINCT visitor) FROM coupon_claims")
	used := c.count("SELECT COUNT(*) FROM orders WHERE coupon_code <> '' AND state <> 'cancelled'")
	right := c.count("SELECT COUNT(*) FROM orders o JOIN coupon_claims k ON k.code = o.coupon_code AND k.order_id = o.id AND k.visitor = o.visitor WHERE o.state <> 'cancelled'")
	f.seen = fmt.Sprintf("%d of %d given, %d claims of %d visitors, %d used by %d orders", issued, c.coupons, claims, visitors, right, used)
	f.wrongIf(issued > c.coupons || issued != claims || claims != visitors || used != right || claims == 0, "%s", f.seen)
	return f
}

// judgeAcknowledged: everything that a visitor was told is theirs is in the database.
func (c *chaos) judgeAcknowledged(receipts []receipt) finding {
	f := finding{rule: "5. acknowledged = committed"}
	orders, coupons := 0, 0
	for _, r := range receipts {
		if r.order != "" {
			orders++
			f.wrongIf(c.count("SELECT COUNT(*) FROM orders WHERE id = ? AND token_id = ?", r.order, r.ticket) != 1,
				"the order %s of ticket %s was acknowledged and is not there", r.order, r.ticket)
		}
		if r.coupon != "" {
			coupons++
			f.wrongIf(c.count("SELECT COUNT(*) FROM coupon_claims WHERE code = ?", r.coupon) != 1,
				"the coupon %s of ticket %s was acknowledged and is not there", r.coupon, r.ticket)
		}
	}
	f.seen = fmt.Sprintf("%d orders and %d coupons were acknowledged", orders, coupons)
	f.wrongIf(orders == 0 || coupons == 0, "%s", f.seen)
	return f
}

// judgeLosses: the order after a loss is part of the crowd's verdict; here that the
// losses were announced, so that there was something to judge.
func (c *chaos) judgeLosses(saw crowdSaw) finding {
	f := finding{rule: "6. Redis emptied under a waiting crowd: those who poll again keep their order"}
	emptied := 0
	for _, h := range c.happened {
		if h.loses() {
			emptied++
		}
	}
	f.seen = fmt.Sprintf("emptied %d times, the crowd was told of %d losses; the order is judged in 2.", emptied, saw.Crowd.Losses)
	f.wrongIf(saw.Crowd.Losses < min(1, emptied), "%s", f.seen)
	f.untried = emptied == 0
	return f
}

// judgeCopies tells whether the rules above were tried on polls that instances answered
// from their copies of the places, which they keep of a line of more than 1,000.
func (c *chaos) judgeCopies(saw crowdSaw) finding {
	var longest int64
	for _, then := range saw.Timeline {
		longest = max(longest, then.Waiting)
	}
	return finding{
		rule:    "   all this while polls were answered from copies of the places",
		seen:    fmt.Sprintf("at most %d waited at once, and at least %d polls were answered so", longest, c.copied),
		untried: c.copied == 0,
	}
}

// judgeIsolation: while nothing but the database was away, no poll was refused.
func (c *chaos) judgeIsolation(saw crowdSaw) finding {
	f := finding{rule: "7. the queue does not depend on the orders: the database away, no poll refused"}
	times, met := 0, int64(0)
	for i, h := range c.happened {
		alone := h.part == theDatabase && !slices.ContainsFunc(c.happened, func(o happening) bool {
			return o.part != theDatabase && o.began.Before(h.ended.Add(3*time.Second)) && o.ended.Add(leastPause-time.Second).After(h.began)
		})
		if !alone {
			continue
		}
		times++
		refused, orders := saw.between(h.began.Add(-time.Second), h.ended.Add(2*time.Second))
		met += orders.sum()
		f.wrongIf(refused.sum() > 0, "%d polls and enters were not answered while the database was away (fault %d)", refused.sum(), i+1)
	}
	f.seen = fmt.Sprintf("%d times, in which %d orders and claims were refused or not answered", times, met)
	return f
}

// between is what the crowd met from one time to another, in whole seconds within.
func (saw crowdSaw) between(from, to time.Time) (queue, orders refusals) {
	first, last := saw.at(from.Add(999*time.Millisecond)), saw.at(to)
	if last.Second <= first.Second {
		return refusals{}, refusals{}
	}
	less := func(a, b refusals) refusals {
		return refusals{a.Unanswered - b.Unanswered, a.Unavailable - b.Unavailable}
	}
	return less(last.Queue, first.Queue), less(last.Orders, first.Orders)
}

// at is where the crowd stood in the last whole second before a time.
func (saw crowdSaw) at(t time.Time) (then instant) {
	for _, s := range saw.Timeline {
		if time.UnixMilli(saw.Started).Add(time.Duration(s.Second) * time.Second).After(t) {
			break
		}
		then = s
	}
	return then
}

// documented are the answers of 5xx that the API promises.
var documented = regexp.MustCompile(`^503 (overloaded|queue_unavailable|queue_full|database_unavailable|shutting_down)$`)

func (c *chaos) judgeAnswers(saw crowdSaw) finding {
	f := finding{rule: "8. no 5xx but the documented 503s, and nothing denied that is genuine"}
	total := map[string]int64{}
	for _, e := range saw.Endpoints {
		for code, n := range e.Refused {
			total[code] += n
			f.wrongIf(strings.HasPrefix(code, "5") && !documented.MatchString(code), "%s: %s ×%d", e.Endpoint, code, n)
			f.wrongIf(strings.HasPrefix(code, "4") && e.Endpoint != "tricks" && code != "409 sold_out" && code != "425 token_too_early", "%s: %s ×%d", e.Endpoint, code, n)
		}
	}
	for _, o := range []string{"refused", "strayed", "unserved"} {
		f.wrongIf(saw.Outcomes[o] > 0, "%d visitors ended as %s", saw.Outcomes[o], o)
	}
	f.wrongIf(saw.Outcomes["unfinished"] > 0, "%d visitors were not done when the run ended", saw.Outcomes["unfinished"])
	f.seen = fmt.Sprintf("%d requests; %s; visitors: %s", saw.Crowd.Requests, tally(total), tally(saw.Outcomes))
	return f
}

var alarming = regexp.MustCompile(`(?i)panic|fatal error|internal error|data race|level=ERROR`)

func (c *chaos) judgeLogs() finding {
	f := finding{rule: "   logs: no panic, no internal error"}
	n := 0
	for _, s := range c.instances {
		for _, line := range s.logged() {
			n++
			f.wrongIf(alarming.MatchString(line) && len(f.wrong) < 10, "%s: %s", s.name, line)
		}
	}
	f.seen = fmt.Sprintf("%d lines", n)
	return f
}

func (c *chaos) judgeExits() finding {
	f := finding{rule: "   processes: SIGTERM ends with 0, and none ends by itself"}
	restarts := 0
	for _, s := range c.instances {
		restarts += s.restarts
		f.wrongIf(s.gone > 0, "%s ended by itself %d times", s.name, s.gone)
	}
	for _, h := range c.happened {
		f.wrongIf(h.note != "" && h.note != "exit 0", "%s at %s: %s", h.fault, h.at.Round(time.Second), h.note)
	}
	f.seen = fmt.Sprintf("started again %d times", restarts)
	f.untried = restarts == 0
	return f
}
