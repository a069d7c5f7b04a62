package pages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// textsOf are the texts of a language, by section and key.
func textsOf(t *testing.T, code string) map[string]string {
	t.Helper()
	body, err := os.ReadFile("texts/" + code + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var l language
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatal(err)
	}
	texts := make(map[string]string)
	for section, of := range map[string]map[string]string{"page": l.Page, "plain": l.Plain, "time": l.Time, "wait": l.Wait, "shop": l.Shop, "admin": l.Admin} {
		add(texts, section, of)
	}
	return texts
}

// Every text that a page or script asks for is there, and none is left over.
func TestTexts(t *testing.T) {
	there := textsOf(t, "en")
	used := make(map[string]bool)
	var all strings.Builder
	sources, err := filepath.Glob("assets/*.*")
	if err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Glob("plain.go") // the page without scripts
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(sources, program...) {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(body)
	}
	for _, m := range regexp.MustCompile(`['"]((?:page|plain|shop|wait|admin)\.\w+)['"]`).FindAllStringSubmatch(all.String(), -1) {
		if used[m[1]] = true; there[m[1]] == "" {
			t.Errorf("the text %s is missing", m[1])
		}
	}
	// Made of a state at run time.
	for _, state := range []string{"open", "paused", "scheduled", "closed", "degraded"} {
		if used["admin."+state] = true; there["admin."+state] == "" {
			t.Errorf("the text admin.%s is missing", state)
		}
	}
	for key := range there {
		if !used[key] && !strings.HasPrefix(key, "time.") {
			t.Errorf("nobody says %s", key)
		}
	}
}

// What visitors read is there in every language, with the same values filled in.
func TestTranslations(t *testing.T) {
	values := func(text string) []string {
		found := regexp.MustCompile(`\{\w+\}`).FindAllString(text, -1)
		slices.Sort(found)
		return found
	}
	english, korean := textsOf(t, "en"), textsOf(t, "ko")
	for key, text := range english {
		if strings.HasPrefix(key, "admin.") {
			continue
		}
		translated, ok := korean[key]
		if !ok || !slices.Equal(values(text), values(translated)) || !regexp.MustCompile(`[가-힣]`).MatchString(translated) {
			t.Errorf("%s is %q and %q", key, text, translated)
		}
	}
	for key := range korean {
		if english[key] == "" {
			t.Errorf("%s is there in Korean only", key)
		}
	}
	if len(korean) < 60 {
		t.Errorf("only %d texts", len(korean))
	}
}
