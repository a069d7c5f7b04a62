// Package benchmarks holds this product against the ways that others have published,
// in one run, on one machine, on the same stores:
//
//	make bench
//	make bench-coupons
//	make bench-orders
//	make bench-instances
//
// There is nothing here but tests: without -full they run the same code at a size
// that takes seconds, and check that every way still does what it says.
package benchmarks
