package web

import (
	"crypto/sha256"
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// solve finds the proof for a challenge.
func solve(challenge string, zeroBits int) string {
	for n := 0; ; n++ {
		proof := challenge + ":" + strconv.FormatInt(int64(n), 36)
		if sum := sha256.Sum256([]byte(proof)); bits.LeadingZeros32(uint32(sum[0])<<24|uint32(sum[1])<<16|uint32(sum[2])<<8|uint32(sum[3])) >= zeroBits {
			return proof
		}
	}
}

// unsolve finds a proof with too few zero bits.
func unsolve(challenge string, zeroBits int) string {
	for n := 0; ; n++ {
		proof := challenge + ":x" + strconv.Itoa(n)
		if sum := sha256.Sum256([]byte(proof)); bits.LeadingZeros8(sum[0]) < min(zeroBits, 8) {
			return proof
		}
	}
}

type challenged struct {
	Challenge, Detail string
	Bits              int
}

func (a answered) challenged() (c challenged) {
	a.t.Helper()
	a.problem(403, "proof_required").into(&c)
	if c.Challenge == "" || c.Bits == 0 {
		a.t.Fatalf("nothing to solve: %s", a.body)
	}
	if a.header.Get("Set-Cookie") != "" {
		a.t.Error("a cookie was set")
	}
	return c
}

func withProofs(t *testing.T, zeroBits int) (setup, *askedLine) {
	with, store := withLimits(Limits{})
	rest := with.config
	with.config = func(c *Config) { // in the bubble: what was used is told by its time
		rest(c)
		c.Limits.Proofs = must(NewProofs(testSecret, zeroBits))(t)
	}
	return with, store
}

func proofHeader(proof string) string { return headerProof + ": " + proof }

func TestNewcomersProveTheirWork(t *testing.T) {
	with, store := withProofs(t, 8)
	inBubble(t, with, func(t *testing.T, f *fixture) {
		p := f.public("POST", "/queue/enter", "").challenged()
		if p.Bits != 8 || store.enters.Load() != 0 {
			t.Errorf("%+v, the line was asked %d times", p, store.enters.Load())
		}
		proof := solve(p.Challenge, p.Bits)
		ticket := f.public("POST", "/queue/enter", "", proofHeader(proof)).want(201).standing().Ticket
		if p := f.public("POST", "/queue/enter", "", proofHeader(proof)).challenged(); !strings.Contains(p.Detail, "used") {
			t.Errorf("detail %q", p.Detail)
		}
		// Who has a place proves nothing; who has left does, again.
		f.public("POST", "/queue/enter", "", ticketHeader(ticket)).want(200)
		f.public("GET", "/queue/position", "", ticketHeader(ticket)).want(200)
		f.public("POST", "/queue/leave", "", ticketHeader(ticket)).want(204)
		f.public("POST", "/queue/enter", "", ticketHeader(ticket), proofHeader(proof)).challenged()
		p = f.public("POST", "/queue/enter", "", ticketHeader(ticket)).challenged()
		f.public("POST", "/queue/enter", "", ticketHeader(ticket), proofHeader(solve(p.Challenge, p.Bits))).want(201)
	})
}

func TestProofsRefused(t *testing.T) {
	with, store := withProofs(t, 8)
	inBubble(t, with, func(t *testing.T, f *fixture) {
		own := f.public("POST", "/queue/enter", "").challenged().Challenge
		other := f.public("POST", "/queue/enter?line=side", "").challenged().Challenge
		foreign := must(NewProofs([][]byte{[]byte("another secret that is 32 bytes.")}, 8))(t)
		altered := func(at int) string { // one character of the challenge
			b := []byte(own)
			b[at] = map[bool]byte{true: 'B', false: 'A'}[b[at] == 'A']
			return string(b)
		}
		for name, proof := range map[string]string{
			"too little work":          unsolve(own, 8),
			"another line's":           solve(other, 8),
			"another secret's":         solve(foreign.challenge(DefaultLine, f.watch.Now()), 8),
			"a later end":              solve(altered(4), 8),
			"other random bytes":       solve(altered(10), 8),
			"another signature":        solve(altered(30), 8),
			"no nonce":                 own + ":",
			"no challenge":             solve("", 8),
			"a long nonce":             solve(own+":"+strings.Repeat("1", maxNonce), 8),
			"rubbish":                  "rubbish",
			"only colons":              strings.Repeat(":", 55),
			"not base64":               solve(strings.Repeat("!", len(own)), 8),
			"huge":                     strings.Repeat("x", 8000),
			"a shorter one":            solve(own[:len(own)-4], 8),
			"the same, spelled longer": solve(own+"=", 8),
			"a longer one":             solve(own+"AAAA", 8),
		} {
			if p := f.public("POST", "/queue/enter", "", proofHeader(proof)).challenged(); p.Challenge == own {
				t.Errorf("%s: the same challenge again", name)
			}
		}
		if store.enters.Load() != 0 {
			t.Error("the line was asked")
		}
		proof := solve(own, 8)
		f.public("POST", "/queue/enter?line=side", "", proofHeader(proof)).challenged()
		time.Sleep(proofTime - time.Millisecond)
		f.public("POST", "/queue/enter", "", proofHeader(proof)).want(201)
		late := f.public("POST", "/queue/enter", "").challenged().Challenge
		time.Sleep(proofTime)
		if p := f.public("POST", "/queue/enter", "", proofHeader(solve(late, 8))).challenged(); !strings.Contains(p.Detail, "expired") {
			t.Errorf("detail %q", p.Detail)
		}
		f.public("POST", "/queue/enter", "", proofHeader(proof)).challenged() // used long ago, and expired
	})
}

// Of one proof sent many times at once one is good; two nonces of one challenge are one
// proof.
func TestAProofIsGoodOnce(t *testing.T) {
	t.Parallel()
	p := must(NewProofs(testSecret, 8))(t)
	now := time.Now()
	challenge := p.challenge(DefaultLine, now)
	proof := solve(challenge, 8)
	var good atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if p.judge(proof, DefaultLine, now) == "" {
				good.Add(1)
			}
		})
	}
	all.Wait()
	if good.Load() != 1 {
		t.Errorf("good %d times", good.Load())
	}
	for n := 0; ; n++ {
		if second := challenge + ":s" + strconv.Itoa(n); sha256.Sum256([]byte(second))[0] == 0 {
			if why := p.judge(second, DefaultLine, now); !strings.Contains(why, "used") {
				t.Errorf("another nonce: %q", why)
			}
			break
		}
	}
}

func TestProofsOutliveARotation(t *testing.T) {
	t.Parallel()
	fresh := []byte("a newer secret that has 32 bytes")
	before, after := must(NewProofs(testSecret, 4))(t), must(NewProofs([][]byte{fresh, testSecret[0]}, 4))(t)
	now := time.Now()
	if why := after.judge(solve(before.challenge(DefaultLine, now), 4), DefaultLine, now); why != "" {
		t.Error(why)
	}
	if why := before.judge(solve(after.challenge(DefaultLine, now), 4), DefaultLine, now); why == "" {
		t.Error("a challenge of a secret that is not known")
	}
}

func TestProofsConfiguration(t *testing.T) {
	t.Parallel()
	if p, err := NewProofs(testSecret, 0); p != nil || err != nil {
		t.Errorf("%v, %v", p, err)
	}
	for _, n := range []int{-1, MaxProofBits + 1} {
		if _, err := NewProofs(testSecret, n); err == nil {
			t.Errorf("%d bits", n)
		}
	}
	for _, secrets := range [][][]byte{nil, {[]byte("short")}} {
		if _, err := NewProofs(secrets, 8); err == nil {
			t.Errorf("%q", secrets)
		}
	}
}

// A challenge is JSON as it stands, and the whole proof one block of SHA-256.
func TestChallengeIsSmall(t *testing.T) {
	t.Parallel()
	p := must(NewProofs(testSecret, 20))(t)
	c := p.challenge(DefaultLine, time.Now())
	if len(c) != challengeLength || len(c)+1+maxNonce > 55 || string(must(json.Marshal(c))(t)) != `"`+c+`"` {
		t.Error(c)
	}
}

func BenchmarkJudge(b *testing.B) {
	p := must(NewProofs(testSecret, 8))(b)
	now := time.Now()
	proof := solve(p.challenge(DefaultLine, now), 8)
	for name, proof := range map[string]string{"used": proof, "too little work": unsolve(proof[:challengeLength], 8)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.judge(proof, DefaultLine, now)
			}
		})
	}
}

// At the pace of a big sale hardly any used proof is forgotten within its time. The table
// is of a fixed size, and chance fills some of its sets before others.
func TestUsedProofsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 500
		used := newPacer(1, usedSets)
		all := perSecond * int(proofTime/time.Second)
		for i := range all {
			used.take(used.key(strconv.Itoa(i)), proofTime+proofSlack)
			time.Sleep(time.Second / perSecond)
		}
		forgotten := 0
		for i := range all {
			key := used.key(strconv.Itoa(i))
			set, now := used.open(key)
			if set.find(key, now) == nil {
				forgotten++
			}
			set.mu.Unlock()
		}
		if forgotten > all/100 {
			t.Errorf("%d of %d used proofs are forgotten", forgotten, all)
		}
	})
}
