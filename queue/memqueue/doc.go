// Package memqueue keeps a line in this process, for the embedded default and
// for tests. It holds to the same contract as the line in Redis, with a position
// in O(log n). A restart forgets it; signed tickets put it back, as they do
// after any loss.
package memqueue
