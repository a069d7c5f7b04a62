package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzDecode: whatever a service or a proxy answers, no wait comes of it that is below
// nothing, and a refusal without JSON is a refusal all the same.
func FuzzDecode(f *testing.F) {
	f.Add(200, "3", []byte(`{"state":"waiting","position":3,"poll_after_ms":1000,"estimated_wait_ms":null,"estimated_wait_range_ms":[1,2]}`))
	f.Add(503, "1", []byte(`{"code":"overloaded","status":503,"retry_after_ms":1200}`))
	f.Add(503, "120", []byte(`<html>`))
	f.Add(429, "9223372036854775807", []byte(`{"retry_after_ms":9223372036854775807}`))
	f.Add(429, "-5", []byte(``))
	f.Fuzz(func(t *testing.T, status int, retryAfter string, body []byte) {
		a, err := decode(status, []byte(retryAfter), body)
		if a.Status != status || a.RetryAfter < 0 || a.RetryAfter > longestRetry {
			t.Fatalf("status %d, Retry-After %q, %q: %+v", status, retryAfter, body, a)
		}
		if err != nil && (status >= 300 || len(body) == 0) {
			t.Fatalf("status %d with %q is no answer: %v", status, body, err)
		}
	})
}

// FuzzFields: the quick reader of answers says what a whole parser says, or leaves it to
// that one.
func FuzzFields(f *testing.F) {
	f.Add([]byte(`{"line":"a","state":"waiting","position":3,"estimated_wait_ms":31000,"estimated_wait_range_ms":[1, 2],"server_time":"2026-01-02T03:04:09.001Z"}`))
	f.Add([]byte(`{"state" : "spent" , "position":null,"estimated_wait_ms":null,"estimated_wait_range_ms":null}`))
	f.Add([]byte(`{"state":"sp\\u0065nt","draw":{"state":"x"}}`))
	f.Add([]byte(`{"bits":1.5,"code":7}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var quick, whole answer
		if !quick.fields(body) {
			return
		}
		// Keys in another case and repeated ones, which no service sends, are read apart.
		if err := json.Unmarshal(body, &whole); err == nil && !unusual(body) && quick != whole {
			t.Fatalf("%q: %+v, and by a whole parser %+v", body, quick, whole)
		}
	})
}

// unusual is whether a key is repeated, or written in capitals.
func unusual(body []byte) bool {
	seen := map[string]bool{}
	found := !utf8.Valid(body)
	members(body, func(key, _ []byte) {
		lower := strings.ToLower(string(key))
		found = found || seen[lower] || lower != string(key) || strings.ContainsFunc(lower, func(r rune) bool { return r > 'z' })
		seen[lower] = true
	})
	return found
}

// FuzzReadClaims: claims are read of what is a JWT with an id, and of nothing else.
func FuzzReadClaims(f *testing.F) {
	f.Add("eyJhbGciOiJIUzI1NiJ9.eyJqdGkiOiJhIiwicGxhY2UiOjEsImlhdCI6MS41LCJleHAiOjJ9.c2ln")
	f.Add("a.e30.b")
	f.Add("..")
	f.Add("a.eyJqdGkiOjF9")
	f.Fuzz(func(t *testing.T, jwt string) {
		c, err := readClaims(jwt)
		if err == nil && (c.ID == "" || strings.Count(jwt, ".") < 2) {
			t.Fatalf("%q: %+v, %v", jwt, c, err)
		}
	})
}

// FuzzReadAudit: as many records as rows, in any order of the columns.
func FuzzReadAudit(f *testing.F) {
	f.Add("place,entered,admitted,fetched,outcome,ticket_id\n17,2026-01-01T18:04:05.678Z,,,spent,a\n,,,,left,b\n")
	f.Add("ticket_id,outcome,fetched,admitted,entered,place,more\na,spent,,,,1,x\n")
	f.Add("place\n1\n")
	f.Add("place,entered,admitted,fetched,outcome,ticket_id\nx,,,,left,\"b\nc\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := readAudit(strings.NewReader(text))
		if err != nil {
			return
		}
		if rows := strings.Count(text, "\n"); len(records) > rows {
			t.Fatalf("%d records of %d lines", len(records), rows)
		}
		for _, r := range records {
			if utf8.ValidString(text) && !strings.Contains(text, r.Outcome) {
				t.Fatalf("the outcome %q is nowhere in %q", r.Outcome, text)
			}
		}
	})
}

// FuzzWireTime: a time is read to the millisecond, and what is none is no time.
func FuzzWireTime(f *testing.F) {
	f.Add("2026-01-02T03:04:05.678Z")
	f.Add("2026-01-02T03:04:05+09:00")
	f.Add("yesterday")
	f.Fuzz(func(t *testing.T, s string) {
		ms := wireMS(s)
		if ms == 0 {
			return
		}
		if at := time.UnixMilli(ms).UTC(); at.Year() > 0 && at.Year() < 9999 && wireMS(at.Format(time.RFC3339Nano)) != ms {
			t.Fatalf("%q is %d ms, and written again another time", s, ms)
		}
	})
}
