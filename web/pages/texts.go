package pages

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// fallback is the language of whoever speaks none that is there.
const fallback = "en"

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
