package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each key shows where a visitor sees it.
func TestPageSettingsAreWired(t *testing.T) {
	t.Parallel()
	shop := serveEmbedded(t, "SLUICE_PAGES_NAME=Tea House", "SLUICE_PAGES_SHOP=https://tea.example/cup", "SLUICE_PAGES_CURRENCY=KRW",
		"SLUICE_PAGES_LOGO=logo.svg", "SLUICE_PAGES_FOLDER=../../configs/pages-example",
		"SLUICE_PAGES_ACCENT=#7a1f5c", "SLUICE_PAGES_ACCENT_DARK=#ff99cc", "SLUICE_PAGES_BACKGROUND=#fffaf0", "SLUICE_PAGES_BACKGROUND_DARK=#101010",
		"SLUICE_PAGES_TEXT=#221111", "SLUICE_PAGES_TEXT_DARK=#ffeeee")
	page := get(t, shop.public+"/wait")
	for _, want := range []string{"<strong>Tea House</strong>", "https://tea.example/cup", "KRW", "/own/logo.svg"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s: %s", want, page)
		}
	}
	brand := get(t, shop.public+"/assets/brand.css")
	light, dark, _ := strings.Cut(brand, "@media")
	for _, want := range []string{"--accent: #7a1f5c", "--paper: #fffaf0", "--ink: #221111"} {
		if !strings.Contains(light, want) {
			t.Errorf("light lacks %s: %s", want, light)
		}
	}
	for _, want := range []string{"--accent: #ff99cc", "--paper: #101010", "--ink: #ffeeee"} {
		if !strings.Contains(dark, want) {
			t.Errorf("dark lacks %s: %s", want, dark)
		}
	}
}

func get(t *testing.T, address string) string {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", address, res.StatusCode, err)
	}
	return string(body)
}

// What the pages find wrong is a mistake of the configuration, with the key's name,
// beside all others.
func TestPageMistakes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "wait.html"), []byte("{{.Nosuch}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(environ ...string) (string, int) {
		t.Helper()
		code, out, errs := command(t, environ, "check-config")
		return out + errs, code
	}
	out, code := check(
		"SLUICE_PAGES_TEXT=#777777", "SLUICE_PAGES_BACKGROUND=#ffffff", "SLUICE_PAGES_ACCENT=red", "SLUICE_PAGES_LOGO=logo.svg",
		"SLUICE_PAGES_SHOP=shop.example", "SLUICE_PAGES_FOLDER="+dir, "SLUICE_LINE_TICK=1h")
	if code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{
		"pages.text: text #777777 on the background #ffffff has a contrast of 4.47", `pages.accent = "red" (SLUICE_PAGES_ACCENT): must be a colour`,
		"pages.logo: logo.svg is not a file", "pages.shop: must be an http", "pages.folder: wait.html: ", "line.tick",
	} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is not said once: %s", want, out)
		}
	}
	// Nor does a process start with it.
	if code, _, errs := command(t, []string{"SLUICE_PAGES_FOLDER=" + dir}, "serve"); code != exitUsage || !strings.Contains(errs, "pages.folder: wait.html: ") {
		t.Errorf("serve: exit code %d: %s", code, errs)
	}
	out, code = check("SLUICE_PAGES_FOLDER=../../configs/pages-example", "SLUICE_PAGES_LOGO=logo.svg", "SLUICE_PAGES_NAME=Tea House")
	if code != 0 || !strings.Contains(out, "name: Tea House") {
		t.Errorf("exit code %d: %s", code, out)
	}
	// An order process serves no pages.
	if out, code = check("SLUICE_PAGES_LOGO=logo.svg", "SLUICE_ROLE=orders", "SLUICE_REDIS=redis://127.0.0.1:1", "SLUICE_SECRET="+strings.Repeat("x", 32)); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}
}
