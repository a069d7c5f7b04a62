package main

import (
	"context"
	"time"
)

// budgetEvery is how often the poll budgets are shared out anew: the lengths that
// they go by are read no more often.
const budgetEvery = watchEvery

// keepBudgets shares the poll budget until ctx ends; polls only look theirs up.
func (s *lineSet) keepBudgets(ctx context.Context) error {
	ticks := time.NewTicker(budgetEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			s.shareBudget()
		}
	}
}

func (s *lineSet) shareBudget() {
	open := *s.open.Load()
	demands := make(map[string]pollDemand, len(open))
	for id, l := range open {
		view, _ := l.Watch.View()
		demands[id] = pollDemand{own: view.Settings.PollBudget, waiting: view.Waiting}
	}
	budgets := pollBudgets(demands, s.cfg.Line.PollBudget, s.queues())
	s.budgets.Store(&budgets)
}

// pollBudget is how many polls per second all live instances together should get
// from a line; 0 is no bound.
func (s *lineSet) pollBudget(line string) float64 { return (*s.budgets.Load())[line] }

// pollDemand is what a line asks for of the poll budget.
type pollDemand struct {
	own     *float64 // the operator's word, per instance; nil is none
	waiting int64
}

// pollBudgets are the polls per second that all instances together should get
// from each line. perInstance is the budget of one of them; lines without a
// budget of their own share it by how many wait in each. 0 is no bound.
func pollBudgets(lines map[string]pollDemand, perInstance float64, instances int) map[string]float64 {
	// One more in each line: whoever comes first into an empty one is asked too.
	waiting := func(d pollDemand) float64 { return float64(d.waiting + 1) }
	all := 0.0
	for _, d := range lines {
		if d.own == nil {
			all += waiting(d)
		}
	}
	budgets := make(map[string]float64, len(lines))
	for id, d := range lines {
		if d.own != nil {
			budgets[id] = *d.own * float64(instances)
		} else {
			budgets[id] = perInstance * float64(instances) * waiting(d) / all
		}
	}
	return budgets
}
