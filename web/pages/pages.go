package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed assets texts
var embedded embed.FS

// defaultLine is the line that an address means when it names none.
const defaultLine = "default"

// Pages are all files. Safe for concurrent use.
type Pages struct {
	options   Options
	version   string
	files     map[string]File              // below /assets/ or /assets/VERSION/
	languages map[string]string            // names, by code
	lacking   map[string][]string          // texts, by language
	codes     []string                     // of the languages, sorted
	spoken    map[string]map[string]string // texts of the page without scripts, by language and key
	settings  string
	templates map[string]*template.Template

	shells sync.Map // File by page and line: made once, asked for by everybody
}

// shell is what the template of a page is given. docs/pages.md tells of it, since
// shops write templates.
type shell struct {
	Assets   string // the path that assets are below
	Name     string // of the shop; may be empty
	Title    string // of the page, until its script knows better
	Logo     string // the picture's address
	Branded  bool   // whether there is a brand.css
	Line     string // that the visitor waits in
	Shop     string // where the way back leads
	Plain    string // the address of the page for whoever runs no scripts
	Settings string // JSON for the scripts
}

// settings are for the scripts: they are in the page, in the attribute "content" of the
// meta element "sluice".
type settings struct {
	Languages map[string]string `json:"languages"` // names of the languages, by code
	Name      string            `json:"name"`      // of the shop; may be empty
	Shop      string            `json:"shop"`
	Currency  string            `json:"currency"`
}

// New prepares all files. What the options get wrong is returned as [Mistakes], all
// of it.
func New(o Options) (*Pages, error) {
	var wrong Mistakes
	o.check(&wrong)
	if o.Shop == "" {
		o.Shop = "/"
	}
	if o.Currency == "" {
		o.Currency = "EUR"
	}
	ours, err := readAssets()
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p := &Pages{
		options: o, files: maps.Clone(ours.files), templates: maps.Clone(ours.templates),
		languages: make(map[string]string), lacking: make(map[string][]string), spoken: make(map[string]map[string]string),
	}
	mine := readOwn(o.Folder, &wrong)
	if err := p.readTexts(mine.texts, &wrong); err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	for name, body := range mine.files {
		p.files[ownFolder+name] = newFile(body, kinds[path.Ext(name)])
	}
	if _, ok := mine.files[path.Clean(o.Logo)]; !ok && o.Folder != "" && o.Logo != "" && !isAddress(o.Logo) {
		wrong.add("logo", "%s is not a file in pages.folder that is served", o.Logo)
	}
	brand, err := o.brand(p.files["base.css"].Body, &wrong)
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p.files["brand.css"] = newFile(brand, kinds[".css"])
	data, err := json.Marshal(settings{Languages: p.languages, Name: o.Name, Shop: o.Shop, Currency: o.Currency})
	if err != nil {
		return nil, fmt.Errorf("pages: %w", err)
	}
	p.settings = string(data)
	if mine.template != nil {
		p.useTemplate(mine.template, &wrong)
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	return p, p.seal()
}

// assets are the embedded files and templates, which are the same for all options.
type assets struct {
	files     map[string]File
	templates map[string]*template.Template
}

var readAssets = sync.OnceValues(func() (assets, error) {
	a := assets{make(map[string]File), make(map[string]*template.Template)}
	return a, fs.WalkDir(embedded, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "assets/")
		if path.Ext(name) == ".html" {
			a.templates[strings.TrimSuffix(name, ".html")], err = template.New(name).Parse(string(body))
			return err
		}
		a.files[name] = newFile(body, kinds[path.Ext(name)])
		return nil
	})
})

// shells are the pages that a script fills.
var shells = []string{"wait", "shop", "admin"}

// seal names the version of all that there is: files, and the shells as they are
// without a version of their own.
func (p *Pages) seal() error {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		_, _ = fmt.Fprintf(sum, "%s %s\n", name, p.files[name].ETag) // a hash never fails
	}
	for _, name := range shells {
		body, err := p.fill(name, defaultLine)
		if err != nil {
			return err
		}
		_, _ = sum.Write(body) // never fails
	}
	p.version = versionMark + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:9])
	return nil
}

// versionMark begins the name of a version, so that a path tells whether it has one.
const versionMark = "v-"

// Shell is the page of a name (wait, shop, admin), for a line that is there.
func (p *Pages) Shell(name, line string) (File, error) {
	key := name + " " + line
	if made, ok := p.shells.Load(key); ok {
		return made.(File), nil
	}
	body, err := p.fill(name, line)
	if err != nil {
		return File{}, err
	}
	made, _ := p.shells.LoadOrStore(key, newFile(body, kinds[".html"]))
	return made.(File), nil
}

func (p *Pages) fill(name, line string) ([]byte, error) {
	var body bytes.Buffer
	if err := p.templates[name].Execute(&body, p.shell(line)); err != nil {
		return nil, fmt.Errorf("pages: filling %s: %w", name, err)
	}
	return body.Bytes(), nil
}

func (p *Pages) shell(line string) shell {
	assets := "/assets/" + p.version
	title := p.options.Name
	if title == "" {
		title = "Waiting room"
	}
	return shell{
		Assets: assets, Name: p.options.Name, Title: title, Logo: p.options.logo(assets), Branded: len(p.files["brand.css"].Body) > 0,
		Line: line, Shop: p.options.Shop, Plain: PlainAddress(line, ""), Settings: p.settings,
	}
}

// PlainAddress is the path of the page without scripts, for a line, and in a language
// where one was asked for. marks are parameters that are there or not.
func PlainAddress(line, language string, marks ...string) string {
	query := url.Values{}
	if line != defaultLine {
		query.Set("line", line)
	}
	if language != "" {
		query.Set("lang", language)
	}
	for _, mark := range marks {
		if mark != "" {
			query.Set(mark, "1")
		}
	}
	if len(query) == 0 {
		return "/wait/plain"
	}
	return "/wait/plain?" + query.Encode()
}

// FormTarget is the origin that the page without scripts sends a visitor's token to,
// where that is not this server's own; else it is empty.
func (p *Pages) FormTarget() string { return p.options.origin() }

// Naming is how an asset's path names it.
type Naming int

const (
	// Unversioned paths are of whatever is there today.
	Unversioned Naming = iota
	// Fixed paths name this version, and never change.
	Fixed
	// Foreign paths name the version of another release: while instances are replaced
	// each is asked for what the other's shells name, and answers with what it has.
	Foreign
)

// Asset is the file at a path below /assets/.
func (p *Pages) Asset(name string) (f File, naming Naming, ok bool) {
	if version, rest, cut := strings.Cut(name, "/"); cut && strings.HasPrefix(version, versionMark) {
		name, naming = rest, Foreign
		if version == p.version {
			naming = Fixed
		}
	}
	f, ok = p.files[name]
	return f, naming, ok
}
