package pages

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// Options are what a shop changes. The zero value is the demo's.
type Options struct {
	// Name is shown on top of the visitors' pages; empty is what the texts say.
	Name string
	// Shop is where visitors come from, and go on to when it is their turn: an http(s)
	// address, or a path of this server; empty is "/", the demo shop.
	Shop string
	// Currency is the ISO 4217 code of what the demo shop's prices are in; empty is EUR.
	Currency string
	// Logo is a picture: a file in Folder, or an http(s) address; empty is ours.
	Logo string
	// Colours as #rrggbb, for light and for dark; empty is ours, and without
	// AccentDark that of Accent.
	Accent, Background, Text             string
	AccentDark, BackgroundDark, TextDark string
	// Folder holds what is the shop's own: wait.html, texts/LANGUAGE.json, and files
	// to be served below /assets/VERSION/own/. It is read once. Empty is none.
	Folder string
}

// Mistake is one thing that is wrong with the options.
type Mistake struct {
	Key  string // of the configuration, below "pages": "accent_dark"
	Rule string // what must hold, or what is wrong; with the file's name in "folder"
}

// Mistakes are all that is wrong with the options.
type Mistakes []Mistake

// Error lists the mistakes, one a line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = "pages." + mistake.Key + ": " + mistake.Rule
	}
	return strings.Join(lines, "\n")
}

func (m *Mistakes) add(key, format string, args ...any) {
	*m = append(*m, Mistake{key, fmt.Sprintf(format, args...)})
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// check reports what can be judged by the options alone; colours and the folder
// are judged where they are read.
func (o Options) check(wrong *Mistakes) {
	if o.Shop != "" {
		if err := CheckShop(o.Shop); err != nil {
			wrong.add("shop", "%s", err)
		}
	}
	if o.Currency != "" && !currency.MatchString(o.Currency) {
		wrong.add("currency", "must be three capital letters, such as EUR")
	}
	if o.Logo != "" && !isAddress(o.Logo) && o.Folder == "" {
		wrong.add("logo", "must be an http:// or https:// address, or a file in pages.folder, which is not set")
	}
}

// CheckShop reports what is wrong with the address of a shop.
func CheckShop(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Fragment != "", strings.ContainsAny(s, " \t\r\n\\;,"):
	case isAddress(s) && u.Hostname() != "" && u.User == nil, u.Scheme == "" && u.Host == "" && strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//"):
		return nil
	}
	return errors.New("must be an http:// or https:// address without user and fragment, or a path such as /shop")
}

func isAddress(s string) bool {
	return strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://")
}

// origin is the origin of the shop, where it is another server's address; else empty.
func (o Options) origin() string {
	if u, err := url.Parse(o.Shop); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	return ""
}

// logo is the address of the logo.
func (o Options) logo(assets string) string {
	switch {
	case o.Logo == "":
		return assets + "/icon.svg"
	case isAddress(o.Logo):
		return o.Logo
	}
	return assets + "/" + ownFolder + path.Clean(o.Logo)
}
