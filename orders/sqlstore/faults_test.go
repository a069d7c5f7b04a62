package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
	"sluice/servicetest"
)

// fault is how the network to MySQL misbehaves, from now on.
type fault int32

const (
	none           fault = iota
	commitLost           // COMMIT never arrives
	commitUnheard        // COMMIT is done, its answer never arrives
	insertLost           // the connection breaks before COMMIT, once
	updateLost           // an update of orders never arrives, once
	updateUnheard        // an update of orders is done, its answer never arrives, once
	unreachable          // nothing arrives and nobody can connect
	neverAnswering       // everything arrives, no answer does
	full                 // connections are lost, and the server takes no more
)

var errCut = &net.OpError{Op: "write", Err: errors.New("connection cut by the test")}

// tooManyConnections is what a server says, in place of its greeting, that has no
// connection left: length, number, error, 1040, text.
var tooManyConnections = append([]byte{23, 0, 0, 0, 0xff, 0x10, 0x04}, "Too many connections"...)

// turnedAway is a connection to such a server.
type turnedAway struct {
	net.Conn
	said *bytes.Reader
}

func (c *turnedAway) Read(b []byte) (int, error)       { return c.said.Read(b) }
func (c *turnedAway) SetReadDeadline(time.Time) error  { return nil }
func (c *turnedAway) SetWriteDeadline(time.Time) error { return nil }
func (c *turnedAway) Close() error                     { return nil }

// network connects to the server through the current fault.
type network struct{ fault atomic.Int32 }

func (n *network) dial(ctx context.Context, kind, addr string) (net.Conn, error) {
	switch fault(n.fault.Load()) {
	case unreachable:
		return nil, errCut
	case full:
		return &turnedAway{said: bytes.NewReader(tooManyConnections)}, nil
	}
	c, err := new(net.Dialer).DialContext(ctx, kind, addr)
	return &faultyConn{Conn: c, network: n}, err
}

type faultyConn struct {
	net.Conn
	network *network
}

func (c *faultyConn) Write(b []byte) (int, error) {
	switch f := fault(c.network.fault.Load()); {
	case f == unreachable, f == full,
		f == commitLost && bytes.HasSuffix(b, []byte("COMMIT")):
		_ = c.Close()
		return 0, errCut
	case f == insertLost && bytes.Contains(b, []byte("INSERT INTO order_items")):
		c.network.fault.Store(int32(none))
		_ = c.Close()
		return 0, errCut
	case f == updateLost && bytes.Contains(b, []byte("UPDATE orders")):
		c.network.fault.Store(int32(none))
		_ = c.Close()
		return 0, errCut
	case f == updateUnheard && bytes.Contains(b, []byte("UPDATE orders")):
		c.network.fault.Store(int32(none))
		return c.writeUnheard(b)
	case f == commitUnheard && bytes.HasSuffix(b, []byte("COMMIT")):
		return c.writeUnheard(b)
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) writeUnheard(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	answer := make([]byte, 1024)
	_, _ = c.Conn.Read(answer) // by then it is committed
	_ = c.Close()
	return n, err
}

func (c *faultyConn) Read(b []byte) (int, error) {
	if fault(c.network.fault.Load()) == neverAnswering {
		// The driver closes the connection when the context ends.
		for {
			if _, err := c.Conn.Read(b); err != nil {
				return 0, err
			}
		}
	}
	return c.Conn.Read(b)
}

// openThrough opens a MySQL store on a network that can be made to fail.
func openThrough(t *testing.T, n *network, opts Options) *Store {
	t.Helper()
	b, err := prepare(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	config, err := mysqlConfig(opts.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = n.dial
	b.open = func(several bool) (*sql.DB, error) {
		config.MultiStatements = several
		return openMySQL(config)
	}
	return connected(t, b, opts)
}

// connected is a store on a backend that was prepared, and perhaps changed.
func connected(t *testing.T, b backend, opts Options) *Store {
	t.Helper()
	s, err := New(opts)
	if err == nil {
		err = s.connect(t.Context(), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestLostConnections(t *testing.T) {
	t.Parallel()
	opts := Options{URL: servicetest.MySQL(t), Workers: 2, Log: discard}
	n := &network{}
	s := openThrough(t, n, opts)
	watch := openStore(t, opts, logger.Discard)
	product, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 100})
	if err != nil {
		t.Fatal(err)
	}
	place := func(token string, f fault) (orders.Order, bool, error) {
		n.fault.Store(int32(f))
		defer n.fault.Store(int32(none))
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if f != neverAnswering {
			ctx = t.Context()
		}
		return orderstest.Ask(ctx, s, orders.Buyer{TokenID: token}, []orders.CartItem{{ProductID: product, Quantity: 1}})
	}

	if _, created, err := place("insert", insertLost); err != nil || !created {
		t.Errorf("connection lost before the commit: created %v, %v", created, err)
	}
	// Nothing is acknowledged of which the commit was not heard; the same
	// request again gets what became of it.
	for token, c := range map[string]struct {
		fault
		committed bool
	}{
		"lost":    {commitLost, false},
		"unheard": {commitUnheard, true},
		"away":    {unreachable, false},
		"silent":  {neverAnswering, false},
	} {
		if _, created, err := place(token, c.fault); created || !errors.Is(err, orders.ErrDatabase) {
			t.Errorf("%s: created %v, %v", token, created, err)
		}
		o, created, err := place(token, none)
		if err != nil || created == c.committed {
			t.Errorf("%s, then well: created %v, %v", token, created, err)
		}
		if got, err := watch.ByToken(t.Context(), token); err != nil || got.ID != o.ID {
			t.Errorf("%s: acknowledged %s, found %s, %v", token, o.ID, got.ID, err)
		}
	}
	sum, err := watch.Summary(t.Context())
	if err != nil || sum.Orders != 5 || stockPlusItems(t, watch, product) != 100 {
		t.Errorf("summary %+v, %v", sum, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]Options{
		"nothing":       {Workers: 1, Log: discard},
		"both":          {Workers: 1, Log: discard, URL: "mysql://h/n", Path: "p"},
		"no workers":    {Log: discard, Path: "p"},
		"other scheme":  {Workers: 1, Log: discard, URL: "postgres://user:hunter2@127.0.0.1/n"},
		"no schema":     {Workers: 1, Log: discard, URL: "mysql://user:hunter2@127.0.0.1:1"},
		"odd schema":    {Workers: 1, Log: discard, URL: "mysql://user:hunter2@127.0.0.1:1/a`b"},
		"odd parameter": {Workers: 1, Log: discard, URL: "mysql://user:hunter2@127.0.0.1:1/n?allowAllFiles=true"},
		"odd port":      {Workers: 1, Log: discard, URL: "mysql://user:hunter2@127.0.0.1:port/n"},
		"nobody there":  {Workers: 1, Log: discard, URL: "mysql://user:hunter2@127.0.0.1:1/n"},
		"a folder":      {Workers: 1, Log: discard, Path: t.TempDir()},
	} {
		s, err := Open(t.Context(), opts)
		if err == nil {
			_ = s.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error tells the password: %v", name, err)
		}
	}
}

func TestWrongPasswordIsNotTold(t *testing.T) {
	t.Parallel()
	config, err := mysqlConfig(servicetest.MySQL(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Options{URL: "mysql://" + config.User + ":hunter2@" + config.Addr + "/n", Workers: 1, Log: discard})
	if !errors.Is(err, ErrUnusable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}
