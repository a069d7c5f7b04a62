package rediscoupons

import (
	"sync/atomic"

	"sluice/orders"
)

type counts struct{ issued, soldOut, bypassed, drained, refused atomic.Int64 }

// Stats implements [orders.Issuer].
func (i *Issuer) Stats() orders.IssuerStats {
	c := &i.counts
	return orders.IssuerStats{
		Issued: c.issued.Load(), SoldOut: c.soldOut.Load(), Bypassed: c.bypassed.Load(),
		Drained: c.drained.Load(), Refused: c.refused.Load(),
	}
}
