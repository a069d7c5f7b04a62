// Package queue is the waiting line as a domain: who stands where, who has been
// let in, and which signed ticket may claim which place.
//
// # Guarantees
//
// A [Line] keeps one place per visitor, in the order of arrival by the store's
// clock. Admission pops from the head and records who was let in, as one step:
// a crash anywhere between the pop and the visitor's next poll loses nobody.
//
// A [Ticket] is a signed proof of a place. When the store has no record of it,
// the place on it is honoured, so a line that lost its store puts itself back
// together from the polls of those who wait. When the store remembers that the
// ticket has ended (spent, expired, left, removed), it stays ended.
//
// # Adapters
//
// Two implementations satisfy the same contract suite (queue/queuetest):
// queue/redisqueue keeps the line in Redis for any number of processes,
// queue/memqueue keeps it in this process for the embedded default.
package queue
