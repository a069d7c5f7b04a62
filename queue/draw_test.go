package queue

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
)

// The places were computed without this code: the first 13 hex digits, less two
// bits, of
//
//	printf TICKET | openssl dgst -sha256 -mac HMAC -macopt key:SEED
func TestDrawPlaceVectors(t *testing.T) {
	for _, c := range []struct {
		seed, ticket string
		place        int64
	}{
		// a890dae8fe610dd9…
		{"0000000000000000000000000000000000000000000000000000000000000000", "visitor-1", 741360405838212},
		// b76e389a30869722…
		{"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "AAAAAAAAAAAAAAAA", 806736095658522},
		// b05c9d3c2ba150e1…
		{"ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100", "abcdefghijklmno_", 775647285784197},
	} {
		if got := DrawPlace(c.seed, c.ticket); got != c.place {
			t.Errorf("seed %.8s…, ticket %s: place %d, want %d", c.seed, c.ticket, got, c.place)
		}
	}
}

// printf SEED | openssl dgst -sha256, and printf 'ID\nID\n…' of sorted ids.
func TestHashVectors(t *testing.T) {
	if got := HashSeed("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"); got != "2a8abfa8cb9906290437854193ca6bca41d4d4e26d1d454bd66a35158095e737" {
		t.Errorf("the seed's hash is %s", got)
	}
	ids := []string{"zz", "abcdefghijklmno_", "AAAAAAAAAAAAAAAA"}
	if got := HashTickets(ids); got != "f8f9cafec8add3c949ab0d6944fe3f8b11114f4372446816f05bbe0fb94912e1" {
		t.Errorf("the hash of the tickets is %s", got)
	}
	if got := HashTickets(nil); got != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" {
		t.Errorf("the hash of no tickets is %s", got)
	}
}

// Every drawn place is in front of every place given by the clock, and none is the
// 0 that means no place.
func TestDrawPlaceRange(t *testing.T) {
	if MaxDrawn >= firstTime.UnixMicro() {
		t.Fatalf("a place can be drawn behind one of %s", firstTime)
	}
	seed := NewSeed()
	for i := range 10_000 {
		if p := DrawPlace(seed, fmt.Sprint(i)); p < 1 || p > MaxDrawn {
			t.Fatalf("place %d", p)
		}
	}
}

func TestNewSeed(t *testing.T) {
	a, b := NewSeed(), NewSeed()
	if !isHash(a) || len(a) != 64 || a == b {
		t.Errorf("seeds %q and %q", a, b)
	}
}

// TestDrawIsUniform: no arrival is better than another. Over 400 draws of 1,000
// tickets, with fixed seeds and ids, the rank of each arrival falls into each tenth
// of the line equally often. The statistic is Pearson's chi-squared over the table
// of arrivals (in tenths) by ranks (in tenths): row and column sums are fixed, so it
// has 9 × 9 = 81 degrees of freedom and a 99.9 % quantile of 126.1.
//
// The ranks of one draw are dependent; for a uniform permutation that makes the
// cells vary less than the multinomial's by the factor (1 - 1/n), which does not show.
func TestDrawIsUniform(t *testing.T) {
	const draws, tickets, parts = 400, 1000, 10
	var table [parts][parts]int
	var first int // how often the earlier half provides the very first
	for d := range draws {
		seed := HashSeed(fmt.Sprint("draw ", d))
		type drawn struct {
			arrival int
			place   int64
		}
		line := make([]drawn, tickets)
		for i := range line {
			line[i] = drawn{i, DrawPlace(seed, fmt.Sprintf("ticket-%d-%d", d%3, i))}
		}
		slices.SortFunc(line, func(a, b drawn) int { return cmp.Compare(a.place, b.place) })
		for rank, l := range line {
			table[l.arrival*parts/tickets][rank*parts/tickets]++
		}
		if line[0].arrival < tickets/2 {
			first++
		}
	}
	const expected = draws * tickets / (parts * parts)
	var chi2 float64
	for _, row := range table {
		for _, n := range row {
			chi2 += float64(n-expected) * float64(n-expected) / expected
		}
	}
	t.Logf("chi-squared %.1f with 81 degrees of freedom; the first came from the earlier half %d times of %d", chi2, first, draws)
	if chi2 > 126.1 {
		t.Errorf("chi-squared %.1f: arrivals are not equal", chi2)
	}
	if chi2 < 47.3 { // the 0.1 % quantile
		t.Errorf("chi-squared %.1f: more even than chance", chi2)
	}
	// Binomial(400, ½): 200 ± 10; 3.3 deviations.
	if first < 167 || first > 233 {
		t.Errorf("%d of %d firsts came from the earlier half", first, draws)
	}
}

func BenchmarkDrawPlace(b *testing.B) {
	seed, id := NewSeed(), NewID()
	b.ReportAllocs()
	for b.Loop() {
		DrawPlace(seed, id)
	}
}
