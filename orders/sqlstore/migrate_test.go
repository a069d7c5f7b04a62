package sqlstore

import (
	"testing"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm/logger"

	"sluice/orders"
	"sluice/orders/orderstest"
)

// TestMigrationsGoDownAndUp runs every file in both directions, twice, and
// leaves a database that works.
func TestMigrationsGoDownAndUp(t *testing.T) {
	onEach(t, func(t *testing.T, opts Options) {
		s := openStore(t, opts, logger.Discard)
		db, err := s.side.DB()
		if err != nil {
			t.Fatal(err)
		}
		kind := goose.DialectMySQL
		if opts.Path != "" {
			kind = goose.DialectSQLite3
		}
		p, err := migrationsFor(kind, s.dialect.name, db)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := p.DownTo(t.Context(), 0); err != nil {
				t.Fatalf("down: %v", err)
			}
			if _, err := s.Products(t.Context()); err == nil {
				t.Error("the products are still there")
			}
			if _, err := p.Up(t.Context()); err != nil {
				t.Fatalf("up: %v", err)
			}
		}
		id, err := s.AddProduct(t.Context(), orders.Product{Name: "Lamp", Stock: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := orderstest.Ask(t.Context(), s, orders.Buyer{TokenID: "t"}, []orders.CartItem{{ProductID: id, Quantity: 1}}); err != nil {
			t.Error(err)
		}
	})
}
