package pages

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func hex(t *testing.T, s string) colour {
	t.Helper()
	c, err := parseColour(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The figures are those of WCAG's own examples and of other calculators.
func TestContrast(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#777777", "#ffffff", 4.48}, {"#767676", "#ffffff", 4.54}, {"#0000ff", "#ffffff", 8.59}, {"#ff0000", "#ffffff", 4.00}, {"#123456", "#123456", 1}} {
		if got := contrast(hex(t, tc.a), hex(t, tc.b)); math.Abs(got-tc.want) > 0.006 {
			t.Errorf("%s on %s: %.3f instead of %.2f", tc.a, tc.b, got, tc.want)
		}
	}
}

// schemesOf reads what a brand.css sets, light and dark.
func schemesOf(t *testing.T, css string) (light, dark scheme) {
	t.Helper()
	day, night, found := strings.Cut(css, "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatalf("no dark scheme: %s", css)
	}
	read := func(part string) scheme {
		s := scheme{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(part, -1) {
			s[m[1]] = hex(t, m[2])
		}
		return s
	}
	return read(day), read(night)
}

// Whatever three colours a shop chooses, if they are taken at all all text can be read.
func TestEveryBrandCanBeRead(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		return colour{rng.Float64(), rng.Float64(), rng.Float64()}.String()
	}
	// far is one that text may have on most grounds.
	far := func() string { return white.mix(black, rng.Float64()*0.2+0.8*float64(rng.IntN(2))).String() }
	taken := 0
	for range 1500 {
		o := Options{Accent: random(), AccentDark: random(), Background: random(), Text: far(), BackgroundDark: random(), TextDark: far()}
		var wrong Mistakes
		css, err := o.brand([]byte(ourCSS(t)), &wrong)
		if err != nil {
			t.Fatal(err)
		}
		if len(wrong) > 0 {
			continue
		}
		taken++
		light, dark := schemesOf(t, string(css))
		for _, s := range []scheme{light, dark} {
			for _, on := range []string{"paper", "card"} {
				for _, text := range []string{"ink", "soft", "accent-ink", "bad"} {
					if got := contrast(s[text], s[on]); got < leastContrast {
						t.Fatalf("%s on %s: %.2f with %+v", text, on, got, o)
					}
				}
			}
			if got := contrast(s["on-accent"], s["accent"]); got < leastContrast {
				t.Fatalf("a button's label: %.2f with %+v", got, o)
			}
		}
	}
	if taken < 50 {
		t.Errorf("only %d brands were taken", taken)
	}
}

func ourCSS(t *testing.T) string {
	t.Helper()
	body, err := embedded.ReadFile("assets/base.css")
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Ours can be read too, and brand.css sets no name that base.css does not have.
func TestOwnColours(t *testing.T) {
	light, dark, err := schemes([]byte(ourCSS(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]scheme{"light": light, "dark": dark} {
		for _, pair := range [][2]string{{"ink", "paper"}, {"ink", "card"}, {"soft", "paper"}, {"soft", "card"}, {"accent-ink", "paper"}, {"accent-ink", "card"}, {"on-accent", "accent"}, {"warn", "warn-bg"}, {"bad", "card"}} {
			if got := contrast(s[pair[0]], s[pair[1]]); got < leastContrast {
				t.Errorf("%s: %s on %s: %.2f", name, pair[0], pair[1], got)
			}
		}
	}
	var wrong Mistakes
	css, err := Options{Accent: "#aa0055"}.brand([]byte(ourCSS(t)), &wrong)
	if err != nil || len(wrong) > 0 {
		t.Fatal(err, wrong)
	}
	day, night := schemesOf(t, string(css))
	for _, s := range []scheme{day, night} {
		for name := range s {
			if _, ok := light[name]; !ok {
				t.Errorf("--%s is set, and base.css has none", name)
			}
		}
	}
	if day["accent"].String() != "#aa0055" || night["accent"].String() != "#aa0055" || day["paper"] != light["paper"] || night["ink"] != dark["ink"] {
		t.Errorf("%s", css)
	}
}

// A mistake names the key and the ratio.
func TestColoursThatCannotBeRead(t *testing.T) {
	for want, o := range map[string]Options{
		"text: text #777777 on the background #ffffff has a contrast of 4.47, and at least 4.5 is needed":               {Text: "#777777", Background: "#ffffff"},
		"background_dark: text #e7ecf1 on the background #ffffff has a contrast of 1.18, and at":                        {BackgroundDark: "#ffffff"},
		"text: text #ffffff on the panels, which are a little lighter than the background: #7d7d7d has a contrast of 4": {Background: "#767676", Text: "#ffffff"},
		"accent: must be a colour as #rrggbb":      {Accent: "#abc"},
		"accent_dark: must be a colour as #rrggbb": {Accent: "#aabbcc", AccentDark: "blue"},
	} {
		got := wrongs(t, o)
		if len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	if got := wrongs(t, Options{Text: "#777777", Background: "#ffffff", TextDark: "#333333", AccentDark: "x"}); len(got) != 2 || slices.ContainsFunc(got, func(m string) bool { return strings.HasPrefix(m, "text_dark") }) {
		t.Errorf("%q", got) // what stands on what is not known of a scheme that has a mistake
	}
}
