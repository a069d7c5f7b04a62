package pages

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice/servicetest"
)

// What is sent is named by all that it is made of.
func TestTheVersionIsOfEverything(t *testing.T) {
	folderWith := func(files map[string]string) Options { return Options{Folder: folder(t, files)} }
	versions := make(map[string]Options)
	for _, o := range []Options{
		{}, {Name: "x"}, {Shop: "/x"}, {Currency: "KRW"}, {Accent: "#112233"}, {AccentDark: "#112233"}, {Logo: "https://x.example/y.png"},
		folderWith(map[string]string{"a.css": "x"}), folderWith(map[string]string{"a.css": "y"}), folderWith(map[string]string{"b.css": "x"}),
		folderWith(map[string]string{"texts/en.json": `{"wait":{"title":"x"}}`}),
		{Folder: exampleFolder},
	} {
		p, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := New(o)
		if err != nil || again.version != p.version {
			t.Errorf("another version of the same, %v", err)
		}
		if other, ok := versions[p.version]; ok {
			t.Errorf("%+v and %+v are one version", o, other)
		}
		versions[p.version] = o
	}
}

// While instances are replaced each is asked for what the other's shells name.
func TestAssetsOfAnotherRelease(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	today, naming, ok := p.Asset("base.css")
	if !ok || naming != Unversioned {
		t.Errorf("%v %v", ok, naming)
	}
	for path, want := range map[string]Naming{p.version + "/base.css": Fixed, "v-another/base.css": Foreign} {
		if f, naming, ok := p.Asset(path); !ok || naming != want || f.ETag != today.ETag {
			t.Errorf("%s: %v %v", path, ok, naming)
		}
	}
	for _, path := range []string{"", "v-", p.version, p.version + "/", "nosuch.css", "../pages.go", "own/x.css", p.version + "/wait.html", "v-x/" + p.version + "/base.css"} {
		if _, _, ok := p.Asset(path); ok {
			t.Errorf("%q is there", path)
		}
	}
}

// Ten thousand people who come at once are given one page that was made once.
func TestShellsAreMadeOnce(t *testing.T) {
	p, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 1000 {
				if _, err := p.Shell("wait", "default"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if allocs := testing.AllocsPerRun(100, func() { _, _ = p.Shell("wait", "default") }); allocs > 3 {
		t.Errorf("%v allocations to hand out what is there", allocs)
	}
	one, _ := p.Shell("wait", "default")
	two, _ := p.Shell("wait", "side")
	if &one.Body[0] == &two.Body[0] || !strings.Contains(string(two.Body), "url=/wait/plain?line=side") {
		t.Error("one page for two lines")
	}
}

func BenchmarkShell(b *testing.B) {
	p, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := p.Shell("wait", "default"); err != nil {
			b.Fatal(err)
		}
	}
}

// The scripts and the server choose the same language. Node stands for the browser.
func TestLanguagesAreChosenAlike(t *testing.T) {
	node := servicetest.Program(t, "node")
	o := Options{Folder: folder(t, map[string]string{
		"texts/pt.json":      `{"name":"Português","dir":"ltr"}`,
		"texts/pt-BR.json":   `{"name":"Português do Brasil","dir":"ltr"}`,
		"texts/zh-Hant.json": `{"name":"繁體中文","dir":"ltr"}`,
		"texts/ar.json":      `{"name":"العربية","dir":"rtl"}`,
	})}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	const run = `
		const [file, cases] = process.argv.slice(1);
		const languages = { ar: 'x', en: 'x', ko: 'x', pt: 'x', 'pt-BR': 'x', 'zh-Hant': 'x' };
		let asked = '';
		globalThis.document = {
			querySelector: () => ({ content: JSON.stringify({ languages, currency: 'EUR', shop: '/' }) }),
			documentElement: { dataset: { page: 'wait' } },
		};
		globalThis.localStorage = { getItem() { throw new Error('storage is off'); } };
		globalThis.fetch = async (url) => { asked = String(url); return { ok: true, json: async () => ({ lang: 'en' }) }; };
		for (const [i, { Asked, Accept }] of JSON.parse(cases).entries()) {
			globalThis.location = { search: Asked ? '?lang=' + Asked : '' };
			Object.defineProperty(globalThis, 'navigator', { value: { languages: Accept ? Accept.split(',') : [] }, configurable: true });
			await import(file + '?' + i);
			console.log(asked.split('wait.').pop().replace('.json', ''));
		}`
	script, err := filepath.Abs("assets/texts.js")
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct{ Asked, Accept, Want string }{
		{"", "", "en"}, {"", "ko-KR", "ko"}, {"", "pt-BR,pt", "pt-BR"}, {"", "pt-PT", "pt"}, {"", "zh-Hant-TW", "zh-Hant"}, {"", "zh-CN", "en"},
		{"", "fr,AR-eg,ko", "ar"}, {"ko", "ar", "ko"}, {"KO-kr", "ar", "ko"}, {"xx", "ar", "ar"}, {"", "toString,constructor", "en"},
	}
	encoded, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", run, "--", "file://"+script, string(encoded)).CombinedOutput()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) != len(cases) {
		t.Fatalf("%v: %s", err, out)
	}
	for i, tc := range cases {
		if got := p.Choose(tc.Asked, tc.Accept); got != tc.Want || lines[i] != tc.Want {
			t.Errorf("%q %q: %s by the server, %s by the scripts, and not %s", tc.Asked, tc.Accept, got, lines[i], tc.Want)
		}
	}
	for accept, want := range map[string]string{ // what only a header says
		"en;q=0.1, ko;q=0.9": "ko", "ko;q=0, ar;q=0.5": "ar", "*": "en", "ko;q=x, ar": "ar", ",,;;q=": "en", strings.Repeat("fr,", 500) + "ko": "en",
	} {
		if got := p.Choose("", accept); got != want {
			t.Errorf("%.40q: %s instead of %s", accept, got, want)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := New(Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
