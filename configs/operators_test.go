package configs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseOperators(t *testing.T) {
	t.Parallel()
	const a, b = "0123456789abcdef", "fedcba9876543210"
	for in, want := range map[Secret][]Operator{
		"":                             nil,
		a:                              {{"operator", a}},
		"alice=" + a:                   {{"alice", a}},
		"alice=" + a + ", bob=" + b:    {{"alice", a}, {"bob", b}},
		"alice=" + a + "," + b:         {{"alice", a}, {"operator", b}},
		"A.l-i_c3=" + a + "==":         {{"A.l-i_c3", a + "=="}},
		"alice==" + a:                  {{"alice", "=" + a}},
		"c2VjcmV0IGFzIGJhc2U2NA==":     {{"operator", "c2VjcmV0IGFzIGJhc2U2NA=="}},
		"c2VjcmV0IGFzIGJhc2U2NA=":      {{"operator", "c2VjcmV0IGFzIGJhc2U2NA="}},
		"alice=c2VjcmV0IGFzIGJhc2U2==": {{"alice", "c2VjcmV0IGFzIGJhc2U2=="}},
		"no/name=" + a:                 {{"operator", "no/name=" + a}},
		Secret(strings.Repeat("n", 32) + "=" + a): {{strings.Repeat("n", 32), a}},
	} {
		if got, err := ParseOperators(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", string(in), got, err)
		}
	}
	for in, want := range map[Secret]string{
		"short":                                   "has 5 bytes, and must have at least 16",
		"alice=short":                             "has 5 bytes, and must have at least 16",
		"alice=" + a + ",bob=":                    "in part 2: has 4 bytes",
		"alice=" + a + ",":                        "in part 2: has 0 bytes",
		"alice=" + a + ",alice=" + b:              "in part 2: the name alice is that of part 1",
		a + "," + b:                               "in part 2: the name operator is that of part 1",
		"alice=" + a + ",bob=" + a:                "in part 2: the token is that of part 1",
		"alice=" + a + " x,bob=" + b:              "in part 1: must be printable ASCII without spaces",
		"local=" + a:                              "the name local is that of changes",
		Secret(strings.Repeat("n", 33) + "=" + a): "a name has at most 32 characters, and this one has 33",
		"alice=" + a + ",alice=" + a:              "the name alice is that of part 1",
	} {
		_, err := ParseOperators(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", string(in), err, want)
		}
		for _, token := range []string{a, b, "short"} {
			if strings.Contains(fmt.Sprint(err), token) {
				t.Errorf("%q: the error tells the token: %v", string(in), err)
			}
		}
	}
}
