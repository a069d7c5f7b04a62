package browser

import (
	"maps"
	"slices"
	"testing"
)

// The same suite in both set-ups. Its tests share a process, and each has lines and a
// visitor of its own.
func TestEmbedded(t *testing.T)  { suite(t, embedded, true) }
func TestOnServers(t *testing.T) { suite(t, onServers, false) }

// world is what a test of the suite is given.
type world struct {
	*testing.T
	*sluice       // the one that tests share
	begin   setup // for one of the test's own
	looks   bool  // whether what is shown is inspected here: once is enough
}

func suite(t *testing.T, begin setup, looks bool) {
	s := begin(t)
	tests := map[string]func(world){}
	for _, some := range []map[string]func(world){states, purchases, troubles, languages, operators, calls, plains} {
		maps.Copy(tests, some)
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := *s
			own.t = t
			tests[name](world{t, &own, begin, looks})
		})
	}
}

// own is a process of the test's own.
func (w *world) own(environ ...string) {
	w.Helper()
	w.sluice = w.begin(w.T, environ...)
}

// tab opens one of a new visitor.
func (w world) tab() *tab {
	w.Helper()
	return open(chromium(w.T), w.T)
}

// visit opens the waiting page.
func (w world) visit(line, fragment string) *tab {
	w.Helper()
	p := w.tab()
	p.goTo(w.public + "/wait?line=" + line + fragment)
	return p
}

// join takes a place by the page.
func (w world) join(line string) *tab {
	w.Helper()
	p := w.visit(line, "#enter")
	p.state("waiting")
	return p
}

// state waits until the waiting page shows a state.
func (p *tab) state(name string) {
	p.t.Helper()
	p.until(`document.querySelector('main')?.dataset.state === '` + name + `'`)
}

// reason waits until the page says why nothing moves; an empty one is that it moves.
func (p *tab) reason(name string) {
	p.t.Helper()
	p.until(`(document.querySelector('main')?.dataset.reason ?? '') === '` + name + `'`)
}

// trouble likewise.
func (p *tab) trouble(name string) {
	p.t.Helper()
	p.until(`(document.querySelector('main')?.dataset.trouble ?? '') === '` + name + `'`)
}
