package web

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"go.yaml.in/yaml/v3"
)

// The document and the routes must name the same operations, each on its
// listener. HEAD comes with every GET; assets are on both listeners.
func TestRoutesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]any `yaml:"paths"`
	}
	if err := yaml.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for path, item := range document.Paths {
		if strings.HasPrefix(path, "/assets/") {
			continue
		}
		listener := "public "
		if _, own := item["servers"]; own {
			listener = "admin "
		}
		for method := range item {
			if slices.Contains([]string{"get", "post", "patch", "put", "delete"}, method) {
				documented[listener+strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	f := newFixture(t, setup{orders: withOrders()})
	served := make(map[string]bool)
	parameter := regexp.MustCompile(`:(\w+)`)
	for listener, app := range map[string]*fiber.App{"public ": f.server.public, "admin ": f.server.admin} {
		for _, route := range app.GetRoutes(true) {
			if route.Method != fiber.MethodHead && !strings.HasPrefix(route.Path, "/assets/") {
				served[listener+route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}")] = true
			}
		}
	}
	for _, route := range slices.Sorted(maps.Keys(served)) {
		if !documented[route] {
			t.Errorf("%s is served but not in docs/openapi.yaml", route)
		}
	}
	for _, route := range slices.Sorted(maps.Keys(documented)) {
		if !served[route] {
			t.Errorf("%s is in docs/openapi.yaml but not served", route)
		}
	}
	if len(served) < 20 {
		t.Errorf("only %d routes", len(served))
	}
}

// Every code of the problem table is named by the document.
func TestCodesAreInTheDocument(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(slices.Clone(problems), internal) {
		if !strings.Contains(string(raw), p.code) {
			t.Errorf("%s is not in docs/openapi.yaml", p.code)
		}
	}
}
