package web

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofiber/fiber/v2"
	"go.yaml.in/yaml/v3"
)

// document is docs/openapi.yaml as far as the tests hold it against the server.
type document struct {
	Paths      map[string]pathItem
	Components struct {
		Responses map[string]response
	}
}

type pathItem struct {
	Servers                       []any
	Get, Post, Put, Patch, Delete *operation
}

func (p pathItem) operations() map[string]*operation {
	all := map[string]*operation{"GET": p.Get, "POST": p.Post, "PUT": p.Put, "PATCH": p.Patch, "DELETE": p.Delete}
	maps.DeleteFunc(all, func(_ string, o *operation) bool { return o == nil })
	return all
}

type operation struct {
	OperationID string              `yaml:"operationId"`
	Responses   map[string]response // by status, or "default"
}

type response struct {
	Ref     string `yaml:"$ref"`
	Content map[string]struct {
		Schema struct {
			Properties struct {
				Code struct{ Enum []string }
			}
		}
	}
}

var readDocument = sync.OnceValues(func() (d document, err error) {
	raw, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		return d, err
	}
	return d, yaml.Unmarshal(raw, &d)
})

// codes are those of the problems that a response may be.
func (d document) codes(r response) []string {
	if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
		r = d.Components.Responses[name]
	}
	return r.Content["application/problem+json"].Schema.Properties.Code.Enum
}

// The document and the routes must name the same operations, each on its
// listener. HEAD comes with every GET; assets are on both listeners.
func TestRoutesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	documented := make(map[string]bool)
	for path, item := range must(readDocument())(t).Paths {
		if strings.HasPrefix(path, "/assets/") {
			continue
		}
		listener := "public "
		if item.Servers != nil {
			listener = "admin "
		}
		for method := range item.operations() {
			documented[listener+method+" "+path] = true
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
	sameSet(t, "operation", served, documented)
	if len(served) < 20 {
		t.Errorf("only %d routes", len(served))
	}
}

// The codes of the problem table are those that the document gives to some
// response, each of them and no other.
func TestCodesAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	served := make(map[string]bool)
	for _, p := range append(slices.Clone(problems), internal) {
		served[p.code] = true
	}
	d := must(readDocument())(t)
	documented := make(map[string]bool)
	for _, item := range d.Paths {
		for _, o := range item.operations() {
			for _, r := range o.Responses {
				for _, code := range d.codes(r) {
					documented[code] = true
				}
			}
		}
	}
	sameSet(t, "code", served, documented)
}

func sameSet(t *testing.T, what string, served, documented map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(served)) {
		if !documented[name] {
			t.Errorf("the %s %s is served but not in docs/openapi.yaml", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !served[name] {
			t.Errorf("the %s %s is in docs/openapi.yaml but not served", what, name)
		}
	}
}

// keepsTheDocument holds an answer against the document: an operation answers
// with a status that is listed for it, and a problem with a code that is listed
// for that status, or for any request. Every request of the tests comes by here.
func keepsTheDocument(a answered, req *http.Request) {
	a.t.Helper()
	d := must(readDocument())(a.t)
	o := d.find(req)
	if o == nil {
		return // no operation: 404, 405, or a route of the test's own
	}
	var p struct{ Code string }
	if a.header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal([]byte(a.body), &p); err != nil {
			a.t.Errorf("%s: %v", a.asked, err)
		}
	}
	listed, ok := o.Responses[strconv.Itoa(a.status)]
	seen.Store(fmt.Sprint(o.OperationID, " ", a.status), true)
	switch {
	case p.Code == "" && !ok:
		a.t.Errorf("%s: status %d is not in docs/openapi.yaml", a.asked, a.status)
	case p.Code != "" && !slices.Contains(slices.Concat(d.codes(listed), d.codes(o.Responses["default"])), p.Code):
		a.t.Errorf("%s: status %d with the code %s is not in docs/openapi.yaml", a.asked, a.status, p.Code)
	}
}

var seen sync.Map // the operations and statuses that the tests met

// wholeRun fails, after all tests, where the document lists a status that no
// test has seen.
type wholeRun struct{ *testing.M }

func (w wholeRun) Run() int {
	failed := w.M.Run()
	d, err := readDocument()
	for _, part := range []string{"run", "skip", "list"} {
		if failed != 0 || err != nil || flag.Lookup("test."+part).Value.String() != "" {
			return failed
		}
	}
	for _, item := range d.Paths {
		for _, o := range item.operations() {
			for status := range o.Responses {
				if _, ok := seen.Load(o.OperationID + " " + status); !ok && status != "default" {
					fmt.Printf("no test has seen status %s of the operation %s in docs/openapi.yaml\n", status, o.OperationID)
					failed = 1
				}
			}
		}
	}
	return failed
}

// find is the operation that a request is for, whichever the listener; where
// two paths match, the one without a parameter.
func (d document) find(req *http.Request) *operation {
	var found *operation
	path := strings.Split(req.URL.EscapedPath(), "/")
	for template, item := range d.Paths {
		parts, parameters := strings.Split(template, "/"), false
		if len(parts) != len(path) || !slices.EqualFunc(parts, path, func(part, is string) bool {
			parameter := strings.HasPrefix(part, "{")
			parameters = parameters || parameter
			return parameter && is != "" || part == is
		}) {
			continue
		}
		if o := item.operations()[req.Method]; o != nil && (found == nil || !parameters) {
			found = o
		}
	}
	return found
}
