package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/configs"
	"sluice/queue"
	"sluice/queue/redisqueue"
	"sluice/web"
)

const (
	// watchEvery is how old the view of a line gets: well below the second within
	// which an operator's change must be obeyed everywhere.
	watchEvery = 250 * time.Millisecond
	// followEvery is how often the directory is read: a line made elsewhere is
	// served here within a second.
	followEvery = 500 * time.Millisecond
	// followDeadline bounds one reading of the directory and what it leads to.
	followDeadline = 2 * time.Second
)

// lineSet are the lines of this process. It opens those that the configuration
// names and those that it finds in the directory, makes those that an operator
// asks for, and owns what runs for each. Lines are only ever added.
type lineSet struct {
	cfg    configs.Config
	store  *lineStore
	rate   func(line string) admission.Rater // of the tickers
	queues func() int                        // live processes that answer polls
	steady func(line string) admission.Steady
	served *web.Lines
	log    *slog.Logger

	mu      sync.Mutex                          // held while a line is added
	open    atomic.Pointer[map[string]openLine] // replaced under mu
	begin   func(loop)                          // guarded by mu; nil before Run
	stopped bool                                // guarded by mu

	budgets atomic.Pointer[map[string]float64]
}

// openLine is one line with what runs for it.
type openLine struct {
	web.Line
	loops []loop
}

func newLineSet(cfg configs.Config, store *lineStore, log *slog.Logger) *lineSet {
	s := &lineSet{cfg: cfg, store: store, served: web.NewLines(), log: log}
	s.open.Store(&map[string]openLine{})
	s.budgets.Store(&map[string]float64{})
	return s
}

// openAll opens the lines that a process starts with: the default one, those of
// the configuration, those of the directory, and those that this process
// remembers, which the store may have forgotten. Each has just been read then, so
// that the first request already knows its epoch and its clock. It may be called
// again, also once it has succeeded.
func (s *lineSet) openAll(ctx context.Context) error {
	listed, err := s.listed(ctx)
	if err != nil {
		return err
	}
	remembered, err := s.store.remembered()
	if err != nil {
		return err
	}
	ids := append(slices.Concat(listed, remembered), web.DefaultLine)
	ids = slices.AppendSeq(ids, maps.Keys(s.cfg.Lines))
	slices.Sort(ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Compact(ids) {
		l, open := (*s.open.Load())[id]
		switch {
		case !open:
			if l, err = s.prepare(ctx, id); err == nil {
				err = s.add(l)
			}
		case l.Watch.Age() >= watchEvery: // read by an earlier call
			err = l.Watch.Refresh(ctx)
		}
		if err != nil {
			return fmt.Errorf("opening the line %s: %w", id, err)
		}
	}
	return s.register(ctx, listed)
}

// Run runs what belongs to the lines, also to those that are added meanwhile,
// until ctx ends; then it waits for all of it.
func (s *lineSet) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	begin := func(run loop) { group.Go(func() error { return run(ctx) }) }
	s.mu.Lock()
	s.begin = begin
	for _, l := range *s.open.Load() {
		for _, run := range l.loops {
			begin(run)
		}
	}
	s.mu.Unlock()
	begin(s.keepBudgets)
	begin(s.follow)
	<-ctx.Done()
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	return group.Wait()
}

// follow opens what others have put into the directory, and puts back what it has
// lost. What fails is tried again.
func (s *lineSet) follow(ctx context.Context) error {
	ticks := time.NewTicker(followEvery)
	defer ticks.Stop()
	var outage queue.Outage
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if err := s.followOnce(ctx); ctx.Err() == nil { // else an error is of the stop
			outage.Note(s.log, err, "lines that others made may be missing here", "all lines are here again")
		}
	}
}

func (s *lineSet) followOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, followDeadline)
	defer cancel()
	listed, err := s.listed(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, id := range listed {
		if _, known := (*s.open.Load())[id]; known {
			continue
		}
		l, err := s.prepare(ctx, id)
		if err == nil {
			err = s.add(l)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("opening the line %s: %w", id, err))
		}
	}
	return errors.Join(append(errs, s.register(ctx, listed))...)
}

// listed are the lines of the directory. What no version of ours has put there is
// no line, and must not keep a process from starting.
func (s *lineSet) listed(ctx context.Context) ([]string, error) {
	ids, err := s.store.directory.Lines(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading which lines there are: %w", err)
	}
	return slices.DeleteFunc(ids, func(id string) bool { return !queue.ValidID(id) }), nil
}

// register puts into the directory what it lacks of the open lines.
func (s *lineSet) register(ctx context.Context, listed []string) error {
	var missing []string
	for id := range *s.open.Load() {
		if !slices.Contains(listed, id) {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := s.store.directory.Add(ctx, missing...); err != nil {
		return fmt.Errorf("noting which lines there are: %w", err)
	}
	return nil
}

// create makes a line with the patch on its first settings, or applies the patch
// to the line that is there. Others see a new line once it is as asked for. Their
// number is bounded here alone: two processes that make the last one at the same
// time may go over it, and what is there must be served.
func (s *lineSet) create(ctx context.Context, id string, first queue.Patch) (created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, here := (*s.open.Load())[id]
	if !here {
		listed, err := s.listed(ctx)
		if err != nil {
			return false, err
		}
		created = !slices.Contains(listed, id)
		if created && max(len(listed), len(*s.open.Load())) >= configs.MaxLines {
			return false, fmt.Errorf("%w: there are %d", web.ErrTooManyLines, configs.MaxLines)
		}
		if l, err = s.prepare(ctx, id); err != nil {
			return false, fmt.Errorf("opening the line %s: %w", id, err)
		}
	}
	if first != (queue.Patch{}) {
		if _, err := l.Line.Line.Configure(ctx, first); err != nil {
			return false, fmt.Errorf("setting up the line %s: %w", id, err)
		}
		if err := l.Watch.Refresh(ctx); err != nil {
			return false, err
		}
	}
	if !here {
		if err := s.add(l); err != nil {
			return false, err
		}
	}
	if err := l.Keep(); err != nil {
		s.log.Error("a line is there but will not outlive this process", "line", id, "error", err)
	}
	if err := s.store.directory.Add(ctx, id); err != nil {
		return false, fmt.Errorf("noting the line %s: %w", id, err)
	}
	return created, nil
}

// prepare opens a line without anybody seeing it yet. The caller holds mu.
func (s *lineSet) prepare(ctx context.Context, id string) (openLine, error) {
	if !queue.ValidID(id) {
		return openLine{}, fmt.Errorf("%q is no id of a line", id)
	}
	opts := lineOptions(s.cfg, id)
	answersPolls := s.cfg.Role != configs.RoleOrders
	if answersPolls {
		opts.Told = &queue.Told{}
	}
	known, err := s.store.recall(id, s.log)
	if err != nil {
		return openLine{}, err
	}
	opts.Known = known
	line, err := s.store.newLine(id, opts)
	if err != nil {
		return openLine{}, err
	}
	watch := queue.NewWatch(line, watchEvery, s.log)
	if err := watch.Refresh(ctx); err != nil {
		return openLine{}, fmt.Errorf("the first look at it: %w", err)
	}
	keeper := queue.NewKeeper(s.store.path(id), watch, opts.Told, s.log)
	l := openLine{
		Line:  web.Line{Line: line, Watch: watch, Keep: keeper.Keep},
		loops: []loop{watch.Run, keeper.Run},
	}
	if answersPolls {
		l.Standby = admission.NewStandby(admission.StandbyConfig{
			Line: line, Watch: watch, Options: opts, OnFailure: queue.Mode(s.cfg.Admission.OnRedisFailure),
			Steady: func() admission.Steady { return s.steady(id) }, Log: s.log,
		})
		l.Line.Line = l.Standby
		l.Attendance = queue.NewAttendance(l.Standby, opts.Told, s.log)
		ticker := admission.NewTicker(l.Standby, s.rate(id), s.cfg.Line.Tick, s.log).On(watch.Now)
		l.Ticks = ticker.Stats
		l.loops = append(l.loops, l.Attendance.Run, ticker.Run, l.Standby.Run)
		if inRedis, ok := line.(*redisqueue.Line); ok {
			l.Reads = inRedis.Reads
			l.loops = append(l.loops, inRedis.Follow)
		}
	}
	return l, nil
}

// add lets everybody see a line, and what belongs to it run. The caller holds mu.
func (s *lineSet) add(l openLine) error {
	if s.stopped {
		return fmt.Errorf("%w: the process stops", queue.ErrUnavailable)
	}
	open := maps.Clone(*s.open.Load())
	open[l.Line.Line.ID()] = l
	s.open.Store(&open)
	s.shareBudget()
	s.served.Add(l.Line)
	if s.begin != nil {
		for _, run := range l.loops {
			s.begin(run)
		}
	}
	return nil
}

// line finds an open line; nil if there is none.
func (s *lineSet) line(id string) queue.Line {
	if l, ok := (*s.open.Load())[id]; ok {
		return l.Line.Line
	}
	return nil
}

// watches are the watches of the open lines, by id.
func (s *lineSet) watches() map[string]*queue.Watch {
	open := *s.open.Load()
	watches := make(map[string]*queue.Watch, len(open))
	for id, l := range open {
		watches[id] = l.Watch
	}
	return watches
}
