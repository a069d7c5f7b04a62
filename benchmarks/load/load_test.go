//go:build linux

package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/servicetest"
)

var (
	reportTo = flag.String("report", "", "run the load and write the report into this `folder`, with what the load generators said")
	programs = flag.String("bin", "", "`folder` with sluice and crowd")
	runner   = flag.String("k6", "k6", "the `program` that runs the scripts of k6/")
	scale    = flag.Float64("scale", 1, "`share` of the full size")
	only     = flag.String("only", "", "`steps` to run, by comma; empty is all")
)

// most is how long a step's load may go on before it is ended and counts as failed.
const most = 15 * time.Minute

// TestLoad is `make load`.
func TestLoad(t *testing.T) {
	if *reportTo == "" {
		t.Skip("this is for make load: it takes its time, and the whole machine")
	}
	chosen := choose(t, steps(*scale), *only)
	if err := os.MkdirAll(*reportTo, 0o755); err != nil {
		t.Fatal(err)
	}
	servicetest.Program(t, *runner)
	s := &stores{database: servicetest.OwnMariaDB(t)}
	r := report{Began: time.Now(), Command: "make load" + arguments(*only), Scale: *scale, Machine: thisMachine(t, s)}
	for i, step := range chosen {
		result := step.unknown()
		r.Results = append(r.Results, result)
		ended := t.Run(step.name, func(t *testing.T) {
			t.Logf("step %d of %d: %s", i+1, len(chosen), result.Driver)
			step.run(t, s, result)
			for _, wrong := range result.Wrong {
				t.Error(wrong)
			}
		})
		if !ended && result.Right() {
			result.Wrong = []string{notEnded}
		}
		// As it stands, so that a run that is broken off leaves what it had.
		r.Took = time.Since(r.Began)
		write(t, &r)
	}
	t.Logf("%s, in %s: %s", r.Verdict(), took(r.Took), filepath.Join(*reportTo, "report.html"))
}

func write(t *testing.T, r *report) {
	t.Helper()
	page, err := r.html()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"report.html": page, "report.md": r.markdown()} {
		if err := os.WriteFile(filepath.Join(*reportTo, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// choose takes the named steps, in the order of the table.
func choose(t *testing.T, all []step, names string) []step {
	t.Helper()
	if names == "" {
		return all
	}
	wanted := strings.Split(names, ",")
	var known []string
	for _, s := range all {
		known = append(known, s.name)
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			t.Fatalf("there is no step %q, but %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(s step) bool { return !slices.Contains(wanted, s.name) })
}

// arguments are those of make that repeat some steps as they were.
func arguments(names string) (s string) {
	if names != "" {
		s += " ONLY=" + names
	}
	if *scale != 1 {
		s += fmt.Sprintf(" SCALE=%g", *scale)
	}
	return s
}

const notEnded = "it did not come to its end"

// unknown is the result of a step that has not come to its end.
func (s step) unknown() *result {
	return &result{
		Name: s.name, Title: s.title, Purpose: s.purpose, Service: s.service,
		Alone: "make load" + arguments(s.name), Driver: s.driver.String(), Wrong: []string{notEnded},
	}
}

// run starts what the step needs, has the load made, and takes what came of it.
func (s step) run(t *testing.T, stores *stores, result *result) {
	service := startService(t, stores, s)
	out := filepath.Join(t.TempDir(), "result.json")
	log, err := os.Create(filepath.Join(*reportTo, s.name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()

	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := s.driver.command(ctx, t, service, out)
	cmd.Stdout, cmd.Stderr = log, log
	// The load generator gets to end its run, and says what it has seen so far.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := service.watch(t, cmd.Process.Pid)
	err = cmd.Wait()
	result.Seen = seen()
	result.Took = time.Since(began)

	var wrong []string
	exit := &osexec.ExitError{}
	switch {
	case ctx.Err() != nil:
		wrong = append(wrong, fmt.Sprintf("it took more than %s and was ended", most))
	case err != nil && !errors.As(err, &exit):
		wrong = append(wrong, err.Error())
	}
	found, readErr := s.driver.read(out)
	if readErr != nil {
		result.Wrong = append(wrong, fmt.Sprintf("%s said nothing that can be read (%v; %v): see %s", s.driver.program(), err, readErr, log.Name()))
		return
	}
	result.Requests, result.Failed, result.Times = found.requests, found.failed, found.times
	result.Wrong = append(wrong, found.wrong...)
	if err != nil && len(result.Wrong) == 0 {
		result.Wrong = append(result.Wrong, fmt.Sprintf("%s: %v, see %s", s.driver.program(), err, log.Name()))
	}
	s.take(t, service, found, result)
	if err := service.stop(); err != nil {
		result.Wrong = append(result.Wrong, "the service did not end well: "+err.Error())
	}
}
