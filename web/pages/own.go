package pages

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of a shop's folder: all of it is kept in memory.
const (
	maxOwn      = 5 << 20 // bytes, together
	maxOwnFiles = 500
	maxOwnDepth = 4
)

const (
	// ownFolder is where a shop's own files are, below the assets.
	ownFolder   = "own/"
	ownTemplate = "wait.html"
	ownTexts    = "texts"
)

var (
	ownName  = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)
	langCode = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
)

// own is what a shop's folder holds.
type own struct {
	template []byte            // nil without one
	texts    map[string][]byte // by language
	files    map[string][]byte // by path
}

// readOwn reads a folder, and nothing outside of it: links that lead elsewhere are
// mistakes. Names that begin with a dot are left out.
func readOwn(folder string, wrong *Mistakes) own {
	o := own{texts: make(map[string][]byte), files: make(map[string][]byte)}
	if folder == "" {
		return o
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		wrong.add("folder", "cannot be opened: %s", reason(err))
		return o
	}
	defer func() { _ = root.Close() }()
	w := &walk{root: root, into: &o, wrong: wrong}
	w.folder(".", 0)
	return o
}

// reason leaves out the path, which the message has already.
func reason(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	return err
}

// walk goes through a folder.
type walk struct {
	root        *os.Root
	into        *own
	wrong       *Mistakes
	bytes, seen int
	full        bool // nothing more is read
}

func (w *walk) add(name, format string, args ...any) {
	w.wrong.add("folder", "%s: %s", name, fmt.Sprintf(format, args...))
}

func (w *walk) folder(name string, depth int) {
	f, err := w.root.Open(name)
	if err != nil {
		w.add(name, "cannot be read: %s", reason(err))
		return
	}
	entries, err := f.Readdirnames(maxOwnFiles + 1)
	_ = f.Close() // it was read only
	if err != nil && !errors.Is(err, io.EOF) {
		w.add(name, "cannot be read: %s", reason(err))
		return
	}
	slices.Sort(entries)
	for _, entry := range entries {
		if strings.HasPrefix(entry, ".") {
			continue
		}
		if w.seen++; w.seen > maxOwnFiles && !w.full {
			w.full = true
			w.add(path.Join(name, entry), "is one file too many: there may be %d", maxOwnFiles)
		}
		if w.full {
			return
		}
		w.entry(path.Join(name, entry), entry, depth)
	}
}

func (w *walk) entry(name, last string, depth int) {
	info, err := w.root.Stat(name) // of what a link leads to
	switch {
	case err != nil:
		w.add(name, "cannot be read: %s", reason(err))
	case !ownName.MatchString(last):
		w.add(name, "must be named with letters, digits, dots, - and _ alone")
	case info.IsDir() && depth == maxOwnDepth:
		w.add(name, "is too deep: there may be %d folders in one another", maxOwnDepth)
	case info.IsDir():
		w.folder(name, depth+1)
	case !info.Mode().IsRegular():
		w.add(name, "is no file")
	default:
		w.file(name)
	}
}

func (w *walk) file(name string) {
	into, file := w.into.files, name
	kind := path.Ext(name)
	switch dir, base := path.Split(name); {
	case name == ownTemplate:
	case dir == ownTexts+"/" && kind == ".json":
		into, name = w.into.texts, strings.TrimSuffix(base, kind)
		if !langCode.MatchString(name) {
			w.add(ownTexts+"/"+base, "must be named by a language, such as de.json or pt-BR.json")
			return
		}
	case kind == ".html" || kind == ".json" || kinds[kind] == "":
		w.add(name, "is neither %s nor %s/LANGUAGE.json, nor a file that is served: .css .js .svg .png .jpg .jpeg .webp .woff2", ownTemplate, ownTexts)
		return
	}
	body, err := w.read(file)
	switch {
	case err != nil:
		w.add(file, "cannot be read: %s", reason(err))
	case len(body) > maxOwn-w.bytes:
		w.full = true
		w.add(file, "is too large: all files together may have %d MB", maxOwn>>20)
	case file == ownTemplate:
		w.into.template = body
	default:
		into[name] = body
	}
	w.bytes += len(body)
}

// read reads a file, and one byte more than there may be at most.
func (w *walk) read(name string) ([]byte, error) {
	f, err := w.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, int64(maxOwn-w.bytes)+1))
}

// ownLanguage is a shop's file of texts; it is laid over ours key by key.
type ownLanguage struct {
	Name  string            `json:"name"`
	Dir   string            `json:"dir"`
	Page  map[string]string `json:"page"`
	Time  map[string]string `json:"time"`
	Wait  map[string]string `json:"wait"`
	Shop  map[string]string `json:"shop"`
	Plain map[string]string `json:"plain"`
}

// lay puts a shop's texts over those of a language, which may be a new one.
func (l language) lay(code string, body []byte, english language, wrong *Mistakes) language {
	add := func(format string, args ...any) {
		wrong.add("folder", "%s/%s.json: %s", ownTexts, code, fmt.Sprintf(format, args...))
	}
	var over ownLanguage
	if err := json.Unmarshal(body, &over, json.RejectUnknownMembers(true)); err != nil {
		add("%s", malformed(err))
		return l
	}
	if over.Name != "" {
		l.Name = over.Name
	}
	if over.Dir != "" {
		l.Dir = over.Dir
	}
	if l.Name == "" {
		add("name must be set: what the language is called in itself")
	}
	if l.Dir != "ltr" && l.Dir != "rtl" {
		add("dir must be ltr or rtl")
	}
	for _, s := range []struct {
		name          string
		ours, english map[string]string
		over          map[string]string
		into          *map[string]string
	}{
		{"page", l.Page, english.Page, over.Page, &l.Page}, {"time", l.Time, english.Time, over.Time, &l.Time},
		{"wait", l.Wait, english.Wait, over.Wait, &l.Wait}, {"shop", l.Shop, english.Shop, over.Shop, &l.Shop},
		{"plain", l.Plain, english.Plain, over.Plain, &l.Plain},
	} {
		merged := maps.Clone(s.ours)
		if merged == nil {
			merged = make(map[string]string)
		}
		for _, key := range slices.Sorted(maps.Keys(s.over)) {
			text := s.over[key]
			switch original, known := s.english[key]; {
			case !known:
				add("%s.%s is not the name of a text", s.name, key)
			case strings.TrimSpace(text) == "":
				add("%s.%s is empty", s.name, key)
			case !slices.Equal(values(text), values(original)):
				add("%s.%s must have the values %s, as in %q", s.name, key, strings.Join(values(original), " "), original)
			default:
				merged[key] = text
			}
		}
		*s.into = merged
	}
	return l
}

// malformed says what is wrong with a file of texts. The library's own words name Go
// types.
func malformed(err error) string {
	syntax, semantic := (*jsontext.SyntacticError)(nil), (*json.SemanticError)(nil)
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax):
		return fmt.Sprintf("%s is there twice", syntax.JSONPointer)
	case errors.As(err, &syntax):
		return fmt.Sprintf("is not well-formed JSON: see byte %d", syntax.ByteOffset)
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		return fmt.Sprintf("%s is not known", semantic.JSONPointer)
	case errors.As(err, &semantic):
		return fmt.Sprintf("%s is of the wrong type: texts are in objects by section", semantic.JSONPointer)
	}
	return "cannot be read as JSON"
}

var valueOf = regexp.MustCompile(`\{\w+\}`)

// values are what a text has in braces, each once.
func values(text string) []string {
	found := valueOf.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// required are the elements without which nobody could use the page.
var required = []string{"title", "enter"}

var (
	tag        = regexp.MustCompile(`<[a-zA-Z][^<>]*>`)
	quoted     = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	handler    = regexp.MustCompile(`\s(on\w+|style)\s*=`)
	inlined    = regexp.MustCompile(`(?i)<style[\s>]|<script(?:\s[^>]*)?>\s*[^<\s]`)
	ofSettings = regexp.MustCompile(`<meta\s+name=["']?sluice["'\s]`)
)

// useTemplate takes a shop's template in place of ours, if it can be used.
func (p *Pages) useTemplate(body []byte, wrong *Mistakes) {
	add := func(format string, args ...any) {
		wrong.add("folder", "%s: %s", ownTemplate, fmt.Sprintf(format, args...))
	}
	t, err := template.New(ownTemplate).Parse(string(body))
	if err != nil {
		add("%s", strings.TrimPrefix(err.Error(), "template: "+ownTemplate+":"))
		return
	}
	p.templates["wait"] = t
	var filled bytes.Buffer
	if err := t.Execute(&filled, p.shell(defaultLine)); err != nil {
		add("%s", strings.TrimPrefix(err.Error(), "template: "+ownTemplate+":"))
		return
	}
	page := filled.String()
	for _, id := range required {
		if !regexp.MustCompile(`\sid=["']?` + id + `["'\s>]`).MatchString(page) {
			add("the element with the id %q is missing", id)
		}
	}
	for _, part := range []struct{ there, of string }{
		{`data-page="wait"`, `<html data-page="wait">`},
		{p.shell(defaultLine).Assets + "/wait.js", `<script type="module" src="{{.Assets}}/wait.js">`},
	} {
		if !strings.Contains(page, part.there) {
			add("%s is missing", part.of)
		}
	}
	if !ofSettings.MatchString(page) {
		add("%s is missing", `<meta name="sluice" content="{{.Settings}}">`)
	}
	if found := inlined.FindString(page); found != "" {
		add("what is inside of %q would not run: the page may have scripts and styles in files only", strings.TrimSpace(found))
	}
	for _, one := range tag.FindAllString(page, -1) {
		if found := handler.FindString(quoted.ReplaceAllString(one, `""`)); found != "" {
			add("the attribute %q would do nothing: the page may have scripts and styles in files only", strings.TrimSpace(found))
		}
	}
}
