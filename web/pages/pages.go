package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

//go:embed assets texts
var embedded embed.FS

// fallback is the language of whoever speaks none that is there.
const fallback = "en"

// Options are what a shop changes. The zero value is the demo's.
type Options struct {
	// Name is shown on top of each page; empty is the text "wait.name".
	Name string
	// Shop is where visitors come from, and go on to when it is their turn: an http(s)
	// address, or a path of this server; empty is "/", the demo shop.
	Shop string
	// Currency is the ISO 4217 code of what the demo shop's prices are in; empty is EUR.
	Currency string
}

// File is something to send, the same for everybody.
type File struct {
	Body []byte
	Gzip []byte // Body compressed; nil where that saves nothing
	Type string // its media type
	ETag string
}

// Pages are all files. Safe for concurrent use.
type Pages struct {
	options   Options
	version   string
	files     map[string]File // below /assets/ or /assets/VERSION/
	languages map[string]string
	shells    map[string]*template.Template
}

// shell is what the template of a page is given.
type shell struct {
	Assets   string // the path that assets are below
	Name     string // of the shop; may be empty
	Line     string // that the visitor waits in
	Settings string // JSON for the scripts
}

// settings are for the scripts: they are in the page, in the attribute "content" of the
// meta element "sluice".
type settings struct {
	Languages map[string]string `json:"languages"` // names of the languages, by code
	Shop      string            `json:"shop"`
	Currency  string            `json:"currency"`
}

// New prepares all files.
func New(o Options) (*Pages, error) {
	if o.Shop == "" {
		o.Shop = "/"
	}
	if o.Currency == "" {
		o.Currency = "EUR"
	}
	p := &Pages{options: o, files: make(map[string]File), languages: make(map[string]string), shells: make(map[string]*template.Template)}
	if err := p.readAssets(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	if err := p.readTexts(); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p.version = p.hash()
	return p, nil
}

var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json",
	".svg":  "image/svg+xml",
}

func (p *Pages) readAssets() error {
	return fs.WalkDir(embedded, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "assets/")
		if path.Ext(name) == ".html" {
			p.shells[strings.TrimSuffix(name, ".html")], err = template.New(name).Parse(string(body))
			return err
		}
		p.files[name] = newFile(body, kinds[path.Ext(name)])
		return nil
	})
}

// language is a file of texts: by section, then by key.
type language struct {
	Name  string            `json:"name"` // in the language itself
	Dir   string            `json:"dir"`  // ltr or rtl
	Page  map[string]string `json:"page"` // what every page says
	Time  map[string]string `json:"time"`
	Wait  map[string]string `json:"wait"`
	Shop  map[string]string `json:"shop"`
	Admin map[string]string `json:"admin"`
}

// readTexts makes the file texts/PAGE.LANGUAGE.json of every page and language: the
// page's texts, those of every page and of times, in English where the language has none.
func (p *Pages) readTexts() error {
	read := make(map[string]language)
	found, err := fs.Glob(embedded, "texts/*.json")
	if err != nil {
		return err
	}
	for _, name := range found {
		body, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		var l language
		if err := json.Unmarshal(body, &l); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		read[strings.TrimSuffix(path.Base(name), ".json")] = l
	}
	english := read[fallback]
	for code, l := range read {
		p.languages[code] = l.Name
		for page, sections := range map[string][2]map[string]string{
			"wait": {english.Wait, l.Wait}, "shop": {english.Shop, l.Shop}, "admin": {english.Admin, l.Admin},
		} {
			texts := map[string]string{"lang": code, "dir": l.Dir}
			if len(sections[1]) == 0 { // it is not in this language at all
				texts["lang"], texts["dir"] = fallback, english.Dir
			}
			add(texts, "page", english.Page, l.Page)
			add(texts, "time", english.Time, l.Time)
			add(texts, page, sections[0], sections[1])
			body, err := json.Marshal(texts)
			if err != nil {
				return err
			}
			p.files["texts/"+page+"."+code+".json"] = newFile(body, kinds[".json"])
		}
	}
	return nil
}

func add(texts map[string]string, section string, sources ...map[string]string) {
	for _, source := range sources {
		for key, text := range source {
			texts[section+"."+key] = text
		}
	}
}

// hash names the version of all that has been read.
func (p *Pages) hash() string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		fmt.Fprintf(sum, "%s %s\n", name, p.files[name].ETag)
	}
	return "v-" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:9])
}

// Shell is the page of a name (wait, shop, admin), for a line that is there.
func (p *Pages) Shell(name, line string) (File, error) {
	data, err := json.Marshal(settings{Languages: p.languages, Shop: p.options.Shop, Currency: p.options.Currency})
	if err != nil {
		return File{}, fmt.Errorf("pages: %w", err)
	}
	var body bytes.Buffer
	if err := p.shells[name].Execute(&body, shell{
		Assets: "/assets/" + p.version, Name: p.options.Name, Line: line, Settings: string(data),
	}); err != nil {
		return File{}, fmt.Errorf("pages: filling %s: %w", name, err)
	}
	return newFile(body.Bytes(), kinds[".html"]), nil
}

// Asset is the file at a path below /assets/. One that names its version never changes
// (fixed); one without, or with the version of another release, may.
func (p *Pages) Asset(name string) (f File, fixed, ok bool) {
	if version, rest, cut := strings.Cut(name, "/"); cut && strings.HasPrefix(version, "v-") {
		name, fixed = rest, version == p.version
	}
	f, ok = p.files[name]
	return f, fixed, ok
}

func newFile(body []byte, kind string) File {
	sum := sha256.Sum256(body)
	f := File{Body: body, Type: kind, ETag: `"` + base64.RawURLEncoding.EncodeToString(sum[:9]) + `"`}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // a known level
	_, _ = w.Write(body)                                       // into memory
	_ = w.Close()
	if packed.Len() < len(body) {
		f.Gzip = packed.Bytes()
	}
	return f
}
