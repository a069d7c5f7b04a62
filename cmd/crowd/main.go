// Command crowd tries the waiting room with simulated visitors, over its public
// HTTP API alone, and judges whether it was fair and exact: see `crowd --help`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes.
const (
	exitRight = 0
	exitWrong = 1 // judged wrong, or there was nothing to judge
	exitUsage = 2
)

// maxConnections keeps a crowd within the ports that one machine gives out by itself,
// about 28,000; each is a file, too.
const maxConnections = 20_000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal quits at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags.
type options struct {
	settings
	target, token        string
	targets, operators   []string
	line, json, receipts string
	product              int64
	timeout, settle      time.Duration
	lossAt               []time.Duration
	quiet, remote        bool
}

// errWrong ends a run that was judged wrong; the report has said why.
var errWrong = errors.New("judged wrong")

// run is the whole command; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	cmd := &cobra.Command{
		Use:   "crowd",
		Short: "Try the waiting room with simulated visitors, and judge it",
		Long: "Visitors enter a line, poll as they are told, leave, close the tab, come back,\n" +
			"are admitted and order. In the end there is a table of latencies and a judgement:\n" +
			"exit code 0 if everything was right, 1 if something was wrong or there was nothing\n" +
			"to judge, 2 on bad usage. A signal ends the run and judges what there is.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return crowd(cmd.Context(), o, stdout, stderr)
		},
	}
	o.flags(cmd.Flags())
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitRight
	case errors.Is(err, errWrong):
		return exitWrong
	}
	_, _ = fmt.Fprintln(stderr, "crowd:", err)
	return exitUsage
}

func (o *options) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.target, "target", "http://127.0.0.1:8080", "base `URL` of the service")
	f.StringSliceVar(&o.targets, "targets", nil, "base `URLs` of several instances, instead of --target: visitors are spread over them and move on when one does not answer")
	f.Float64Var(&o.Roam, "roam", 0, "share of requests that go to any of the instances, as a balancer sends them; the others stay with the last that answered")
	f.StringVar(&o.line, "line", "default", "line to enter")
	f.IntVar(&o.Visitors, "visitors", 1000, "how many come")
	f.IntVar(&o.Connections, "connections", 200, "keep-alive connections, at most 20000, and the limit on open files")
	f.StringVar((*string)(&o.Arrival), "arrival", "spike", "how they come: spike (all at once), ramp, constant, early (all before the line opens)")
	f.DurationVar(&o.Over, "over", 30*time.Second, "in which time they come; not for spike")
	f.DurationVar(&o.Habits.Patience, "patience", 0, "mean time after which somebody who still waits leaves; 0 never")
	f.Float64Var(&o.Habits.CloseShare, "close-share", 0, "share that closes the tab at a random moment of the wait, without a word")
	f.Float64Var(&o.Habits.ReturnShare, "return-share", 0.33, "share of those that comes back")
	f.DurationVar(&o.Habits.ReturnAfter, "return-after", 20*time.Second, "mean time after which they come back")
	f.Float64Var(&o.Habits.Reenter, "reenter-share", 0, "share that enters again, once, after an order, an end, or leaving")
	f.Float64Var(&o.Habits.Order, "order-share", 1, "share of the admitted that orders")
	f.DurationVar(&o.Habits.Think, "order-delay", time.Second, "mean time from the usable token to the order")
	f.Int64Var(&o.product, "product", 1, "product to order")
	f.IntVar(&o.Quantity, "quantity", 1, "how many of it")
	f.Int64Var(&o.Coupon, "coupon", 0, "coupon to claim before the order and to use in it; 0 none")
	f.BoolVar(&o.RetryOverloaded, "retry-overloaded", true, "try an order again, as told, that was answered overloaded")
	f.IntVar(&o.SharedTokens, "share-tokens", 0, "how many spent tokens to use for another order")
	f.IntVar(&o.Replays, "replays", 0, "how many replays to try: an order sent twice at once, an ended ticket polled or entered again")
	f.DurationVar(&o.Duration, "duration", 0, "end the run after this time, whoever still waits; 0 when everybody is done")
	f.DurationVar(&o.settle, "settle", 2*time.Second, "how long to go on looking after everybody is done")
	f.Uint64Var(&o.Seed, "seed", 1, "what the visitors' plans are drawn from")
	f.DurationVar(&o.Grace, "grace", 2*time.Second, "how late a poll may be and still count as made as told; below the service's own grace")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "time for one request")
	f.StringSliceVar(&o.operators, "operator", nil, "base `URL` of the operator API, or several of one line's instances: reads the figures each second and the records at the end")
	f.StringVar(&o.token, "operator-token", os.Getenv("CROWD_OPERATOR_TOKEN"), "token of the operator API; also CROWD_OPERATOR_TOKEN")
	f.DurationSliceVar(&o.lossAt, "loss-at", nil, "when the store was emptied, from the start; also seen by itself, by the reason degraded")
	f.StringVar(&o.json, "json", "", "`file` for the whole report as JSON, - for standard output instead of the text")
	f.StringVar(&o.receipts, "receipts", "", "`file` for a list of what was acknowledged, as CSV: ticket_id, order_id, coupon_code")
	f.BoolVar(&o.quiet, "quiet", false, "no progress lines")
	f.BoolVar(&o.remote, "allow-remote", false, "also send to other machines than this one")
}

func (o *options) validate() error {
	var errs []error
	if err := o.Arrival.validate(); err != nil {
		errs = append(errs, err)
	}
	for _, n := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"visitors", o.Visitors, 1, 10_000_000},
		{"connections", o.Connections, 1, maxConnections},
		{"quantity", o.Quantity, 1, 999},
		{"share-tokens", o.SharedTokens, 0, o.Visitors},
		{"replays", o.Replays, 0, o.Visitors},
		{"targets", len(o.targets), 0, 100},
	} {
		if n.value < n.min || n.value > n.max {
			errs = append(errs, fmt.Errorf("--%s must be between %d and %d, not %d", n.name, n.min, n.max, n.value))
		}
	}
	for name, share := range map[string]float64{
		"close-share": o.Habits.CloseShare, "return-share": o.Habits.ReturnShare,
		"reenter-share": o.Habits.Reenter, "order-share": o.Habits.Order, "roam": o.Roam,
	} {
		if !(share >= 0 && share <= 1) {
			errs = append(errs, fmt.Errorf("--%s must be between 0 and 1, not %v", name, share))
		}
	}
	for name, d := range map[string]time.Duration{
		"over": o.Over, "patience": o.Habits.Patience, "return-after": o.Habits.ReturnAfter, "order-delay": o.Habits.Think,
		"duration": o.Duration, "settle": o.settle, "grace": o.Grace, "timeout": o.timeout - 1,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("--%s must not be negative (nor --timeout 0)", name))
		}
	}
	return errors.Join(errs...)
}

// crowd runs one crowd and reports.
func crowd(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	targets, operators, err := o.urls(ctx)
	if err != nil {
		return err
	}
	o.Targets = len(targets)
	watch := newObserver(targets, operators, o.token, o.line, o.remote)
	defer watch.close()
	if o.Arrival == arriveEarly {
		s, err := watch.status(ctx)
		if err != nil {
			return fmt.Errorf("asking when the line opens: %w", err)
		}
		if s.State != "scheduled" {
			return fmt.Errorf("--arrival early needs a line that has not opened; it is %s", s.State)
		}
	}
	c := newClient(targets, o.line, o.product, o.Coupon, o.Connections, o.timeout, o.remote)
	defer c.close()

	collectMore()
	rec := newRecorder()
	before := watch.standing(ctx)
	progress := newProgress(rec, watch, o.quiet, stderr)
	e := newEngine(o.settings, c, rec)
	looking, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		progress.Run(looking)
	}()
	busy := cpuTime()
	e.Run(ctx)
	took := e.now()
	busy = cpuTime().since(busy)
	pause(ctx, o.settle)
	stop()
	<-done
	line, ticks := watch.counted(before, rec) // before the records are read, which is work for the line
	r := o.report(e, rec, watch, progress, took)
	r.Connections, r.Cost = c.connections(), newCostReport(busy, r.Crowd.Requests)
	r.Connections.Failed = rec.failed
	r.Line, r.Ticks = line, ticks
	if err := r.print(o.json, stdout); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := writeReceipts(o.receipts, e.stays()); err != nil {
		return fmt.Errorf("writing the receipts: %w", err)
	}
	if !r.Right {
		return errWrong
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// urls checks where everything is to be sent.
func (o *options) urls(ctx context.Context) (targets, operators []*url.URL, err error) {
	if len(o.targets) == 0 {
		o.targets = []string{o.target}
	}
	parse := func(all []string) (parsed []*url.URL) {
		for _, raw := range all {
			u, e := parseTarget(ctx, raw, o.remote)
			err = errors.Join(err, e)
			parsed = append(parsed, u)
		}
		return parsed
	}
	return parse(o.targets), parse(o.operators), err
}

// lastLook bounds reading the service's records after the run.
const lastLook = 5 * time.Minute

// report reads the service's own records and judges. It is made also when the
// run was ended by a signal.
func (o *options) report(e *engine, rec *recorder, watch *observer, p *progress, took time.Duration) report {
	ctx, cancel := context.WithTimeout(context.Background(), lastLook)
	defer cancel()
	for _, at := range o.lossAt {
		rec.lost(at)
	}
	began := time.Now()
	h := rec.history()
	h.stays = e.stays()
	h.samples, h.operator = p.seen(), len(watch.operators) > 0
	h.tick, h.longest = tick, h.longest+o.Grace
	h.wantedTricks = o.SharedTokens + o.Replays
	var notes []string
	if h.operator {
		var err error
		if h.audit, err = watch.audit(ctx); err != nil {
			notes = append(notes, "judged without the service's records: "+err.Error())
		}
		h.audit = since(h.audit, rec.serverZero)
		if p.failed > 0 {
			notes = append(notes, fmt.Sprintf("%d of the operator's figures were not to be had", p.failed))
		}
	}
	h.placesOfDraw(ctx, watch)
	r := newReport(o.settings, h, rec, took, p.timeline)
	r.Started, r.JudgingMS = e.start.UnixMilli(), time.Since(began).Milliseconds()
	r.Notes = append([]string{}, notes...) // an empty list, not null
	return r
}

// since drops what was admitted before the run.
func since(all []record, start int64) []record {
	return slices.DeleteFunc(all, func(r record) bool { return r.Admitted != 0 && r.Admitted < start })
}

// print writes the report where it was asked for.
func (r report) print(file string, stdout io.Writer) error {
	if file == "-" {
		return json.NewEncoder(stdout).Encode(r)
	}
	if file != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	return r.write(stdout)
}
