package queue

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzRecall: what is recalled from a file keeps the rules, and can be kept and
// recalled again.
func FuzzRecall(f *testing.F) {
	f.Add([]byte(`{"Epoch":3,"Created":"2026-01-02T03:04:05.678Z","Settings":{"Revision":7,"Paused":true,"Message":"한국어","Mode":"normal",` +
		`"RateOverride":17.5,"Weight":2,"OpensAt":"2026-01-02T03:04:05.678Z"},"Longest":5000000000,"Quiet":true}`))
	f.Add([]byte(`{"Settings":{"Mode":"normal"}}`))
	f.Add([]byte(`{"Epoch":-1}`))
	f.Add([]byte(`{"Settings":{"Mode":"normal","Message":"\ud800","OpensAt":"2026-01-02T03:04:05.6789+09:00"}}`))
	f.Add([]byte("null"))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(folder, "line.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		got, ok, err := Recall(path)
		if err != nil {
			if ok || !reflect.DeepEqual(got, Remembered{}) {
				t.Fatalf("%+v beside %v", got, err)
			}
			return
		}
		if err := got.validate(); err != nil || got.Settings.Weight < 1 {
			t.Fatalf("recalled %+v: %v", got, err)
		}
		if err := got.keep(path); err != nil {
			t.Fatalf("%+v cannot be kept: %v", got, err)
		}
		// A zone of another name reads back as one without: compare the instants.
		again, ok, err := Recall(path)
		if !ok || err != nil || !again.Created.Equal(got.Created) || again.Epoch != got.Epoch || again.Longest != got.Longest ||
			again.Quiet != got.Quiet || again.Settings.Message != got.Settings.Message || again.Settings.Revision != got.Settings.Revision {
			t.Fatalf("kept %+v, recalled %+v, %v, %v", got, again, ok, err)
		}
	})
}
