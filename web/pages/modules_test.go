package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What a script takes from another is there: a name that is missing stops the whole page.
func TestModulesFit(t *testing.T) {
	sources, err := filepath.Glob("assets/*.js")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(body)
	}
	imports := regexp.MustCompile(`(?m)^import \{([^}]*)\} from '\./([^']+)';`)
	exports := regexp.MustCompile(`(?m)^export (?:async )?(?:function|class|const|let) (\w+)`)
	found := 0
	for _, name := range sources {
		for _, m := range imports.FindAllStringSubmatch(read(name), -1) {
			there := make(map[string]bool)
			for _, e := range exports.FindAllStringSubmatch(read(filepath.Join("assets", m[2])), -1) {
				there[e[1]] = true
			}
			for _, wanted := range strings.Split(m[1], ",") {
				wanted, _, _ = strings.Cut(strings.TrimSpace(wanted), " as ")
				if found++; wanted != "" && !there[wanted] {
					t.Errorf("%s takes %s from %s, which does not give it", name, wanted, m[2])
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d names are taken: the pattern does not fit the scripts", found)
	}
}
