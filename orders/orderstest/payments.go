package orderstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/orders"
)

// RunPayments runs the suite of [orders.PaymentStore]; fresh makes the database of each
// test.
func RunPayments(t *testing.T, fresh func(t testing.TB) Database) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Database)
	}{
		{"PaysAnOrder", paysAnOrder},
		{"DeclinedMayBeTriedAgain", declinedMayBeTriedAgain},
		{"NothingToPay", nothingToPay},
		{"KeepsWhatAPaymentIsGiven", keepsWhatAPaymentIsGiven},
		{"RefusesPayments", refusesPayments},
		{"UnknownIsNeverCancelled", unknownIsNeverCancelled},
		{"OneAttemptHoweverManyBegin", oneAttemptHoweverManyBegin},
		{"SettledOnceHoweverManyTell", settledOnceHoweverManyTell},
		{"PaidOrCancelled", paidOrCancelled},
		{"UnsettledIsFound", unsettledIsFound},
		{"UnsettledIsClaimedOnce", unsettledIsClaimedOnce},
		{"PaymentStatements", paymentStatements},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
}

// begin expects an attempt to ask the provider for.
func begin(t testing.TB, s orders.Store, o orders.Order) orders.Payment {
	t.Helper()
	p, err := s.BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "card")
	if err != nil || p.State != orders.PaymentUnknown {
		t.Fatalf("begin: %+v, %v", p, err)
	}
	return p
}

func settle(t testing.TB, s orders.Store, p orders.Payment, paid bool) orders.Payment {
	t.Helper()
	p, err := s.SettlePayment(t.Context(), p, orders.Outcome{Paid: paid, Reference: "ref"})
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	return p
}

// wantState reads the order, as anybody sees it.
func wantState(t testing.TB, s orders.Store, id string, want orders.State) {
	t.Helper()
	if o, err := s.Order(t.Context(), id); err != nil || o.State != want {
		t.Errorf("order %s is %s, want %s; %v", id, o.State, want, err)
	}
}

func paysAnOrder(t *testing.T, db Database) {
	s := db.Open(t, 2)
	o := place(t, s, buyer(1), cart(addProduct(t, s, orders.Product{Price: 700, Stock: 9}), 2))
	begun := begin(t, s, o)
	want := orders.Payment{OrderID: o.ID, Attempt: 1, Method: "card", Amount: 1400, State: orders.PaymentUnknown}
	if begun != want {
		t.Errorf("begun %+v, want %+v", begun, want)
	}
	wantState(t, s, o.ID, orders.PaymentUnknown)
	// Whoever comes meanwhile, whatever they would pay with, meets the same attempt.
	again, err := s.BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "transfer")
	if err != nil || again != want {
		t.Errorf("begun again: %+v, %v", again, err)
	}

	before := time.Now().Add(-time.Minute)
	paid := settle(t, s, begun, true)
	if paid.PaidAt.Before(before) || paid.PaidAt.After(before.Add(2*time.Minute)) || paid.PaidAt.Location() != time.UTC {
		t.Errorf("paid at %v", paid.PaidAt)
	}
	want.State, want.PaidAt = orders.Paid, paid.PaidAt
	if paid != want {
		t.Errorf("settled %+v, want %+v", paid, want)
	}
	wantState(t, s, o.ID, orders.Paid)

	// What is paid stays paid.
	if got, err := s.BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "card"); err != nil || got != want {
		t.Errorf("paying it again: %+v, %v", got, err)
	}
	if got := settle(t, s, begun, false); got != want {
		t.Errorf("settled otherwise: %+v", got)
	}
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 0 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
	wantState(t, s, o.ID, orders.Paid)
	if sum := summary(t, s); sum.ByState[orders.Paid] != 1 || sum.Revenue != 1400 {
		t.Errorf("summary %+v", sum)
	}
}

func declinedMayBeTriedAgain(t *testing.T, db Database) {
	s := db.Open(t, 2)
	o := place(t, s, buyer(1), cart(addProduct(t, s, orders.Product{Price: 5, Stock: 9}), 1))
	first := begin(t, s, o)
	declined := settle(t, s, first, false)
	if declined.State != orders.Declined || declined.Attempt != 1 || !declined.PaidAt.IsZero() {
		t.Errorf("declined: %+v", declined)
	}
	wantState(t, s, o.ID, orders.Declined)
	if got := settle(t, s, first, true); got != declined {
		t.Errorf("settled otherwise: %+v", got)
	}
	second, err := s.BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "transfer")
	if err != nil || second.Attempt != 2 || second.Method != "transfer" || second.Key() == first.Key() {
		t.Fatalf("second attempt: %+v, %v", second, err)
	}
	// Late news of the first attempt says nothing about the second.
	for _, paid := range []bool{false, true} {
		if got := settle(t, s, first, paid); got != second {
			t.Errorf("the first, settled late: %+v", got)
		}
	}
	if got := settle(t, s, second, true); got.State != orders.Paid || got.Attempt != 2 {
		t.Errorf("the second: %+v", got)
	}
}

func nothingToPay(t *testing.T, db Database) {
	s := db.Open(t, 2)
	o := place(t, s, buyer(1), cart(addProduct(t, s, orders.Product{Stock: 9}), 1))
	for range 2 {
		p, err := s.BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, "card")
		if err != nil || p.State != orders.Paid || p.Amount != 0 || p.Attempt != 1 || p.PaidAt.Before(o.CreatedAt) {
			t.Errorf("payment %+v, %v", p, err)
		}
	}
	wantState(t, s, o.ID, orders.Paid)
	if due := unsettled(t, s, aMinuteAhead, 10); len(due) != 0 {
		t.Errorf("to ask for: %+v", due)
	}
}

func keepsWhatAPaymentIsGiven(t *testing.T, db Database) {
	const odd = `🛋️'"\? :name @name %_`
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Price: orders.MaxPrice, Stock: orders.MaxQuantity})
	o := place(t, s, buyer(1), cart(p, orders.MaxQuantity))
	method := odd + strings.Repeat("m", 64-len(odd))
	begun, err := s.BeginPayment(t.Context(), o.ID, o.Buyer.TokenID, method)
	if err != nil || begun.Method != method || begun.Amount != orders.MaxPrice*orders.MaxQuantity {
		t.Fatalf("begun %+v, %v", begun, err)
	}
	paid, err := s.SettlePayment(t.Context(), begun, orders.Outcome{Paid: true, Reference: odd + strings.Repeat("r", 255-len(odd))})
	if err != nil || paid.State != orders.Paid {
		t.Errorf("settled %+v, %v", paid, err)
	}
}

func refusesPayments(t *testing.T, db Database) {
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Price: 5, Stock: 9})
	o := place(t, s, buyer(1), cart(p, 1))
	gone := place(t, s, buyer(2), cart(p, 1))
	if got, err := s.BeginPayment(t.Context(), o.ID, gone.Buyer.TokenID, "card"); !errors.Is(err, orders.ErrOrderOfAnother) || got != (orders.Payment{}) {
		t.Errorf("with another token: %+v, %v", got, err)
	}
	wantState(t, s, o.ID, orders.Pending)
	settle(t, s, orders.Payment{OrderID: o.ID, Attempt: 1}, true) // nobody has begun it
	wantState(t, s, o.ID, orders.Pending)

	for _, id := range []string{"", "x", strings.Repeat("long", 1000), "' OR 1=1 --", "né", "\xff\xfe", "a\x00b", "?"} {
		if _, err := s.BeginPayment(t.Context(), id, o.Buyer.TokenID, "card"); !errors.Is(err, orders.ErrOrderNotFound) {
			t.Errorf("begin %.10q: %v", id, err)
		}
		if _, err := s.SettlePayment(t.Context(), orders.Payment{OrderID: id, Attempt: 1}, orders.Outcome{}); !errors.Is(err, orders.ErrOrderNotFound) {
			t.Errorf("settle %.10q: %v", id, err)
		}
	}
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 2 || err != nil {
		t.Fatalf("cancelled %d, %v", n, err)
	}
	if _, err := s.BeginPayment(t.Context(), gone.ID, gone.Buyer.TokenID, "card"); !errors.Is(err, orders.ErrOrderState) {
		t.Errorf("a cancelled order: %v", err)
	}
	if _, err := s.BeginPayment(t.Context(), gone.ID, o.Buyer.TokenID, "card"); !errors.Is(err, orders.ErrOrderOfAnother) {
		t.Errorf("a cancelled order with another token: %v", err)
	}
	wantState(t, s, gone.ID, orders.Cancelled)
}

func unknownIsNeverCancelled(t *testing.T, db Database) {
	s := db.Open(t, 2)
	p := addProduct(t, s, orders.Product{Price: 5, Stock: 9})
	o := place(t, s, buyer(1), cart(p, 2))
	attempt := begin(t, s, o)
	if n, err := s.CancelUnpaid(t.Context(), aMinuteAhead, 10); n != 0 || err != nil {
		t.Fatalf("cancelled %d, %v", n, err)
	}
	wantState(t, s, o.ID, orders.PaymentUnknown)
	settle(t, s, attempt, true)
	if n := stock(t, s, p); n != 7 {
		t.Errorf("stock %d", n)
	}
}

func unsettled(t testing.TB, s orders.Store, age time.Duration, limit int) []orders.Payment {
	t.Helper()
	due, err := s.UnsettledPayments(t.Context(), age, limit)
	if err != nil {
		t.Fatalf("unsettled: %v", err)
	}
	return due
}

func unsettledIsFound(t *testing.T, db Database) {
	s := db.Open(t, 2)
	product := addProduct(t, s, orders.Product{Price: 5, Stock: 9})
	pays := func(n int) orders.Payment { return begin(t, s, place(t, s, buyer(n), cart(product, 1))) }
	place(t, s, buyer(0), cart(product, 1)) // nobody pays for it
	old := pays(1)
	db.Elapse(t, time.Hour)
	paid, declined, open := pays(2), pays(3), pays(4)
	settle(t, s, paid, true)
	settle(t, s, declined, false)
	if due := unsettled(t, s, time.Minute, 10); len(due) != 1 || due[0] != old {
		t.Fatalf("those an hour old: %+v, want %+v", due, old)
	}
	if due := unsettled(t, s, time.Minute, 10); len(due) != 0 {
		t.Errorf("again, at once: %+v", due)
	}
	db.Elapse(t, time.Hour)
	// The one that was asked for last comes last, however old it is.
	if due := unsettled(t, s, time.Minute, 1); len(due) != 1 || due[0] != open {
		t.Errorf("the one that waits longest: %+v, want %+v", due, open)
	}
	if due := unsettled(t, s, time.Minute, 1); len(due) != 1 || due[0] != old {
		t.Errorf("the other: %+v, want %+v", due, old)
	}
}

func paymentStatements(t *testing.T, db Database) {
	s := db.Open(t, 1)
	product := addProduct(t, s, orders.Product{Price: 5, Stock: 1000})
	count := func(doing func()) int64 {
		before := db.Statements()
		doing()
		return db.Statements() - before
	}
	o := place(t, s, buyer(0), cart(product, 1))
	var attempt orders.Payment
	if n := count(func() { attempt = begin(t, s, o) }); n != 2 {
		t.Errorf("begin: %d statements", n)
	}
	if n := count(func() { settle(t, s, attempt, false) }); n != 2 {
		t.Errorf("settle: %d statements", n)
	}
	begin(t, s, o)
	claim := func(want int) int64 {
		db.Elapse(t, time.Hour)
		return count(func() {
			if due := unsettled(t, s, time.Minute, 100); len(due) != want {
				t.Errorf("%d are due, want %d", len(due), want)
			}
		})
	}
	one := claim(1)
	for n := range 30 {
		begin(t, s, place(t, s, orders.Buyer{TokenID: fmt.Sprint("more-", n)}, cart(product, 1)))
	}
	if many := claim(31); one == 0 || many != one {
		t.Errorf("claim: %d statements for one, %d for many", one, many)
	}
}
