package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// contract is docs/openapi.yaml as the fuzzer needs it: what may be asked, and what
// may be answered.
type contract struct {
	operations []*operation
	codes      map[string]bool // of the problems of any operation
}

// operation is one method of one path.
type operation struct {
	name, method, path string
	admin, both        bool // on the operator's listener; on both
	query              bool // takes ?line=
	body               node // schema of the body; nil takes none
	answers            map[int]outcome
	always             []string // codes that any request can get
}

// outcome is what an operation may say with one status.
type outcome struct {
	codes []string // of a problem
	types []string // media types of what is no problem
}

// node is a part of the document.
type node map[string]any

func readContract(file string) (*contract, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var root node
	if err := yaml.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	c := &contract{codes: make(map[string]bool)}
	paths := root.at("paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) { // so that a seed means the same every time
		item := paths.at(path)
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			if said := item.at(method); said != nil {
				o := newOperation(root, path, method, item, said)
				c.operations = append(c.operations, o)
				for _, a := range o.answers {
					for _, code := range a.codes {
						c.codes[code] = true
					}
				}
				for _, code := range o.always {
					c.codes[code] = true
				}
			}
		}
	}
	delete(c.codes, "internal_error") // documented as a mistake of ours: the one that is looked for
	return c, nil
}

func newOperation(root node, path, method string, item, said node) *operation {
	o := &operation{
		name: fmt.Sprint(said["operationId"]), method: strings.ToUpper(method), path: path, answers: make(map[int]outcome),
		both: strings.HasPrefix(path, "/assets/"), admin: item["servers"] != nil,
	}
	for _, p := range said.list("parameters") {
		p = root.resolve(p)
		o.query = o.query || p["in"] == "query" && p["name"] == "line"
	}
	o.body = root.expand(root.resolve(said.at("requestBody")).at("content").at("application/json").at("schema"), 0)
	for status, response := range said.at("responses") {
		content := root.resolve(asNode(response)).at("content")
		var out outcome
		for _, kind := range slices.Sorted(maps.Keys(content)) {
			if kind == "application/problem+json" {
				for _, code := range content.at(kind).at("schema").at("properties").at("code").values("enum") {
					out.codes = append(out.codes, fmt.Sprint(code))
				}
			} else {
				out.types = append(out.types, kind)
			}
		}
		if n, err := strconv.Atoi(status); err == nil {
			o.answers[n] = out
		} else {
			o.always = out.codes
		}
	}
	return o
}

func asNode(v any) node {
	switch v := v.(type) {
	case node:
		return v
	case map[string]any:
		return v
	}
	return nil
}

func (n node) at(key string) node { return asNode(n[key]) }

func (n node) values(key string) []any {
	v, _ := n[key].([]any)
	return v
}

func (n node) list(key string) (all []node) {
	for _, v := range n.values(key) {
		all = append(all, asNode(v))
	}
	return all
}

// resolve follows a reference; what stands beside it is kept.
func (n node) resolve(part node) node {
	ref, ok := part["$ref"].(string)
	if !ok {
		return part
	}
	found := n
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		found = found.at(name)
	}
	out := maps.Clone(n.resolve(found))
	for key, value := range part {
		if key != "$ref" {
			out[key] = value
		}
	}
	return out
}

// expand resolves a schema with all that is in it.
func (n node) expand(schema node, depth int) node {
	if schema == nil || depth > 8 {
		return nil
	}
	out := maps.Clone(n.resolve(schema))
	if items := out.at("items"); items != nil {
		out["items"] = n.expand(items, depth+1)
	}
	if properties := out.at("properties"); properties != nil {
		expanded := node{}
		for name := range properties {
			expanded[name] = n.expand(properties.at(name), depth+1)
		}
		out["properties"] = expanded
	}
	return out
}

// got is one answer.
type got struct {
	status int
	header http.Header
	body   []byte
	head   bool // to HEAD: the body is left out
}

type problem struct {
	Type, Title, Detail, Code string
	Status                    int
	RetryAfterMS              int64 `json:"retry_after_ms"`
}

// judge says what is wrong with an answer; empty is nothing. o is what was asked for,
// nil if the request was bent so far that only the rules for all answers hold.
func (c *contract) judge(o *operation, a got) string {
	notReady := o != nil && o.name == "readyz" && a.status == http.StatusServiceUnavailable // says what is missing
	switch {
	case a.header.Get("X-Request-Id") == "":
		return "no request id"
	case a.header.Get("X-Content-Type-Options") != "nosniff":
		return "may be sniffed"
	case a.status == http.StatusNoContent || a.status == http.StatusNotModified:
		if len(a.body) > 0 {
			return "a body where none may be"
		}
	case a.status >= 400 && !notReady:
		return c.judgeProblem(o, a)
	}
	if o == nil {
		if a.status < 200 || a.status >= 500 {
			return "a status that nothing has"
		}
		return ""
	}
	out, ok := o.answers[a.status]
	if !ok {
		return "a status that the document does not give this operation"
	}
	kind, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if len(out.types) > 0 && (err != nil || !slices.Contains(out.types, kind)) {
		return fmt.Sprintf("content type %q, documented are %q", a.header.Get("Content-Type"), out.types)
	}
	if kind == "application/json" && !a.head && !json.Valid(a.body) {
		return "the body is no JSON"
	}
	return ""
}

func (c *contract) judgeProblem(o *operation, a got) string {
	// The page without scripts says itself what is wrong, where the document has it so.
	page := a.header.Get("Content-Type") == "text/html; charset=utf-8" &&
		(o == nil || slices.Contains(o.answers[a.status].types, "text/html"))
	if !page && a.header.Get("Content-Type") != "application/problem+json" {
		return fmt.Sprintf("an error that is no problem: content type %q", a.header.Get("Content-Type"))
	}
	wait := a.header.Get("Retry-After")
	switch {
	case (a.status == 503 || a.status == 429 || a.status == 425) != (wait != ""):
		return "Retry-After"
	case (a.status == 405) != (a.header.Get("Allow") != ""):
		return "Allow"
	case (a.status == 401) != (a.header.Get("WWW-Authenticate") != ""):
		return "WWW-Authenticate"
	case a.header.Get("Cache-Control") != "no-store":
		return "a problem that may be cached"
	case a.status >= 500 && a.status != 503:
		return "a 5xx that is not 503"
	case a.head || page:
		return ""
	}
	var p problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		return fmt.Sprintf("a problem that cannot be read: %v", err)
	}
	switch {
	case p.Type != "about:blank" || p.Title == "" || p.Detail == "" || p.Status != a.status:
		return "a problem of another form"
	case (p.RetryAfterMS > 0) != (wait != ""):
		return "retry_after_ms without Retry-After, or the other way round"
	case o == nil && !c.codes[p.Code]:
		return "a code that is nowhere in the document"
	case o != nil && !slices.Contains(o.answers[a.status].codes, p.Code) && !slices.Contains(o.always, p.Code):
		return "a code that the document does not give this operation with this status"
	}
	return ""
}
