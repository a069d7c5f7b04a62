package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
)

// budget is what a page may cost who opens it for the first time: answers on the wire,
// with their headers, until it shows what it is there for. Polls are not counted.
type budget struct {
	page     string
	bytes    float64
	requests int
}

const waitingPage = "/wait"

var budgets = []budget{
	{waitingPage, 30 << 10, 15},
	{"/", 44 << 10, 26},
	{"/admin", 52 << 10, 24},
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	s := embedded(t)
	line := s.line(still)
	t.Logf("%-8s %9s %9s %s", "page", "bytes", "requests", "usable on a slow phone after")
	for _, b := range budgets {
		spent, requests := b.measure(t, s, line)
		slow := "-"
		if testing.Verbose() {
			slow = b.slowly(t, s, line).Round(10 * time.Millisecond).String()
		}
		t.Logf("%-8s %9.0f %9d %s", b.page, spent, requests, slow)
		if spent > b.bytes || requests > b.requests || spent == 0 {
			t.Errorf("%s takes %.0f bytes in %d requests, of %.0f in %d", b.page, spent, requests, b.bytes, b.requests)
		}
	}
}

// open opens a page and waits until it shows what it is there for.
func (b budget) open(p *tab, s *sluice, line string) {
	p.t.Helper()
	switch b.page {
	case waitingPage:
		p.goTo(s.public + "/wait?line=" + line + "#enter")
		p.untilText("#position", `^\d+$`)
	case "/":
		p.goTo(s.public + "/")
		p.untilText("[data-product] button", ".")
	default:
		p.goTo(s.admin + "/admin?line=" + line)
		p.untilText("#now", `\d`)
	}
}

func (b budget) measure(t *testing.T, s *sluice, line string) (bytes float64, requests int) {
	t.Helper()
	p := open(chromium(t), t)
	b.open(p, s, line)
	var list []string
	for _, r := range p.sent("") {
		if !strings.HasPrefix(r.url, "http") || strings.Contains(r.url, "/queue/position") || r.cached {
			continue
		}
		bytes += r.bytes
		requests++
		list = append(list, fmt.Sprintf("  %6.0f %s", r.bytes, strings.TrimPrefix(strings.TrimPrefix(r.url, s.public), s.admin)))
	}
	t.Log("answers:\n" + strings.Join(list, "\n"))
	return bytes, requests
}

// slowly is how long it takes on a phone with a sixth of this machine's speed and a slow
// mobile network. It is for whoever reads it.
func (b budget) slowly(t *testing.T, s *sluice, line string) time.Duration {
	t.Helper()
	p := open(chromium(t), t)
	do(p, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: 6})
	do(p, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{{Latency: 400, DownloadThroughput: 50_000, UploadThroughput: 50_000}},
	})
	start := time.Now()
	b.open(p, s, line)
	return time.Since(start)
}
