package pages

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// leastContrast is what text must have (WCAG 2.2, 1.4.3).
const leastContrast = 4.5

// colour is one in sRGB, each part from 0 to 1.
type colour [3]float64

var white, black = colour{1, 1, 1}, colour{}

var hexColour = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

func parseColour(s string) (colour, error) {
	if !hexColour.MatchString(s) {
		return colour{}, errors.New("must be a colour as #rrggbb")
	}
	n, _ := strconv.ParseUint(s[1:], 16, 32) // six digits
	return colour{float64(n>>16) / 255, float64(n>>8&0xff) / 255, float64(n&0xff) / 255}, nil
}

func (c colour) String() string {
	part := func(v float64) int { return int(math.Round(v * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c[0]), part(c[1]), part(c[2]))
}

// mix is c with a share of other, rounded to what can be written.
func (c colour) mix(other colour, share float64) colour {
	for i := range c {
		c[i] = math.Round((c[i]+(other[i]-c[i])*share)*255) / 255
	}
	return c
}

// luminance is the relative luminance of WCAG 2.2, 0 to 1.
func (c colour) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast is the ratio of WCAG 2.2, 1 to 21.
func contrast(a, b colour) float64 {
	la, lb := a.luminance(), b.luminance()
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

// readable is c, moved towards ink as little as makes it text on all of these.
func (c colour) readable(ink colour, on ...colour) colour {
	for share := 0.0; share < 1; share += 0.05 {
		moved, enough := c.mix(ink, share), true
		for _, ground := range on {
			enough = enough && contrast(moved, ground) >= leastContrast
		}
		if enough {
			return moved
		}
	}
	return ink
}

// scheme are the colours of base.css by the names that they have there.
type scheme map[string]colour

var (
	blocks    = regexp.MustCompile(`:root \{[^}]*\}`)
	ofAScheme = regexp.MustCompile(`--([a-z-]+):\s*(#[0-9a-f]+)`)
)

// schemes are our own, light and dark, as base.css has them.
func schemes(css []byte) (light, dark scheme, err error) {
	found := blocks.FindAll(css, 2)
	if len(found) != 2 {
		return nil, nil, errors.New("base.css has no two schemes")
	}
	light, dark = scheme{}, scheme{}
	for i, into := range []scheme{light, dark} {
		for _, m := range ofAScheme.FindAllSubmatch(found[i], -1) {
			hex := string(m[2])
			if len(hex) == 4 { // #fff
				hex = "#" + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:3], 2) + strings.Repeat(hex[3:], 2)
			}
			if into[string(m[1])], err = parseColour(hex); err != nil {
				return nil, nil, fmt.Errorf("base.css: %s: %w", m[1], err)
			}
		}
	}
	return light, dark, nil
}

// given are the colours that a shop gives of one scheme.
type given struct{ accent, background, text, suffix string }

// brand is brand.css: nothing where the shop gives no colours. What follows from the
// three is computed so that text can be read wherever it stands.
func (o Options) brand(base []byte, wrong *Mistakes) ([]byte, error) {
	if cmp.Or(o.Accent, o.AccentDark, o.Background, o.BackgroundDark, o.Text, o.TextDark) == "" {
		return nil, nil
	}
	light, dark, err := schemes(base)
	if err != nil {
		return nil, err
	}
	day := given{o.Accent, o.Background, o.Text, ""}
	night := given{cmp.Or(o.AccentDark, o.Accent), o.BackgroundDark, o.TextDark, "_dark"}
	if _, err := parseColour(o.Accent); err != nil && o.AccentDark == "" {
		night.accent = "" // told once
	}
	return []byte(":root {\n" + day.apply(light, dark, light, wrong) + "}\n@media (prefers-color-scheme: dark) {\n:root {\n" + night.apply(light, dark, dark, wrong) + "}\n}\n"), nil
}

// apply makes a scheme of what is given, and of one of ours where it is not.
func (g given) apply(light, dark, ours scheme, wrong *Mistakes) string {
	before := len(*wrong)
	read := func(key, s string, or colour) colour {
		if s == "" {
			return or
		}
		c, err := parseColour(s)
		if err != nil {
			wrong.add(key+g.suffix, "%s", err)
		}
		return c
	}
	accent, paper, ink := read("accent", g.accent, ours["accent"]), read("background", g.background, ours["paper"]), read("text", g.text, ours["ink"])
	if len(*wrong) > before {
		return ""
	}
	like, name, card := light, "light", paper.mix(white, 0.75)
	if contrast(ink, black) > contrast(paper, black) { // light text on something darker
		like, name, card = dark, "dark", paper.mix(white, 0.05)
	}
	g.judge(ink, paper, card, wrong)
	onAccent := white
	if contrast(white, accent) < leastContrast {
		onAccent = black // one of the two always is enough
	}
	var css strings.Builder
	fmt.Fprintf(&css, "color-scheme: %s;\n", name)
	for _, v := range []struct {
		name string
		c    colour
	}{
		{"ink", ink}, {"soft", paper.mix(ink, 0.65).readable(ink, paper, card)}, {"paper", paper}, {"card", card},
		{"edge", paper.mix(ink, 0.2)}, {"accent", accent}, {"on-accent", onAccent}, {"accent-ink", accent.readable(ink, paper, card)},
		{"warn", like["warn"]}, {"warn-bg", like["warn-bg"]}, {"bad", like["bad"].readable(ink, paper, card)},
	} {
		fmt.Fprintf(&css, "--%s: %s;\n", v.name, v.c)
	}
	return css.String()
}

// judge says where text could not be read: on the page, and on the panels, which
// are a little lighter.
func (g given) judge(ink, paper, card colour, wrong *Mistakes) {
	key := "text" + g.suffix
	if g.text == "" {
		key = "background" + g.suffix
	}
	for _, on := range []struct {
		what string
		c    colour
	}{{"the background", paper}, {"the panels, which are a little lighter than the background:", card}} {
		if ratio := contrast(ink, on.c); ratio < leastContrast {
			wrong.add(key, "text %s on %s %s has a contrast of %.2f, and at least %.1f is needed", ink, on.what, on.c, math.Floor(ratio*100)/100, leastContrast)
			return
		}
	}
}
