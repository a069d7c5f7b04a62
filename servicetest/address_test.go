package servicetest

import "testing"

// A server that is stopped for a while finds its port again: no other test of the
// process has been given it.
func TestAddressIsGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for range 1000 { // of 22,000 by lot: two would surely be the same
		at := Address(t)
		if given[at] {
			t.Fatalf("%s is given a second time", at)
		}
		given[at] = true
	}
}
