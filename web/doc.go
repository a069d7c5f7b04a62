// Package web is Sluice's HTTP face: the public listener (queue, orders,
// products, pages) and the operator's (page, API, metrics, health).
//
// Handlers decode, call, encode. What an error means on the wire is said in one
// table (problem.go), the waiting answer is written without reflection
// (answer.go) because it is what a crowd asks for all day, and everything else
// is plain.
//
// # Strings of a request
//
// Fiber hands out strings that point into the request's buffer and are
// overwritten after the handler returns. Whatever outlives a handler (a subject
// in the line, a token id in the pool) is a copy: the parts of a verified
// ticket or token are, by their contract; path parameters are copied where they
// are read.
package web
