//go:build linux

package load

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// driver makes the load of a step and says what it has seen.
type driver interface {
	fmt.Stringer // the command, as a hand would give it
	program() string
	command(ctx context.Context, t *testing.T, s *service, out string) *osexec.Cmd
	read(path string) (*found, error)
}

// found is what a load generator has said.
type found struct {
	requests, failed int64
	times            []timing
	wrong            []string
	k6               k6Result
	crowd            crowdResult
}

// script is one of k6/, with its settings.
type script struct {
	name string
	env  []string
}

func (s script) program() string { return "k6" }

func (s script) String() string {
	return strings.Join(append(slices.Clone(s.env), "k6 run k6/"+s.name), " ")
}

func (s script) command(ctx context.Context, t *testing.T, service *service, out string) *osexec.Cmd {
	t.Helper()
	cmd := osexec.CommandContext(ctx, *runner, "run", filepath.Join("..", "..", "k6", s.name))
	cmd.Env = slices.Concat(os.Environ(), s.env, []string{"SLUICE_URL=" + service.public, "SLUICE_ADMIN_URL=" + service.admin, "SUMMARY_JSON=" + out})
	return cmd
}

// k6Result is what lib/summary.js writes, and what the scripts add to it.
type k6Result struct {
	Requests int64              `json:"requests"`
	Failed   int64              `json:"failed"`
	Checks   int64              `json:"checks"`
	Broken   []string           `json:"broken"`
	Dropped  int64              `json:"dropped"`
	Times    map[string]k6Times `json:"times"`

	Users   int64   `json:"users"`
	Ordered int64   `json:"ordered"`  // full_flow
	Issued  int64   `json:"issued"`   // coupon_rush
	SoldOut int64   `json:"sold_out"` // coupon_rush
	Answer  k6Times `json:"answered_ms"`

	PerSecond float64 `json:"requests_per_second"` // order_payment
	Ceiling   float64 `json:"ceiling_per_second"`
	Share     float64 `json:"share"`

	Entered         int64   `json:"entered"` // arrivals
	EnteredASecond  float64 `json:"per_second"`
	Quiet           phase   `json:"quiet"` // cascade
	Saturated       phase   `json:"saturated"`
	Isolated        bool    `json:"isolated"`
	SaturatedOrders struct {
		PerSecond float64 `json:"per_second"`
		Possible  float64 `json:"possible_per_second"`
		Share     float64 `json:"share"`
	} `json:"orders"`
}

type k6Times struct {
	Count int64 `json:"count"`
	Avg   float64
	P50   float64
	P95   float64
	P99   float64
	Max   float64
}

type phase struct {
	Enter    k6Times `json:"enter"`
	Position k6Times `json:"position"`
	Failed   float64 `json:"failed"` // share
}

func (s script) read(path string) (*found, error) {
	var f found
	if err := readJSON(path, &f.k6); err != nil {
		return nil, err
	}
	f.requests, f.failed, f.wrong = f.k6.Requests, f.k6.Failed, f.k6.Broken
	for name, x := range f.k6.Times {
		f.times = append(f.times, timing{Name: name, Count: x.Count, Avg: x.Avg, P50: x.P50, P95: x.P95, P99: x.P99, Max: x.Max})
	}
	byName(f.times)
	return &f, nil
}

func byName(all []timing) {
	slices.SortFunc(all, func(a, b timing) int { return strings.Compare(a.Name, b.Name) })
}

// visitors are a run of crowd, with its flags.
type visitors []string

func (v visitors) program() string { return "crowd" }

func (v visitors) String() string {
	return "bin/crowd " + strings.Join(v, " ") + " --product … --target … --operator …"
}

func (v visitors) command(ctx context.Context, t *testing.T, service *service, out string) *osexec.Cmd {
	t.Helper()
	// As many as the published waiting room let in, whatever this database could do: the
	// line is to stay long.
	service.call(t, "PATCH", "/admin/api/lines/default", fmt.Sprintf(`{"rate_override":%d}`, admitted), nil)
	var made struct {
		ID int64 `json:"product_id"`
	}
	service.call(t, "POST", "/admin/api/products", `{"name":"Load test mug","brand":"Sluice","price":1000,"stock":999999,"image_url":"https://example.com/mug.jpg"}`, &made)
	args := append(slices.Clone(v), "--product", fmt.Sprint(made.ID), "--target", service.public, "--operator", service.admin, "--json", out)
	return osexec.CommandContext(ctx, filepath.Join(*programs, "crowd"), args...)
}

// crowdResult is what crowd writes, as far as it is used: docs/crowd.md.
type crowdResult struct {
	Visitors  int64 `json:"visitors"`
	Endpoints []struct {
		Endpoint string           `json:"endpoint"`
		Answers  int64            `json:"answers"`
		P50      float64          `json:"p50_ms"`
		P95      float64          `json:"p95_ms"`
		P99      float64          `json:"p99_ms"`
		Max      float64          `json:"max_ms"`
		Refused  map[string]int64 `json:"refused"`
	} `json:"endpoints"`
	Rates struct {
		Admissions float64 `json:"admissions_per_second"`
		Most       int     `json:"admissions_most_in_a_second"`
		Orders     float64 `json:"orders_per_second"`
	} `json:"rates"`
	Crowd struct {
		Requests    int64   `json:"requests"`
		LatenessP99 float64 `json:"lateness_p99_ms"`
		Unanswered  int64   `json:"unanswered"`
		Unavailable int64   `json:"unavailable"`
	} `json:"crowd"`
	Verdicts []struct {
		Rule  string `json:"rule"`
		Right bool   `json:"right"`
		Wrong int64  `json:"wrong"`
		Note  string `json:"note"`
	} `json:"verdicts"`
	Entering struct {
		Entered   int64   `json:"entered"`
		PerSecond float64 `json:"per_second"`
	} `json:"entering"`
	Polls struct {
		PerSecond float64 `json:"per_second"`
	} `json:"polls"`
	Line struct { // as the operator counts it
		Entered  int64 `json:"entered"`
		Waiting  int64 `json:"waiting"`
		Away     int64 `json:"away"`
		Admitted int64 `json:"admitted"`
		Sum      int64 `json:"sum"`
		Exact    bool  `json:"exact"`
	} `json:"line"`
	Ticks struct {
		Count    int64   `json:"count"`
		Within20 float64 `json:"within_20ms"` // share
	} `json:"ticks"`
}

func (v visitors) read(path string) (*found, error) {
	var f found
	if err := readJSON(path, &f.crowd); err != nil {
		return nil, err
	}
	c := f.crowd
	f.requests, f.failed = c.Crowd.Requests, c.Crowd.Unanswered+c.Crowd.Unavailable
	for _, e := range c.Endpoints {
		for _, n := range e.Refused {
			f.failed += n
		}
		f.times = append(f.times, timing{Name: e.Endpoint, Count: e.Answers, P50: e.P50, P95: e.P95, P99: e.P99, Max: e.Max})
	}
	byName(f.times)
	for _, verdict := range c.Verdicts {
		if !verdict.Right {
			f.wrong = append(f.wrong, fmt.Sprintf("%s: %d times not; %s", verdict.Rule, verdict.Wrong, verdict.Note))
		}
	}
	return &f, nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
