package browser

import "testing"

// The same suite in both set-ups. Its tests share a process, and each has lines and a
// visitor of its own.
func TestEmbedded(t *testing.T)  { suite(t, embedded) }
func TestOnServers(t *testing.T) { suite(t, onServers) }

// world is what a test of the suite is given.
type world struct {
	*testing.T
	*sluice       // the one that tests share
	begin   setup // for one of the test's own
}

func suite(t *testing.T, begin setup) {
	s := begin(t)
	for name, test := range map[string]func(world){
		"Waiting": waiting,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *s
			own.t = t
			test(world{t, &own, begin})
		})
	}
}

// tab opens one of a new visitor.
func (w world) tab() *tab {
	w.Helper()
	return open(w.T, chromium(w.T))
}
