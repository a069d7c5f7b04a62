package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
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
	Plain map[string]string `json:"plain"` // of the page without scripts
	Admin map[string]string `json:"admin"`
}

// readTexts makes the file texts/PAGE.LANGUAGE.json of every page and language: the
// page's texts, those of every page and of times, in English where the language has none.
func (p *Pages) readTexts(over map[string][]byte, wrong *Mistakes) error {
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
	for _, code := range slices.Sorted(maps.Keys(over)) {
		read[code] = read[code].lay(code, over[code], english, wrong)
	}
	english = read[fallback]
	p.codes = slices.Sorted(maps.Keys(read))
	for code, l := range read {
		p.languages[code] = l.Name
		p.lacks(code, l, english)
		spoken := map[string]string{"lang": code, "dir": l.Dir}
		add(spoken, "page", english.Page, l.Page)
		add(spoken, "time", english.Time, l.Time)
		add(spoken, "wait", english.Wait, l.Wait)
		add(spoken, "plain", english.Plain, l.Plain)
		p.spoken[code] = spoken
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

// Lacking are the texts that visitors in line are shown in English for want of their own,
// by language, as the file of texts names them.
func (p *Pages) Lacking() map[string][]string { return p.lacking }

// lacks notes what a language has no text for.
func (p *Pages) lacks(code string, has, english language) {
	for name, sections := range map[string][2]map[string]string{
		"page": {has.Page, english.Page}, "time": {has.Time, english.Time}, "wait": {has.Wait, english.Wait}, "plain": {has.Plain, english.Plain},
	} {
		for key := range sections[1] {
			if _, there := sections[0][key]; !there {
				p.lacking[code] = append(p.lacking[code], name+"."+key)
			}
		}
	}
	slices.Sort(p.lacking[code])
}

// Choose is the language to answer in: the one that is asked for by its code, or the
// first there is of an Accept-Language. The scripts choose alike (texts.js).
func (p *Pages) Choose(asked, accept string) string {
	for _, wanted := range append([]string{asked}, preferred(accept)...) {
		// zh-Hant-TW is also served by zh-Hant, and by zh.
		for code := wanted; code != ""; code = code[:max(0, strings.LastIndexByte(code, '-'))] {
			for _, there := range p.codes {
				if strings.EqualFold(there, code) {
					return there
				}
			}
		}
	}
	return fallback
}

// maxPreferred bounds how many languages of a header are looked at.
const maxPreferred = 20

// preferred are the languages of an Accept-Language, the most wanted first.
func preferred(accept string) []string {
	type weighted struct {
		code   string
		weight float64
	}
	var all []weighted
	for one := range strings.SplitSeq(accept, ",") {
		code, parameter, _ := strings.Cut(one, ";")
		weight := 1.0
		if _, q, ok := strings.Cut(parameter, "q="); ok {
			weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64) // what is none is not wanted
		}
		if code = strings.TrimSpace(code); weight > 0 && len(all) < maxPreferred {
			all = append(all, weighted{code, weight})
		}
	}
	slices.SortStableFunc(all, func(a, b weighted) int { return cmp.Compare(b.weight, a.weight) })
	codes := make([]string, len(all))
	for i, w := range all {
		codes[i] = w.code
	}
	return codes
}
