package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// texts that stand in JSON as they are, and others.
var (
	plainTexts   = []string{"visitor", "Zm9vYmFyYmF6cXV4", "a b", "user@example.com", "1", strings.Repeat("x", MaxSubject)}
	escapedTexts = []string{`"`, `\`, "<b>", "a&b", "\x00", "\x7f", "ünïcode", "\u2028", "\xff", `","jti":"x`, "\n"}
)

// What is written and read without the JWT library is what it would write and read.
func TestSealsDoAsTheLibrary(t *testing.T) {
	tickets := newTickets(t, secretA, secretB)
	for n := range 2000 {
		texts := plainTexts
		if n%2 == 1 {
			texts = append(texts, escapedTexts...)
		}
		text := func() string { return texts[rand.IntN(len(texts))] }
		c := ticketClaims{
			Issuer: ticketIssuer, Line: "sale", Epoch: rand.Int64N(2) * rand.Int64N(1<<50), Subject: text(), ID: text(),
			Issued: rand.Int64N(1 << 40), Expires: 1 + rand.Int64N(1<<40),
		}
		if c.Place = rand.Int64N(2) * rand.Int64N(1<<53); c.Place == 0 {
			c.Entered = 1 + rand.Int64N(1<<50)
		}
		want, err := tickets.keys.Sign(ticketType, &c)
		if err != nil {
			t.Fatal(err)
		}
		var known, read ticketClaims
		if err := tickets.keys.Parse(want, ticketType, &known); err != nil {
			t.Fatal(err)
		}
		opened := tickets.seals[0].open(want, "sale", &read)
		if plain := c.plain(); opened != plain || plain && (read != known || tickets.seals[0].sign(&c) != want) {
			t.Fatalf("%+v: opened %v, %+v; signed %s instead of %s", c, opened, read, tickets.seals[0].sign(&c), want)
		}
		if got, err := tickets.claims(want, "other"); err != nil || got != known {
			t.Fatalf("%+v instead of %+v, %v", got, known, err)
		}
	}
}

// A genuine signature over what is no ticket of ours opens nothing that the library
// would not.
func TestSealsReadOnlyWhatTheyWrite(t *testing.T) {
	tickets := newTickets(t, secretA)
	good := `{"iss":"sluice","line":"sale","epoch":0,"sub":"s","jti":"i","place":5,"iat":1,"exp":2}`
	bad := []string{
		good + " ", good[1:], good[:len(good)-1], strings.Replace(good, "5", "05", 1), strings.Replace(good, "5", "-5", 1),
		strings.Replace(good, "5", "5.0", 1), strings.Replace(good, "5", "", 1), strings.Replace(good, "5", fmt.Sprint(uint64(math.MaxUint64)), 1),
		strings.Replace(good, `"s"`, `"\u0073"`, 1), strings.Replace(good, "sluice", "other", 1), strings.Replace(good, `"exp":2`, `"exp":2,"exp":9`, 1),
		strings.Replace(good, `"sub":"s",`, "", 1), strings.Replace(good, `:0`, `: 0`, 1),
	}
	for i, claims := range append([]string{good}, bad...) {
		var c ticketClaims
		if c.scan([]byte(claims), "sale") != (i == 0) {
			t.Errorf("%s: %+v", claims, c)
		}
	}
	raw := sign(t, tickets, someTicket())
	for _, bent := range []string{raw + "=", raw + "\n", raw[:len(raw)-1], "\n" + raw, strings.Replace(raw, ".", "..", 1), raw + raw[len(raw)-44:], ""} {
		if tickets.seals[0].open(bent, "sale", new(ticketClaims)) {
			t.Errorf("opened %q", bent)
		}
	}
}

// The result outlives the bytes that it was read from, also beside others.
func TestTicketsAreVerifiedAtOnce(t *testing.T) {
	tickets := newTickets(t, secretA, secretB)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			ticket := someTicket()
			ticket.Subject, ticket.ID = fmt.Sprint("subject ", n), fmt.Sprint("id ", n)
			raw := []byte(sign(t, tickets, ticket))
			for range 5000 {
				got, err := tickets.Verify(string(raw), "sale", signed)
				if err != nil || got.Subject != ticket.Subject || got.ID != ticket.ID {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

func TestReadingATicketAllocatesLittle(t *testing.T) {
	tickets := newTickets(t, secretA)
	raw := sign(t, tickets, someTicket())
	// It is one; with the race detector a pool forgets now and then.
	if got := testing.AllocsPerRun(1000, func() { _, _ = tickets.Verify(raw, "sale", signed) }); got > 10 {
		t.Errorf("%v allocations", got)
	}
}
