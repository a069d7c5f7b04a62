package rediscoupons

import "sync/atomic"

// Stats count since the process started.
type Stats struct {
	Issued   int64 // given out by Redis
	SoldOut  int64 // turned away by Redis
	Bypassed int64 // sent to the database, since Redis was away or did not know
	Drained  int64 // taken from the stream and found or made in the database
	Refused  int64 // given out by Redis and refused by the database
}

type counts struct{ issued, soldOut, bypassed, drained, refused atomic.Int64 }

// Stats reads the counters.
func (i *Issuer) Stats() Stats {
	c := &i.counts
	return Stats{
		Issued: c.issued.Load(), SoldOut: c.soldOut.Load(), Bypassed: c.bypassed.Load(),
		Drained: c.drained.Load(), Refused: c.refused.Load(),
	}
}
