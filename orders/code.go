package orders

import "crypto/rand"

// NewCode makes the code of a claim: 26 characters of 130 random bits, since who
// knows it may use it.
func NewCode() string { return rand.Text() }
