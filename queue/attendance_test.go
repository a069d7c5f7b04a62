package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sweptLine is a Line of which only what Attendance calls is there.
type sweptLine struct {
	Line
	mu       sync.Mutex
	zone     int64
	sweepErr error
	hangs    bool                     // Sweep answers when its context ends
	rounds   [][]string               // heard in each Sweep that succeeded, sorted
	told     map[string]time.Duration // what each was told, by the last of them
	tried    int                      // Sweeps
	seals    int
	seal     func(ctx context.Context) error
}

func (l *sweptLine) ID() string { return "sale" }

func (l *sweptLine) Sweep(ctx context.Context, heard []Heard) (Swept, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tried++
	if l.hangs {
		l.mu.Unlock()
		<-ctx.Done()
		l.mu.Lock()
		return Swept{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if l.sweepErr != nil {
		return Swept{}, l.sweepErr
	}
	subjects := make([]string, 0, len(heard))
	l.told = make(map[string]time.Duration, len(heard))
	for _, h := range heard {
		subjects = append(subjects, h.Subject)
		l.told[h.Subject] = h.Told
	}
	slices.Sort(subjects)
	l.rounds = append(l.rounds, subjects)
	return Swept{Zone: l.zone}, nil
}

func (l *sweptLine) lastTold() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func (l *sweptLine) Seal(ctx context.Context) error {
	l.mu.Lock()
	l.seals++
	seal := l.seal
	l.mu.Unlock()
	if seal == nil {
		return nil
	}
	return seal(ctx)
}

func (l *sweptLine) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// last is whom the latest round told of, and how many rounds there were.
func (l *sweptLine) last() ([]string, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rounds) == 0 {
		return nil, 0
	}
	return l.rounds[len(l.rounds)-1], len(l.rounds)
}

func (l *sweptLine) sealed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seals
}

// record is a log that is read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(b)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *record) Len() int { return len(r.String()) }

func (r *record) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text.Reset()
}

// attended runs an attendance in a bubble of virtual time, 100 ms after its first
// round.
func attended(t *testing.T, test func(t *testing.T, l *sweptLine, a *Attendance, told *Told, logged *record)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var logged record
		var told Told
		l := &sweptLine{zone: 500}
		a := NewAttendance(l, &told, slog.New(slog.NewTextHandler(&logged, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		time.Sleep(100 * time.Millisecond)
		test(t, l, a, &told, &logged)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestAttendanceTellsOnceASecond(t *testing.T) {
	attended(t, func(t *testing.T, l *sweptLine, a *Attendance, told *Told, _ *record) {
		a.Polled("near", 1, time.Second)
		a.Polled("near", 1, 2*time.Second)
		a.Polled("at the edge", 500, 3*time.Second)
		a.Polled("beyond", 501, 5*time.Second)
		a.Polled("early", 0, 7*time.Second)
		time.Sleep(time.Second)
		if got, n := l.last(); n != 2 || !slices.Equal(got, []string{"at the edge", "near"}) {
			t.Errorf("round %d told of %q", n, got)
		}
		want := map[string]time.Duration{"near": 2 * time.Second, "at the edge": 3 * time.Second}
		if got := l.lastTold(); !maps.Equal(got, want) {
			t.Errorf("told to wait: %v, want %v", got, want)
		}
		if got := told.Longest(); got != 7*time.Second {
			t.Errorf("the longest told is %s", got)
		}
		time.Sleep(10 * time.Second)
		if got, n := l.last(); n != 12 || len(got) != 0 {
			t.Errorf("round %d, with nobody heard, told of %q", n, got)
		}
	})
}

// The zone is the line's word, which changes with its rate.
func TestAttendanceLearnsTheZone(t *testing.T) {
	attended(t, func(t *testing.T, l *sweptLine, a *Attendance, _ *Told, _ *record) {
		for _, zone := range []int64{2000, 100, 700} {
			l.set(func() { l.zone = zone })
			time.Sleep(time.Second)
			a.Polled("last", zone, time.Second)
			a.Polled("beyond", zone+1, time.Second)
			time.Sleep(time.Second)
			if got, _ := l.last(); !slices.Equal(got, []string{"last"}) {
				t.Errorf("in a zone of %d %q count", zone, got)
			}
		}
	})
}

// Until the line has said how far it looks, nobody it may look at is forgotten.
func TestAttendanceCountsEverybodyBeforeTheFirstRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &sweptLine{zone: 100}
		a := NewAttendance(l, new(Told), slog.New(slog.DiscardHandler))
		a.Polled("far", MaxZone, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := a.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if got, n := l.last(); n != 1 || !slices.Equal(got, []string{"far"}) {
			t.Errorf("round %d told of %q", n, got)
		}
	})
}

// Whoever polled while the store was away is told to it when it is back; that it
// was away is said once.
func TestAttendanceKeepsWhatAFailedRoundWouldHaveTold(t *testing.T) {
	for name, fail := range map[string]func(l *sweptLine, down bool){
		"an error": func(l *sweptLine, down bool) {
			if l.sweepErr = nil; down {
				l.sweepErr = ErrUnavailable
			}
		},
		"no answer": func(l *sweptLine, down bool) { l.hangs = down },
	} {
		t.Run(name, func(t *testing.T) {
			attended(t, func(t *testing.T, l *sweptLine, a *Attendance, _ *Told, logged *record) {
				for range 2 { // outages
					logged.Reset()
					l.set(func() { fail(l, true) })
					_, before := l.last()
					for i := range 30 {
						a.Polled(fmt.Sprintf("%02d", i), 1, time.Second)
						time.Sleep(time.Second)
					}
					if n := strings.Count(logged.String(), "\n"); n != 1 {
						t.Errorf("logged %d lines while away, want 1:\n%s", n, logged)
					}
					l.set(func() { fail(l, false) })
					time.Sleep(2100 * time.Millisecond)
					l.mu.Lock()
					back := slices.Concat(l.rounds[before:]...)
					l.mu.Unlock()
					if len(back) != 30 || back[0] != "00" || back[29] != "29" {
						t.Errorf("told of %d after the outage, want each of 30 once: %q", len(back), back)
					}
					if n := strings.Count(logged.String(), "\n"); n != 2 {
						t.Errorf("logged %d lines, want away and back:\n%s", n, logged)
					}
				}
			})
		})
	}
}

func TestAttendanceIsBounded(t *testing.T) {
	attended(t, func(t *testing.T, l *sweptLine, a *Attendance, _ *Told, _ *record) {
		l.set(func() { l.sweepErr = ErrUnavailable })
		for round := range 3 {
			for i := range MaxZone + 50 {
				a.Polled(fmt.Sprintf("%d/%d", round, i), 1, time.Second)
			}
			time.Sleep(time.Second)
		}
		l.set(func() { l.sweepErr = nil })
		time.Sleep(time.Second)
		if got, _ := l.last(); len(got) != MaxZone {
			t.Errorf("told of %d, want %d", len(got), MaxZone)
		}
		for i := range MaxZone + 50 {
			a.Polled(fmt.Sprint(i), 1, time.Second)
		}
		time.Sleep(time.Second)
		if got, _ := l.last(); len(got) != MaxZone {
			t.Errorf("told of %d in a round, want %d", len(got), MaxZone)
		}
	})
}

// Whoever polls while a round is under way, which then fails, is not lost to those
// that the round gives back.
func TestAttendanceKeepsTheLatestFirst(t *testing.T) {
	a := NewAttendance(&sweptLine{}, nil, slog.New(slog.DiscardHandler))
	full := make([]Heard, MaxZone)
	for i := range full {
		full[i] = Heard{fmt.Sprint(i), time.Second}
	}
	late := Heard{"late", 2 * time.Second}
	a.Polled("late", 1, 2*time.Second)
	a.giveBack([]Heard{{"late", time.Second}})
	a.giveBack(full)
	if got := a.take(); len(got) != MaxZone || !slices.Contains(got, late) {
		t.Errorf("%d kept, the latest among them as told last: %v", len(got), slices.Contains(got, late))
	}
	if got := a.take(); len(got) != 0 {
		t.Errorf("%d are told twice", len(got))
	}
}

// A seal that hangs delays no round and is given up in its own time.
func TestAttendanceSealsBesideTheRounds(t *testing.T) {
	attended(t, func(t *testing.T, l *sweptLine, a *Attendance, _ *Told, logged *record) {
		time.Sleep(9 * time.Second)
		if n := l.sealed(); n != 10 {
			t.Errorf("%d seals in 9.1 s, want 10", n)
		}
		l.set(func() {
			l.seal = func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
			l.seals = 0
		})
		synctest.Wait()
		_, before := l.last()
		began := time.Now()
		for logged.Len() == 0 {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if took := time.Since(began); took < 30*time.Second || took > 32*time.Second {
			t.Errorf("given up after %s, want 30s", took)
		}
		time.Sleep(28 * time.Second)
		synctest.Wait()
		if _, after := l.last(); after-before < 58 {
			t.Errorf("%d rounds in a minute of a seal that hangs", after-before)
		}
		if n := l.sealed(); n != 2 || strings.Count(logged.String(), "sealed") != 1 {
			t.Errorf("%d seals tried, logged:\n%s", n, logged)
		}
	})
}

func TestAttendanceStopsQuietlyInTheMiddleOfARound(t *testing.T) {
	var logged *record
	attended(t, func(t *testing.T, l *sweptLine, a *Attendance, _ *Told, b *record) {
		logged = b
		l.set(func() {
			l.hangs = true
			l.seal = func(ctx context.Context) error { <-ctx.Done(); return errors.New("cut off") }
		})
		time.Sleep(time.Second)
	})
	if logged.Len() != 0 {
		t.Errorf("a stop was logged as an outage:\n%s", logged)
	}
}

func TestNilAttendanceNotesNothing(t *testing.T) {
	var a *Attendance
	a.Polled("somebody", 1, time.Second)
}

func TestTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told Told
		if got := told.Longest(); got != 0 {
			t.Errorf("nothing was told, yet %s", got)
		}
		told.Note(0)
		told.Note(-time.Second)
		told.Note(10 * time.Second)
		told.Note(3 * time.Second)
		if got := told.Longest(); got != 10*time.Second {
			t.Errorf("longest %s, want 10s", got)
		}
		time.Sleep(119 * time.Second)
		told.Note(4 * time.Second)
		if got := told.Longest(); got != 10*time.Second {
			t.Errorf("after 119 s the longest is %s, want 10s", got)
		}
		time.Sleep(11 * time.Second)
		if got := told.Longest(); got != 4*time.Second {
			t.Errorf("after 130 s the longest is %s, want the 4s of 11 s ago", got)
		}
		time.Sleep(time.Hour)
		if got := told.Longest(); got != 0 {
			t.Errorf("after an hour of silence: %s", got)
		}
		told.Note(2*time.Second + 1)
		if got := told.Longest(); got != 2*time.Second+time.Microsecond {
			t.Errorf("longest %s, want 2s and a little, never less than told", got)
		}
		told.Note(1 << 62)
		if got := told.Longest(); got < time.Hour {
			t.Errorf("what does not fit became %s", got)
		}
	})
}

// At every moment, whatever was told within two minutes counts, and nothing that
// is much older.
func TestToldWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told Told
		var at []time.Time
		var what []time.Duration
		for i := range 2000 {
			d := time.Duration(1+(i*7919)%59) * time.Second
			if i%300 < 150 { // busy and idle by turns
				told.Note(d)
				at, what = append(at, time.Now()), append(what, d)
			}
			time.Sleep(1700 * time.Millisecond)
			var least, most time.Duration
			for j, when := range at {
				if age := time.Since(when); age <= 120*time.Second {
					least = max(least, what[j])
				} else if age > 130*time.Second {
					continue
				}
				most = max(most, what[j])
			}
			if got := told.Longest(); got < least || got > most {
				t.Fatalf("step %d: longest %s, want %s to %s", i, got, least, most)
			}
		}
	})
}

func TestNilTold(t *testing.T) {
	var told *Told
	told.Note(time.Second)
	if told.Longest() != 0 {
		t.Error("a nil Told tells something")
	}
}

func TestToldIsSafeForManyAtOnce(t *testing.T) {
	var told Told
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 5000 {
				d := time.Duration(j*8+i) * time.Millisecond
				told.Note(d)
				if got := told.Longest(); got < d {
					t.Errorf("%s was told, the longest is %s", d, got)
					return
				}
			}
		})
	}
	all.Wait()
	if got := told.Longest(); got != 39999*time.Millisecond {
		t.Errorf("longest %s, want 39.999s", got)
	}
}

// BenchmarkPolled is what a poll costs that is near enough to the head to be told
// of, and one that is not, on all cores at once.
func BenchmarkPolled(b *testing.B) {
	subjects := make([]string, 3000)
	for i := range subjects {
		subjects[i] = NewID()
	}
	for _, c := range []struct {
		name     string
		position int64
	}{{"near", 1}, {"far", MaxZone + 1}} {
		b.Run(c.name, func(b *testing.B) {
			a := NewAttendance(&sweptLine{}, new(Told), slog.New(slog.DiscardHandler))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					a.Polled(subjects[i%len(subjects)], c.position, 3*time.Second)
				}
			})
		})
	}
}
