package benchmarks

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"testing"
	"time"
)

var (
	only = flag.String("paths", "", "of the paths of make bench, only those that this regular expression finds, beside the constant answer")
	out  = flag.String("out", "", "write what make bench measures into this file, as Go benchmarks are written")
)

// path is something that visitors ask for.
type path struct {
	key, name string
	to        *driver
	// ask makes the requests of one round.
	ask func() []asked
	// once is whether each request can be sent only once.
	once bool
}

// scale is the size of it all.
type scale struct {
	waiting, many int // in line, after headSize
	tickets       int // of those polled far from the head
	over          int // connections
	rounds        int
	lasts         time.Duration // of one path in one round
}

// staged is what came of a line of some length: for each path its rounds.
type staged struct {
	waiting int
	paths   []path
	rounds  [][]measured
}

// TestPaths asks a server for everything a visitor asks for, over sockets, in turn with a
// constant answer and a plain ZRANK: in a line of 1,000, of 100,000 and of 1,000,000.
func TestPaths(t *testing.T) {
	size := scale{waiting: 2_500, many: 4_000, tickets: 500, over: 20, rounds: 1, lasts: 100 * time.Millisecond}
	if *full {
		size = scale{waiting: 100_000, many: 1_000_000, tickets: 20_000, over: 200, rounds: max(5, *rounds), lasts: 2 * time.Second}
	}
	c := gather(t)
	b := &bench{t: t, crowd: c, size: size, bare: c.serveBare(t)}
	b.toBare, b.toSluice = openDriver(t, b.bare, size.over), openDriver(t, c.address, size.over)
	near := c.visitors(t, headSize/2+1, headSize, headSize/2)
	few := b.stage(b.constant(near), b.near(near))
	c.fill(t, size.waiting)
	normal := b.stage(b.everything(near, b.spread())...)
	c.fill(t, size.many)
	far := b.spread()
	many := b.stage(b.constant(far), b.near(near), b.far(far))

	stages := []staged{few, normal, many}
	head := fmt.Sprintf("%d processors, %s, %d tickets, %d connections, medians of %d rounds.\n\n", runtime.NumCPU(), runtime.Version(), size.tickets, size.over, size.rounds)
	tables := head + pathTable(normal) + "\nA poll in lines of different lengths:\n\n" + lengthTable(stages)
	t.Log("\n" + tables)
	if *out != "" {
		if err := os.WriteFile(*out, benchmarkLines(stages), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if *only == "" {
		intoDocument(t, "bench", tables)
		writePicture(t, "paths.svg", pathPicture(normal))
	}
}

// bench is one run of it.
type bench struct {
	t                testing.TB
	crowd            *crowd
	size             scale
	bare             string
	toBare, toSluice *driver
}

// stage measures paths, round after round, so that whatever else goes on in the machine
// meets all of them. The constant answer is the first.
func (b *bench) stage(paths ...path) staged {
	b.t.Helper()
	s := staged{waiting: b.crowd.length}
	wanted := regexp.MustCompile(*only)
	for i, p := range paths {
		if i == 0 || wanted.MatchString(p.key) {
			s.paths = append(s.paths, p)
		}
	}
	s.rounds = make([][]measured, len(s.paths))
	for round := range b.size.rounds {
		for i, p := range s.paths {
			m := b.crowd.measure(b.t, p.to, p.ask(), p.once, b.size.lasts)
			s.rounds[i] = append(s.rounds[i], m)
			b.t.Logf("%d waiting, round %d, %s: %.0f/s (%.0f %%), p50 %s p99 %s ms; %.1f + %.1f µs of the processors", s.waiting, round+1, p.key,
				m.perSecond, 100*m.perSecond/s.rounds[0][round].perSecond, ms(m.took.p50), ms(m.took.p99), micros(m.cpu), micros(m.redis))
			switch { // near the head only the store knows, and further back it is seldom asked
			case p.key == "position-near" && m.copied > 0:
				b.t.Errorf("%s: %.0f %% of the answers from the copy of the places", p.key, 100*m.copied)
			case p.key == "position-far" && m.copied == 0:
				b.answersFromCopy(p)
			}
			if m.wrong > 0 {
				b.t.Errorf("%s: %d wrong answers, one of them: %v", p.key, m.wrong, m.example)
			}
		}
	}
	return s
}

// answersFromCopy asks until the copy of the places answers: on a machine with much to do
// it may be too old for that for longer than a path is measured.
func (b *bench) answersFromCopy(p path) {
	b.t.Helper()
	before := b.crowd.line.Reads().Copied
	for deadline := time.Now().Add(patience); b.crowd.line.Reads().Copied == before; {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: no answers from the copy of the places", p.key)
		}
		p.to.drive(b.t, p.ask(), b.size.lasts)
	}
}

const stillWaiting = `"state":"waiting"`

// constant is asked for with the same tickets as the paths beside it.
func (b *bench) constant(by []visitor) path {
	requests := each(by, asked{status: 200, good: []byte(stillWaiting)}, func(v visitor) []byte {
		return request("GET", "/constant", b.bare, v.ticket())
	})
	return path{key: "constant", name: "a constant answer, nothing else", to: b.toBare, ask: always(requests)}
}

func (b *bench) near(by []visitor) path {
	return path{key: "position-near", name: "**`GET /queue/position`**, near the head", to: b.toSluice, ask: always(b.polls(by))}
}

func (b *bench) far(by []visitor) path {
	return path{key: "position-far", name: "**`GET /queue/position`**, further back", to: b.toSluice, ask: always(b.polls(by))}
}

func (b *bench) polls(by []visitor) []asked {
	return placed(by, func(v visitor) []byte { return request("GET", "/queue/position", b.crowd.address, v.ticket()) })
}

// spread are visitors of all of the line but for its beginning.
func (b *bench) spread() []visitor {
	return b.crowd.visitors(b.t, 3*headSize/2, b.crowd.length, b.size.tickets)
}

// everything is all that is measured in a line of the usual length. Who enters leaves
// again, so that it stays that long.
func (b *bench) everything(near, far []visitor) []path {
	rank := func(target string) func() []asked {
		return always(placed(far, func(v visitor) []byte { return request("GET", target, b.bare, v.ticket(), "X-User-Id: "+v.subject) }))
	}
	again := placed(far, func(v visitor) []byte { return request("POST", "/queue/enter", b.crowd.address, v.ticket()) })
	enter := asked{send: request("POST", "/queue/enter", b.crowd.address), status: 201, good: []byte(stillWaiting)}
	status := asked{send: request("GET", "/queue/status", b.crowd.address), status: 200, good: []byte(`"state":"open"`)}
	return []path{
		b.constant(far),
		{key: "zrank", name: "`ZRANK`, plain go-redis pool", to: b.toBare, ask: rank("/rank")},
		{key: "zrank-pipelined", name: "`ZRANK`, go-redis's auto-pipeliner", to: b.toBare, ask: rank("/rank-pipelined")},
		b.far(far), b.near(near),
		{key: "status", name: "`GET /queue/status`", to: b.toSluice, ask: always([]asked{status})},
		{key: "enter-again", name: "`POST /queue/enter`, with a ticket", to: b.toSluice, ask: always(again)},
		{key: "enter", name: "`POST /queue/enter`, a new visitor", to: b.toSluice, ask: always([]asked{enter})},
		{key: "leave", name: "`POST /queue/leave`", to: b.toSluice, ask: b.newcomers, once: true},
	}
}

func always(requests []asked) func() []asked { return func() []asked { return requests } }

// each makes one request for each visitor.
func each(by []visitor, like asked, send func(visitor) []byte) []asked {
	requests := make([]asked, len(by))
	for i, v := range by {
		requests[i] = like
		requests[i].send = send(v)
	}
	return requests
}

// placed are requests whose answers tell the position.
func placed(by []visitor, send func(visitor) []byte) []asked {
	requests := each(by, asked{status: 200, good: []byte(stillWaiting)}, send)
	for i, v := range by {
		requests[i].position = v.position
	}
	return requests
}

// newcomers has all who have entered leave; some are put in, if nobody has.
func (b *bench) newcomers() []asked {
	leaving := b.crowd.visitors(b.t, b.size.waiting+1, 0, 0)
	if len(leaving) == 0 {
		b.crowd.fill(b.t, b.size.waiting+10*b.size.over)
		b.crowd.length = b.size.waiting
		leaving = b.crowd.visitors(b.t, b.size.waiting+1, 0, 0)
	}
	return each(leaving, asked{status: 204}, func(v visitor) []byte {
		return request("POST", "/queue/leave", b.crowd.address, v.ticket())
	})
}
