package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
)

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// stuck is a log that takes nothing for a while.
type stuck struct {
	takes chan struct{} // closed when it does
	text  bytes.Buffer
	err   error
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.takes
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

func TestNoRequestWaitsForTheAccessLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuck{takes: make(chan struct{})}
		access := NewAccessLog(out, textLog)
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan error)
		go func() { ran <- access.Run(ctx) }()
		access.log.Info("first")
		synctest.Wait() // it is being written, for as long as it takes
		long := strings.Repeat("x", accessLogKept/10)
		for range 15 {
			access.log.Info("more", "long", long)
		}
		if got := access.Dropped(); got != 6 {
			t.Errorf("%d dropped", got)
		}
		close(out.takes)
		synctest.Wait()
		access.log.Info("last")
		end()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		text := out.text.String()
		if strings.Count(text, "msg=first") != 1 || strings.Count(text, "msg=more") != 9 || strings.Count(text, "msg=last") != 1 ||
			strings.Count(text, "\n") != 11 || !strings.HasSuffix(text, "msg=last\n") {
			t.Errorf("%d bytes, %d lines are written", len(text), strings.Count(text, "\n"))
		}
	})
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	out := &stuck{takes: make(chan struct{}), err: errors.New("no space left")}
	close(out.takes)
	access := NewAccessLog(out, textLog)
	access.log.Info("one")
	access.log.Info("two")
	ended, end := context.WithCancel(t.Context())
	end()
	if err := access.Run(ended); err != nil {
		t.Error(err)
	}
	if got := access.Dropped(); got != 2 {
		t.Errorf("%d dropped", got)
	}
	if (*AccessLog)(nil).Dropped() != 0 {
		t.Error("no log has dropped something")
	}
}

func TestAccessLogOfItsOwn(t *testing.T) {
	var out bytes.Buffer
	access := NewAccessLog(&out, textLog)
	inBubble(t, setup{config: func(c *Config) { c.AccessLog = access }}, func(t *testing.T, f *fixture) {
		f.public("GET", "/queue/status?line=default", "").want(200)
		f.public("GET", "/queue/status?line=other", "").problem(404, "line_not_found")
		if strings.Contains(f.log.String(), `"msg":"request"`) {
			t.Error("requests are in the other log too")
		}
		if metrics := f.admin("GET", "/metrics", "").body; !strings.Contains(metrics, "sluice_access_log_dropped_total 0") {
			t.Error("what was dropped is not told")
		}
	})
	ended, end := context.WithCancel(t.Context())
	end()
	if err := access.Run(ended); err != nil {
		t.Error(err)
	}
	got := strings.Split(out.String(), "\n")
	if !strings.Contains(got[0], "line=default") || strings.Contains(got[0], "code=") ||
		!strings.Contains(got[1], "code=line_not_found") || strings.Contains(got[1], "line=") {
		t.Errorf("%s", out.String())
	}
}
