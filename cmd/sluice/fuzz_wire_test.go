package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// answerWithin is far longer than the service may take for anything.
const answerWithin = time.Minute

// wire is a connection that is dialled anew when it has been closed.
type wire struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
}

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

func (w *wire) dial() error {
	w.close()
	conn, err := net.DialTimeout("tcp", w.addr, answerWithin)
	if err != nil {
		return err
	}
	w.conn, w.in = conn, bufio.NewReaderSize(conn, 32<<10)
	return nil
}

// fire sends a shot and reads what is answered. Well-formed requests must all be
// answered, up to one whose answer closes the connection.
func (w *wire) fire(s shot) ([]got, error) {
	if s.requests == 0 {
		return w.fireBroken(s)
	}
	reused := w.conn != nil
	if !reused {
		if err := w.dial(); err != nil {
			return nil, err
		}
	}
	answers, err := w.exchange(s)
	if err != nil && len(answers) == 0 && reused { // closed while it was idle
		if err := w.dial(); err != nil {
			return nil, err
		}
		answers, err = w.exchange(s)
	}
	if err != nil {
		w.close()
	}
	return answers, err
}

func (w *wire) exchange(s shot) (answers []got, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	_, sendErr := w.conn.Write(s.raw) // fails when the answer came before the end of the request
	for len(answers) < s.requests {
		a, last, err := w.read(s.method)
		if err != nil {
			return answers, errors.Join(err, sendErr)
		}
		answers = append(answers, a)
		if last {
			w.close()
			return answers, nil
		}
	}
	return answers, nil
}

// fireBroken sends bytes that may be anything, and the end; whatever is answered then
// must come to an end too.
func (w *wire) fireBroken(s shot) (answers []got, err error) {
	one := &wire{addr: w.addr}
	if err := one.dial(); err != nil {
		return nil, err
	}
	defer one.close()
	if err := one.conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	if _, err := one.conn.Write(s.raw); err == nil {
		_ = one.conn.(*net.TCPConn).CloseWrite()
	}
	for {
		a, last, err := one.read(s.method)
		if netErr := net.Error(nil); errors.As(err, &netErr) && netErr.Timeout() {
			return answers, err
		}
		if err != nil {
			return answers, nil
		}
		answers = append(answers, a)
		if last || a.head { // what follows may be a body, if it was not HEAD any more
			return answers, nil
		}
	}
}

func (w *wire) read(method string) (a got, last bool, err error) {
	asked := &http.Request{Method: method}
	resp, err := http.ReadResponse(w.in, asked)
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(w.in, asked)
	}
	if err != nil {
		return got{}, false, err
	}
	defer func() { _ = resp.Body.Close() }()
	a = got{status: resp.StatusCode, header: resp.Header, head: method == http.MethodHead}
	a.body, err = io.ReadAll(resp.Body)
	return a, resp.Close, err
}

// loot is what the service gave away and requests are made with. It forgets: a fuzzer
// is a bounded set of visitors.
type loot struct {
	mu      sync.Mutex
	tickets map[string][]string // by line
	things  map[string][]string
	deals   []deal

	orders map[string]bool // ids of all that were acknowledged
	stock  int64           // of all products that were added
}

// deal is a token and the order it made.
type deal struct{ token, order string }

const lootSize = 64

func newLoot() *loot {
	return &loot{tickets: map[string][]string{}, things: map[string][]string{}, orders: map[string]bool{}}
}

func keep[T any](some []T, one T) []T {
	if len(some) >= lootSize {
		some = slices.Delete(some, 0, 1)
	}
	return append(some, one)
}

func (l *loot) one(t *thrower, kind string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return some(t, l.things[kind])
}

func (l *loot) ticket(t *thrower, line string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return some(t, l.tickets[line])
}

func (l *loot) deal(t *thrower) deal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return some(t, l.deals)
}

func (l *loot) count(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.things[kind])
}

// some is one of them; the dice are thrown once, whatever there is.
func some[T any](t *thrower, from []T) (one T) {
	n := t.IntN(1 << 30)
	if len(from) > 0 {
		one = from[n%len(from)]
	}
	return one
}

// learn takes what an answer brought, and says what in it breaks a promise.
func (l *loot) learn(s shot, a got) (wrong string) {
	if a.status >= 300 || len(a.body) == 0 || a.body[0] != '{' {
		return ""
	}
	var said struct {
		Line, Ticket, Token, Code string
		Order                     string `json:"order_id"`
		Coupon                    int64  `json:"coupon_id"`
		Product                   int64  `json:"product_id"`
	}
	if json.Unmarshal(a.body, &said) != nil {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if said.Ticket != "" {
		l.tickets[said.Line] = keep(l.tickets[said.Line], said.Ticket)
		if subject := claimOf(said.Ticket, "sub"); subject != "" {
			l.things["subject"] = keep(l.things["subject"], subject)
		}
	}
	if said.Token != "" && !slices.Contains(l.things["token"], said.Token) {
		l.things["token"] = keep(l.things["token"], said.Token)
		l.deals = keep(l.deals, deal{token: said.Token})
	}
	if said.Code != "" {
		l.things["code"] = keep(l.things["code"], said.Code)
	}
	if a.status != http.StatusCreated {
		return ""
	}
	switch {
	case said.Order != "":
		if l.orders[said.Order] || l.orders["token "+claimOf(s.token, "jti")] {
			return "a second order of one token"
		}
		l.orders[said.Order], l.orders["token "+claimOf(s.token, "jti")] = true, true
		l.things["order"] = keep(l.things["order"], said.Order)
		l.deals = keep(l.deals, deal{token: s.token, order: said.Order})
	case said.Product != 0:
		var added struct{ Stock int64 }
		if err := json.Unmarshal([]byte(s.body), &added); err != nil {
			return "a product was made of what is no product"
		}
		l.stock += added.Stock
		l.things["product"] = keep(l.things["product"], fmt.Sprint(said.Product))
	case said.Coupon != 0 && said.Code == "":
		l.things["coupon"] = keep(l.things["coupon"], fmt.Sprint(said.Coupon))
	}
	return ""
}

// claimOf reads a claim of a JWT that nobody has checked.
func claimOf(jwt, name string) string {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return ""
	}
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]any
	_ = json.Unmarshal(raw, &claims)
	text, _ := claims[name].(string)
	return text
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
