package redisqueue

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/queue"
)

// What comes back from Redis. Another process of another version, or a person, may have
// written it: whatever it is, what is read of it is something that can be.

// Whatever is packed, what is exported of it can be read back, and is what was packed.
func FuzzPackedRecords(f *testing.F) {
	f.Add("1:1767300000:1767225600000000:1767225600123:0:3")
	f.Add("1767225600000000:1767225600123:1767225600200:1767225780200:0:2:some:body")
	f.Add("5:1:1767225600000000:1:1:1")
	f.Add("2:1:1:1:1:6")
	f.Add("2:1:-1:1:1:1")
	f.Add("2:1:1:99999999999999999:1:1")
	f.Add("2:1:007:08:+9:1")
	f.Add("1:1:0:0:00:0")
	f.Fuzz(func(t *testing.T, packed string) {
		for name, read := range map[string]func(id, packed string) (queue.Record, bool){"end": endOf, "admission": admissionOf} {
			r, ok := read("ticket", packed)
			if !ok {
				continue
			}
			var b strings.Builder
			if err := queue.WriteCSV(&b, []queue.Record{r}); err != nil {
				t.Fatal(err)
			}
			back, err := queue.ReadCSV(strings.NewReader(b.String()))
			if err != nil || len(back) != 1 {
				t.Fatalf("%s: %+v cannot be read back: %v", name, r, err)
			}
			got := back[0]
			if got.Place != r.Place || got.Outcome != r.Outcome || got.Bypassed != r.Bypassed ||
				!got.AdmittedAt.Equal(r.AdmittedAt) || !got.FetchedAt.Equal(r.FetchedAt) {
				t.Fatalf("%s: %+v became %+v", name, r, got)
			}
			if last := packed[len(packed)-1:]; name == "end" && r.Bypassed != (last == "2" || last == "3") {
				t.Fatalf("%q is read as %+v", packed, r)
			}
			marks := 0
			if r.Bypassed {
				marks = 2
			}
			ms := func(t time.Time) int64 { return max(0, t.UnixMilli()) } // the zero time is before 1970
			again, ok := read("ticket", map[string]string{
				"end":       fmt.Sprintf("%s:0:%d:%d:%d:%d", packed[:1], r.Place, ms(r.AdmittedAt), ms(r.FetchedAt), marks),
				"admission": fmt.Sprintf("%d:%d:0:0:%d:%d:", r.Place, ms(r.AdmittedAt), ms(r.FetchedAt), marks),
			}[name])
			if !ok || again != r {
				t.Fatalf("%s: %+v, packed again it is %+v", name, r, again)
			}
		}
	})
}

// Whatever is in the meta hash, the settings read of it are some: written back they
// are the same, and their rates are none that would be refused.
func FuzzSettings(f *testing.F) {
	f.Add("1", "hello", "bypass", "17.5", "500", "0", "3", "", "1767225600000", "", strings.Repeat("ab", 32))
	f.Add("true", "\xff", "", "NaN", "-1", "9223372036854775808", "0", "Inf", "1e3", "-1", "x")
	f.Add("", "", "nothing", "-5", "1.5", "", "", "1e400", "99999999999999999", "0", "")
	f.Fuzz(func(t *testing.T, paused, message, mode, override, active, length, weight, budget, opens, closes, seed string) {
		s := settingsOf(map[string]string{
			"paused": paused, "message": message, "mode": mode, "rate_override": override, "max_active": active, "max_length": length,
			"weight": weight, "poll_budget": budget, "opens_at": opens, "closes_at": closes, "seed": seed, "revision": weight,
		})
		if s.RateOverride != nil && queue.ValidRate(*s.RateOverride) != nil || s.MaxActive < 0 || s.MaxLength < 0 || s.Weight < 1 ||
			s.PollBudget != nil && !(*s.PollBudget > 0) {
			t.Fatalf("%+v", s)
		}
		if _, err := json.Marshal(s); err != nil { // they are kept, and shown to operators
			t.Fatalf("%+v: %v", s, err)
		}
		args, m := settingsArgs(s), map[string]string{"revision": fmt.Sprint(s.Revision)}
		for i := 0; i < len(args); i += 2 {
			m[args[i].(string)] = fmt.Sprint(args[i+1])
		}
		if again := settingsOf(m); !reflect.DeepEqual(again, s) {
			t.Fatalf("%+v became %+v", s, again)
		}
	})
}

// A visit's reply says what it says, of whatever types its values are: no position,
// place or admission comes of what is not there.
func FuzzVisitReply(f *testing.F) {
	f.Add("waiting", "id", int64(1), int64(1767225600000000), int64(0), int64(342), int64(1207), uint16(0), uint8(8))
	f.Add("admitted", "id", int64(0), int64(5), int64(7), int64(1), int64(2), uint16(0), uint8(9))
	f.Add("waiting", "", int64(0), int64(-5), int64(-7), int64(-1), int64(-2), uint16(0), uint8(8))
	f.Add("admitted", "", int64(-1), int64(-5), int64(-7), int64(-1), int64(-2), uint16(0b111111111), uint8(3))
	line, err := New(nil, "test", queue.DefaultOptions())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, state, id string, epoch, place, entered, a, b int64, foreign uint16, n uint8) {
		reply := values{state, int64(1), epoch, id, place, entered, a, b, a}
		for i := range reply {
			if foreign&(1<<i) != 0 {
				reply[i] = []any{reply[i], nil}
			}
		}
		reply = reply[:min(int(n), len(reply))]
		s := line.standing(queue.State(reply.text(0)), "v", reply)
		if there := func(i int) bool { return i < len(reply) && foreign&(1<<i) == 0 }; there(3) && s.Ticket.ID != id || !there(3) && s.Ticket.ID != "" ||
			s.State == queue.Waiting && (there(6) && s.Position != a || !there(6) && s.Position != 0) ||
			s.State != queue.Waiting && s.Position != 0 || s.State != queue.Admitted && s.Admission != (queue.Admission{}) {
			t.Fatalf("%v is read as %+v", reply, s)
		}
		if s.Ticket.Subject != "v" || s.Ticket.Line != "test" || s.Ticket.Place < 0 || s.Ticket.Place > 0 && s.Ticket.Place != place {
			t.Fatalf("%v is read as %+v", reply, s)
		}
		if s.State == queue.Admitted && (s.Admission.TicketID != s.Ticket.ID || s.Admission.Subject != "v" || s.Admission.Epoch != s.Ticket.Epoch) {
			t.Fatalf("%v is let in as %+v", reply, s)
		}
	})
}

// Cohorts come in order and once each, whatever the hash holds.
func FuzzCohorts(f *testing.F) {
	f.Add("1767225600", "3:1", "1767225601", "2:0")
	f.Add("x", "y", "", ":")
	f.Add("1", "-1:5", "01", "9")
	f.Fuzz(func(t *testing.T, a, one, b, two string) {
		cohorts := cohortsOf(map[string]string{a: one, b: two})
		for i, c := range cohorts {
			if c.Second < 0 || c.Admitted < 0 || c.Arrived < 0 || i > 0 && c.Second <= cohorts[i-1].Second {
				t.Fatalf("%+v", cohorts)
			}
		}
	})
}
