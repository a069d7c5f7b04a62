package sqlstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/servicetest"
)

// TestWhoseFaultItIs says of what a server may answer what is made of it.
func TestWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	const (
		groups  = 1 << iota // its halves are tried
		again               // the transaction is repeated
		waiting             // a start waits for it
	)
	said := func(number uint16, state string) error {
		e := &mysql.MySQLError{Number: number, Message: "the server's words"}
		copy(e.SQLState[:], state)
		return fmt.Errorf("place an order: %w", e)
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"too long for its column":  {said(1406, "22001"), groups},
		"out of range":             {said(1264, "22003"), groups},
		"not UTF-8":                {said(1366, "HY000"), groups},
		"a check (MariaDB)":        {said(4025, "23000"), groups},
		"a check (MySQL)":          {said(3819, "HY000"), groups},
		"a foreign key":            {said(1452, "23000"), groups},
		"too large for a packet":   {said(1153, "08S01"), groups},
		"too large for the driver": {mysql.ErrPktTooLarge, groups | waiting},

		"deadlock":        {said(1213, "40001"), again | waiting},
		"lock wait":       {said(1205, "HY000"), again | waiting},
		"connections":     {said(1040, "08004"), again | waiting},
		"a user's":        {said(1226, "42000"), again | waiting},
		"shutting down":   {said(1053, "08S01"), again | waiting},
		"killed":          {said(1927, "70100"), again | waiting},
		"read-only":       {said(1290, "HY000"), again | waiting},
		"super_read_only": {said(1836, "HY000"), again | waiting},
		"Galera":          {said(1047, "08S01"), again | waiting},
		"broken":          {mysql.ErrInvalidConn, again | waiting},
		"refused":         {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, again | waiting},
		"no such host":    {&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, again | waiting},

		"disk full":     {said(1021, "HY000"), waiting},
		"table full":    {said(1114, "HY000"), waiting},
		"out of memory": {said(1037, "HY001"), waiting},
		"host blocked":  {said(1129, "HY000"), waiting},
		"too late":      {context.DeadlineExceeded, waiting},

		"wrong password":      {said(1045, "28000"), 0},
		"no right to it":      {said(1044, "42000"), 0},
		"no right to a table": {said(1142, "42000"), 0},
		"host not allowed":    {said(1130, "HY000"), 0},
		"password expired":    {said(1820, "HY000"), 0},
		"no table":            {said(1146, "42S02"), 0},
		"no column":           {said(1054, "42S22"), 0},
		"no TLS":              {mysql.ErrNoTLS, 0},
		"a certificate":       {&tls.CertificateVerificationError{Err: errors.New("unknown authority")}, 0},
	} {
		got := 0
		if mysqlRefused(c.err) {
			got |= groups
		}
		if mysqlAway(c.err) || mysqlConflict(c.err) {
			got |= again
		}
		if mysqlPasses(c.err) {
			got |= waiting
		}
		if got != c.want {
			t.Errorf("%s: %03b, want %03b", name, got, c.want)
		}
	}
}

// TestReadOnlyServer takes the right to write from a server, as a fail-over does. It is
// the server's fault and not the group's, and the connections are not kept: where they
// lead is where the old primary was.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := servicetest.OwnMariaDB(t)
	repeated := &repeats{Handler: slog.DiscardHandler}
	s := openStore(t, Options{URL: server.URL, Workers: 2, Log: slog.New(repeated)}, logger.Discard)
	product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 100})
	if err != nil {
		t.Fatal(err)
	}
	coupon := aCoupon(t, s, 10)
	connection := func() (id int) {
		if err := s.workers.Raw("SELECT CONNECTION_ID()").Scan(&id).Error; err != nil {
			t.Fatal(err)
		}
		return id
	}
	before := connection()
	server.Exec("SET GLOBAL read_only = 1")
	for _, placed := range s.Place(t.Context(), groupFor(product, "ro", 16)) {
		if !errors.Is(placed.Err, orders.ErrDatabase) {
			t.Errorf("%+v", placed)
		}
	}
	if got := repeated.n.Load(); got != maxAttempts-1 {
		t.Errorf("repeated %d times", got)
	}
	if got := s.Claim(t.Context(), []orders.ClaimRequest{claimBy("v", coupon)}); !errors.Is(got[0].Err, orders.ErrDatabase) {
		t.Errorf("a claim: %+v", got)
	}
	if connection() == before {
		t.Error("the connection was kept")
	}
	if products, err := s.Products(t.Context()); err != nil || len(products) != 1 {
		t.Errorf("what is only read: %v, %v", products, err)
	}
	server.Exec("SET GLOBAL read_only = 0")
	for _, placed := range s.Place(t.Context(), groupFor(product, "ro", 16)) {
		if placed.Err != nil || !placed.Created {
			t.Errorf("once it writes again: %+v", placed)
		}
	}
}

// TestServerHangsUp has a server end what it finds idle sooner than it said when the
// store was opened. Nobody hears of it: a connection is looked at before it is used.
func TestServerHangsUp(t *testing.T) {
	t.Parallel()
	server := servicetest.OwnMariaDB(t)
	repeated := &repeats{Handler: slog.DiscardHandler}
	s := openStore(t, Options{URL: server.URL, Workers: 2, Log: slog.New(repeated)}, logger.Discard)
	product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 100})
	if err != nil {
		t.Fatal(err)
	}
	server.Exec("SET GLOBAL wait_timeout = 1")
	s.reconnect() // a connection keeps what was said when it was made
	one := []orders.CartItem{{ProductID: product, Quantity: 1}}
	for i := range 3 {
		if _, _, err := orderstest.Ask(t.Context(), s, orders.Buyer{TokenID: fmt.Sprint("t", i)}, one); err != nil {
			t.Errorf("order %d: %v", i, err)
		}
		if _, err := s.ByToken(t.Context(), fmt.Sprint("t", i)); err != nil {
			t.Errorf("read %d: %v", i, err)
		}
		idle := func() (n int) {
			if err := s.upkeep.Raw("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'sluice_test' AND ID <> CONNECTION_ID()").Scan(&n).Error; err != nil {
				t.Fatal(err)
			}
			return n
		}
		for deadline := time.Now().Add(20 * time.Second); idle() > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the server does not hang up")
			}
		}
	}
	if n := repeated.n.Load(); n != 0 {
		t.Errorf("%d transactions were repeated", n)
	}
}
