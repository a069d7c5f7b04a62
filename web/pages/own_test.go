package pages

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

const exampleFolder = "../../configs/pages-example"

// folder makes one with these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// wrongs are the mistakes that options have.
func wrongs(t *testing.T, o Options) []string {
	t.Helper()
	_, err := New(o)
	found, ok := errors.AsType[Mistakes](err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	var all []string
	for _, m := range found {
		all = append(all, m.Key+": "+m.Rule)
	}
	return all
}

// The example that the documentation leads to is one that works.
func TestExampleFolder(t *testing.T) {
	p, err := New(Options{Name: "Tea House", Shop: "https://tea.example", Logo: "logo.svg", Accent: "#7a1f5c", Folder: exampleFolder})
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Shell("wait", "default")
	if err != nil {
		t.Fatal(err)
	}
	page := string(f.Body)
	for _, want := range []string{
		`<strong>Tea House</strong>`, `src="/assets/` + p.version + `/own/logo.svg"`, `href="/assets/` + p.version + `/own/shop.css"`, "/brand.css",
		`&#34;de&#34;:&#34;Deutsch&#34;`, `content="0; url=/wait/plain"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s: %s", want, page)
		}
	}
	for name, kind := range map[string]string{"own/logo.svg": "image/svg+xml", "own/shop.css": "text/css; charset=utf-8", "brand.css": "text/css; charset=utf-8"} {
		if f, naming, ok := p.Asset(p.version + "/" + name); !ok || naming != Fixed || f.Type != kind || len(f.Body) == 0 {
			t.Errorf("%s: %v %v %q", name, ok, naming, f.Type)
		}
	}
	texts, _, _ := p.Asset("texts/wait.de.json")
	for _, want := range []string{`"wait.title":"Sie sind in der Warteschlange"`, `"wait.back":"Back to the shop"`, `"lang":"de"`, `"wait.lead":"Thank you`} {
		if !bytes.Contains(texts.Body, []byte(want)) {
			t.Errorf("German lacks %s: %s", want, texts.Body)
		}
	}
	if lacking := p.Lacking(); !slices.Contains(lacking["de"], "wait.back") || slices.Contains(lacking["de"], "wait.title") || lacking["ko"] != nil || lacking["en"] != nil {
		t.Errorf("texts that are missing: %v", lacking)
	}
	if got := p.Choose("", "fr, de-AT;q=0.5"); got != "de" {
		t.Errorf("an Austrian is answered in %s", got)
	}
}

// All that is wrong is told at once, each with its file and what must hold.
func TestMistakesOfAFolder(t *testing.T) {
	good, err := os.ReadFile(filepath.Join(exampleFolder, "wait.html"))
	if err != nil {
		t.Fatal(err)
	}
	outside := folder(t, map[string]string{"secret.css": "x"})
	dir := folder(t, map[string]string{
		"wait.html":       strings.ReplaceAll(string(good), `id="enter"`, `onclick="x()" style="color:red"`) + `<script>alert(1)</script>`,
		"texts/fr.json":   `{"dir":"up","wait":{"titel":"x","joining":"","admittedLead":"sans {m}"}}`,
		"texts/de.json":   `{"name":"Deutsch","dir":"ltr","sale":{}}`,
		"texts/nl.json":   `{"name":"Nederlands","name":"x","dir":"ltr"}`,
		"texts/1.json":    `{}`,
		"texts/it.json":   `{,`,
		"texts/es.json":   `{"wait":{"title":1}}`,
		"notes.txt":       "x",
		"other.html":      "x",
		"data.json":       "{}",
		"a b.css":         "x",
		"a/b/c/d/e/f.css": "x",
		".git/config":     "left out",
	})
	for link, to := range map[string]string{"away.css": filepath.Join(outside, "secret.css"), "up.css": "../../etc/passwd", "inside.css": "a b.css"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.css"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := wrongs(t, Options{Folder: dir, Logo: "logo.png", Shop: "javascript:alert(1)", Currency: "euro", Accent: "red", Text: "#777777", Background: "#ffffff"})
	for _, want := range []string{
		`wait.html: the element with the id "enter" is missing`, `wait.html: the attribute "onclick=" would do nothing`, `wait.html: what is inside of "<script>a" would not run`,
		"texts/fr.json: wait.titel is not the name of a text", "texts/fr.json: wait.joining is empty", "texts/fr.json: wait.admittedLead must have the values {n}",
		"texts/fr.json: name must be set", "texts/fr.json: dir must be", "texts/de.json: /sale is not known", "texts/nl.json: /name is there twice", "texts/it.json: is not well-formed JSON: see byte 1", "texts/es.json: /wait/title is of the wrong type", "texts/1.json: must be named by a language",
		"notes.txt: is neither", "other.html: is neither", "data.json: is neither", "a b.css: must be named", "a/b/c/d/e: is too deep",
		"away.css: cannot be read", "up.css: cannot be read", "pipe.css: is no file",
		"logo: logo.png is not a file", "shop: must be an http", "currency: must be three", "accent: must be a colour",
	} {
		if !slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, want) }) {
			t.Errorf("nobody says %q", want)
		}
	}
	for _, m := range got {
		if strings.Contains(m, ".git") || strings.Contains(m, "inside.css") {
			t.Errorf("told: %s", m)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

func TestTemplatesThatFail(t *testing.T) {
	for body, want := range map[string]string{
		`{{.Nosuch}}`:     "can't evaluate field Nosuch",
		`{{if .Name}}`:    "unexpected EOF",
		`{{.Name.First}}`: "can't evaluate field First",
		`<html>`:          `<html data-page="wait"> is missing`,
	} {
		got := wrongs(t, Options{Folder: folder(t, map[string]string{"wait.html": body})})
		if !slices.ContainsFunc(got, func(m string) bool { return strings.HasPrefix(m, "folder: wait.html: ") && strings.Contains(m, want) }) {
			t.Errorf("%s: %q", body, got)
		}
	}
}

func TestAFolderHasBounds(t *testing.T) {
	large := strings.Repeat("x", maxOwn/2+1)
	if got := wrongs(t, Options{Folder: folder(t, map[string]string{"a.css": large, "b.css": large, "c.css": "x"})}); len(got) != 1 || !strings.Contains(got[0], "b.css: is too large") {
		t.Errorf("%.200q", got)
	}
	many := make(map[string]string)
	for i := range maxOwnFiles + 1 {
		many[fmt.Sprintf("f%d.css", i)] = ""
	}
	if got := wrongs(t, Options{Folder: folder(t, many)}); len(got) != 1 || !strings.Contains(got[0], "is one file too many") {
		t.Errorf("%.200q", got)
	}
	if got := wrongs(t, Options{Folder: filepath.Join(t.TempDir(), "nosuch")}); len(got) != 1 || !strings.Contains(got[0], "cannot be opened") {
		t.Errorf("%q", got)
	}
	loop := t.TempDir()
	if err := os.Symlink(".", filepath.Join(loop, "loop")); err != nil {
		t.Fatal(err)
	}
	if got := wrongs(t, Options{Folder: loop}); len(got) != 1 || !strings.Contains(got[0], "is too deep") {
		t.Errorf("%q", got)
	}
}
