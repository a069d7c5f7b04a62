package main

import (
	"encoding/csv"
	"os"
)

// writeReceipts lists what the service has acknowledged, for whoever holds it against
// the database; nowhere without a file.
func writeReceipts(file string, stays []stay) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	_ = w.Write([]string{"ticket_id", "order_id", "coupon_code"}) // errors stay until the end
	for _, s := range stays {
		if s.order != "" || s.coupon != "" {
			_ = w.Write([]string{s.id, s.order, s.coupon})
		}
	}
	w.Flush()
	if err := w.Error(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
