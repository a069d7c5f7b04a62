// Package orders is the order side as a domain: products, orders with their
// items and coupons, how they are paid, and the bounded pool that orders and
// claims pass through.
//
// # Guarantees
//
// One order per admission: the token id is unique in the store, and the same
// order repeated with the same token gets the first result. Stock never goes
// below zero, and what was sold equals the sum of the order items. An order is
// acknowledged only after its commit. Unpaid orders give their stock and coupon
// back exactly once. Of a payment and a cancellation one happens, and money moves
// once for an attempt, whoever asks how often and whatever is killed meanwhile,
// as long as the provider keeps its word about idempotency keys.
//
// # Isolation
//
// A [Pool] has as many workers as it has database connections. What waits together
// is done together, by the rules of its backlog; what finds a worker, and its
// products, free is done at once. Whoever finds the backlog full, or waits longer
// than the deadline for a worker, is told [ErrOverloaded] and nothing was done. One
// token has one order in the pool at a time, and one visitor one claim of each
// coupon, however often it is repeated. However slow the database is, nothing
// outside the pool waits for it. This package knows nothing of the line or of
// admission: the token check stands in front of it, in package web.
package orders
