package redisregister

import (
	"encoding/json"
	"fmt"
	"testing"
)

// FuzzParse: an entry that is read says the same when it is written again. Another
// version of this process may have written it.
func FuzzParse(f *testing.F) {
	f.Add(`1767323045678 {"process":"a","queue":true}`)
	f.Add(`1767323045678 {"process":"b","orders":{"capacity":175.5,"reason":"measured","workers":10,"work":{"p50":1000000}}}`)
	f.Add(`-1 {}`)
	f.Add(`1 null`)
	f.Add(`9223372036854775807 {"process":"c"}`)
	f.Add(` {"at":"2026-01-02T03:04:05Z"}`)
	f.Fuzz(func(t *testing.T, entry string) {
		got, err := parse(entry)
		if err != nil {
			return
		}
		ms := got.At.UnixMilli()
		got.At = got.At.UTC()
		if y := got.At.Year(); y < 1 || y > 9999 {
			return // no JSON has such a time, and no server such a clock
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Skip() // a number that JSON has not
		}
		again, err := parse(fmt.Sprintf("%d %s", ms, text))
		if err != nil || again.Process != got.Process || again.Queue != got.Queue || (again.Orders == nil) != (got.Orders == nil) ||
			!again.At.Equal(got.At) || got.Orders != nil && *again.Orders != *got.Orders {
			t.Fatalf("%q is %+v, and written again %+v, %v", entry, got, again, err)
		}
	})
}
