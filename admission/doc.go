// Package admission decides who is let in and when: the rate, the ticker that
// turns it into batches, and the signed tokens that admitted visitors carry to
// the order side.
package admission
