package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"
)

// members calls each with every member of a JSON object: the key, and the value as it
// stands. It returns false at what it does not read: an escape, an object inside. A
// crowd reads answers all day, and a whole parser is a quarter of its work.
func members(b []byte, each func(key, value []byte)) bool {
	b = bytes.TrimSpace(b)
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' || bytes.IndexByte(b, '\\') >= 0 {
		return false
	}
	for b = b[1 : len(b)-1]; ; b = b[1:] {
		key, rest := text(bytes.TrimLeft(b, space))
		rest = bytes.TrimLeft(rest, space)
		if key == nil || len(rest) == 0 || rest[0] != ':' {
			return len(bytes.TrimLeft(b, space)) == 0
		}
		rest = bytes.TrimLeft(rest[1:], space)
		n := valueEnd(rest)
		if n <= 0 {
			return false
		}
		each(key[1:len(key)-1], rest[:n])
		if b = bytes.TrimLeft(rest[n:], space); len(b) == 0 {
			return true
		}
		if b[0] != ',' {
			return false
		}
	}
}

const space = " \t\r\n"

// text splits off a string, with its quotes; nil if there is none.
func text(b []byte) (quoted, rest []byte) {
	if len(b) == 0 || b[0] != '"' {
		return nil, b
	}
	n := bytes.IndexByte(b[1:], '"')
	if n < 0 {
		return nil, b
	}
	return b[:n+2], b[n+2:]
}

// valueEnd is how long the value is that b begins with; 0 for what members does not read.
func valueEnd(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		quoted, _ := text(b)
		return len(quoted)
	case '{':
		return 0
	case '[':
		if n := bytes.IndexByte(b, ']'); !bytes.ContainsAny(b[1:max(1, n)], `"[{`) {
			return n + 1
		}
		return 0
	}
	if n := bytes.IndexAny(b, ", \t\r\n"); n >= 0 {
		return n
	}
	return len(b)
}

// fields reads what a crowd has to know of an answer.
func (a *answer) fields(b []byte) bool {
	right := true
	number := func(to *int64, b []byte) {
		if !bytes.Equal(b, null) {
			n, err := strconv.ParseInt(string(b), 10, 64)
			*to, right = n, right && err == nil
		}
	}
	word := func(to *string, b []byte) {
		if quoted, _ := text(b); quoted != nil {
			*to = known(quoted[1 : len(quoted)-1])
		} else {
			right = right && bytes.Equal(b, null)
		}
	}
	whole := members(b, func(key, value []byte) {
		switch string(key) {
		case "code":
			word(&a.Code, value)
		case "state":
			word(&a.State, value)
		case "reason":
			word(&a.Reason, value)
		case "position":
			number(&a.Position, value)
		case "estimated_wait_ms":
			a.Estimate.known = !bytes.Equal(value, null)
			number(&a.Estimate.ms, value)
		case "estimated_wait_range_ms":
			if low, high, ok := bytes.Cut(bytes.Trim(value, "[]"), []byte{','}); ok {
				number(&a.Range[0], bytes.Trim(low, space))
				number(&a.Range[1], bytes.Trim(high, space))
			} else {
				right = right && bytes.Equal(value, null)
			}
		case "poll_after_ms":
			number(&a.PollAfter, value)
		case "server_time":
			right = a.ServerTime.UnmarshalJSON(value) == nil && right
		case "opens_at":
			right = a.OpensAt.UnmarshalJSON(value) == nil && right
		case "ticket":
			word(&a.Ticket, value)
		case "token":
			word(&a.Token, value)
		case "usable_in_ms":
			number(&a.UsableIn, value)
		case "expires_in_ms":
			number(&a.ExpiresIn, value)
		case "order_id":
			word(&a.OrderID, value)
		case "retry_after_ms":
			number(&a.Retry, value)
		case "challenge":
			word(&a.Challenge, value)
		case "bits":
			number(&a.Bits, value)
		}
	})
	return whole && right
}

// fields reads the claims of a ticket or a token.
func (c *claims) fields(b []byte) bool {
	right := true
	number := func(to *float64, b []byte) {
		n, err := strconv.ParseFloat(string(b), 64)
		*to, right = n, right && err == nil
	}
	whole := members(b, func(key, value []byte) {
		switch string(key) {
		case "jti":
			quoted, _ := text(value)
			if right = right && quoted != nil; right {
				c.ID = string(quoted[1 : len(quoted)-1])
			}
		case "place":
			n, err := strconv.ParseInt(string(value), 10, 64)
			c.Place, right = n, right && err == nil
		case "iat":
			number(&c.IssuedAt, value)
		case "exp":
			number(&c.ExpiresAt, value)
		}
	})
	return whole && right
}

var null = []byte("null")

// known is a word as a string, without making one of what every poll is told.
func known(b []byte) string {
	for _, word := range [...]string{"waiting", "admitted", "scheduled", "spent"} {
		if string(b) == word {
			return word
		}
	}
	return string(b)
}

// wireTime is a time of an answer in Unix milliseconds, 0 if there is none.
type wireTime int64

// UnmarshalJSON takes what is no time for none.
func (t *wireTime) UnmarshalJSON(b []byte) error {
	if quoted, _ := text(b); quoted != nil {
		*t = wireTime(wireMS(string(quoted[1 : len(quoted)-1])))
	}
	return nil
}

// estimate is a wait that was told, or none.
type estimate struct {
	ms    int64
	known bool
}

// UnmarshalJSON reads a number, or null.
func (e *estimate) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, null) {
		return nil
	}
	e.known = true
	return json.Unmarshal(b, &e.ms)
}

// wireMS is a time of an answer in Unix milliseconds, 0 if there is none.
func wireMS(s string) int64 {
	if s == "" {
		return 0
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0
	}
	return t.UnixMilli()
}
