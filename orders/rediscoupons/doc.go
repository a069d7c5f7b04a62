// Package rediscoupons gives coupons out in Redis first: a crowd for a few coupons is
// turned away at the speed of memory, and only who gets one reaches the database.
//
// # Who decides
//
// The database does ([orders.CouponStore.Claim]): one per visitor, never more than there
// are. Redis is a filter in front of it and a log of what the filter let through. It may
// know too little: then the database refuses what it was too generous with. It must not
// know too much, or coupons would never be given out: so what it has given is in a stream
// until the database has answered for it, whoever dies.
//
// # What Redis must know
//
// All claims that the database has. As long as their reading has not come to its end, or
// Redis has fewer than the database is known to have, it gives nothing out: it notes who
// asks, and the database answers. So it does not matter why Redis has forgotten something,
// or who has claimed past it while it was away.
//
// # What is acknowledged
//
// With [Committed] a claim is acknowledged after its commit. A process that does not
// reach Redis lets the database do all the work.
//
// With [Issued] a claim is acknowledged when Redis has given it out, and is written about
// 50 ms later by any process. That survives whatever becomes of the processes, and is as
// durable as Redis: if it loses its last writes, what was acknowledged there is lost, more
// may be acknowledged afterwards than there are, and the database refuses those in excess;
// a warning names each. While Redis is away nobody can tell what it has promised, so
// claims are refused with [orders.ErrDatabase]. Until it is written, a code is no good in
// an order.
//
// All processes of a database must give coupons out in the same way, but for the way to
// acknowledge while it is changed.
package rediscoupons
