// Package rediscoupons gives coupons out in Redis first: a crowd for a few coupons is
// turned away at the speed of memory, and only who gets one reaches the database.
//
// # Who decides
//
// The database does ([orders.CouponStore.Claim]): one per visitor, never more than there
// are. Redis is a filter in front of it and a log of what the filter let through. It may
// know too little, after it lost something: then the database refuses what it was too
// generous with. It must not know too much, or coupons would never be given out: so what
// it gave is in the stream until the database has answered for it, whoever dies.
//
// # What Redis must know
//
// All claims that the database has. A script that finds fewer than the database is known
// to have, or that nobody has put them there, does not answer: claims go to the database
// as long as it takes to read them from there. So it does not matter why Redis has
// forgotten, or who has claimed past it while it was away.
//
// # What is acknowledged
//
// With [Committed] a claim is acknowledged after its commit. With [Issued] it is
// acknowledged when Redis has it and reaches the database within about 50 ms, whatever
// becomes of this process; but a Redis that loses its last writes loses claims that
// were acknowledged, and after such a loss more may be acknowledged than there are: the
// database refuses those in excess, and a warning names each. Until it is written, the
// code of an acknowledged claim is no good in an order.
package rediscoupons
