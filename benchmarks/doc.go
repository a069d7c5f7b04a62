// Package benchmarks holds this product against the ways that others have published, and
// against itself in another arrangement, in one run, on one machine, on the same stores:
//
//	make bench                # each path over HTTP
//	make bench-coupons
//	make bench-orders
//	make bench-instances      # one, two and four, behind nginx too
//	make bench-isolation      # the queue beside orders
//	make bench-memory         # what each who waits takes
//	make bench-observability  # metrics, logs and traces
//
// There is nothing here but tests: without -full they run the same code at a size
// that takes seconds, and check that every way still does what it says.
package benchmarks
