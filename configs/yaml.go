package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/knadh/koanf/maps"
	"go.yaml.in/yaml/v3"
)

// strictYAML is a koanf parser that knows the keys: it keeps the line of each
// value and notes unknown keys, duplicates and sections in the wrong place,
// all of them. koanf's own YAML parser decodes into a map, where the lines are
// lost and the first mistake ends it.
type strictYAML struct {
	path  string
	known []key // grows by the keys of the lines that the file names
	// lineKeys are the keys of a line of that id.
	lineKeys func(id string) []key
	lines    map[string]int
	mistakes Mistakes
}

// Unmarshal returns the nested map of the known keys.
func (p *strictYAML) Unmarshal(raw []byte) (map[string]any, error) {
	p.lines = map[string]int{}
	var doc, more yaml.Node
	in := yaml.NewDecoder(bytes.NewReader(raw))
	if err := in.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := in.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file must hold one YAML document")
	}
	flat := map[string]any{}
	if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" { // else empty, or comments only
		if doc.Content[0].Kind != yaml.MappingNode {
			return nil, errors.New("the file must be a mapping of keys to values")
		}
		p.section("", doc.Content[0], flat)
	}
	return maps.Unflatten(flat, delimiter), nil
}

// Marshal is part of koanf's parser interface and not used.
func (p *strictYAML) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.New("not supported")
}

func (p *strictYAML) section(prefix string, node *yaml.Node, flat map[string]any) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		path := prefix + name.Value
		switch {
		case path == linesKey:
			if p.note(path, name.Line) {
				p.lineSections(path, value, flat)
			}
		case p.isSection(path):
			if value.Kind == yaml.MappingNode {
				p.note(path, name.Line)
				p.section(path+delimiter, value, flat)
			} else if value.Tag != "!!null" {
				p.mistake(path, name.Line, "is a section and takes no value of its own")
			}
		case !p.isKey(path):
			p.mistake(path, name.Line, "is not a key of Sluice"+p.suggestion(path))
		case value.Kind == yaml.MappingNode:
			p.mistake(path, name.Line, "takes a value, not a section")
		default:
			if p.note(path, name.Line) && value.Tag != "!!null" {
				flat[path] = p.value(path, value)
			}
		}
	}
}

// lineSections reads the section whose keys are ids of lines.
func (p *strictYAML) lineSections(path string, node *yaml.Node, flat map[string]any) {
	if node.Tag == "!!null" {
		return
	}
	if node.Kind != yaml.MappingNode {
		p.mistake(path, node.Line, "is a section: the id of each line, and under it what the line is born with")
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		id, settings := node.Content[i], node.Content[i+1]
		at := path + delimiter + id.Value
		switch {
		case lineID(id.Value) != nil:
			p.mistake(path, id.Line, fmt.Sprintf("has %q, and %s", id.Value, lineID(id.Value)))
		case !p.note(at, id.Line): // noted
		case settings.Kind == yaml.MappingNode:
			p.known = append(p.known, p.lineKeys(id.Value)...)
			p.section(at+delimiter, settings, flat)
		case settings.Tag == "!!null":
			p.lineKeys(id.Value)
		default:
			p.mistake(at, id.Line, "is a section and takes no value of its own")
		}
	}
}

// note keeps the line of a key and refuses the key the second time.
func (p *strictYAML) note(path string, line int) bool {
	if first, ok := p.lines[path]; ok {
		p.mistake(path, line, fmt.Sprintf("is there twice, first in line %d", first))
		return false
	}
	p.lines[path] = line
	return true
}

func (p *strictYAML) value(path string, node *yaml.Node) any {
	if node.Kind == yaml.ScalarNode && node.Tag != "!!int" && node.Tag != "!!float" && node.Tag != "!!bool" {
		return node.Value // also what YAML takes for a time stamp
	}
	var v any
	if err := node.Decode(&v); err != nil {
		p.mistake(path, node.Line, "cannot be read: "+err.Error())
		return nil
	}
	return v
}

func (p *strictYAML) mistake(path string, line int, rule string) {
	p.mistakes = append(p.mistakes, Mistake{
		Key: path, Origin: fmt.Sprintf("%s:%d", filepath.Base(p.path), line), Rule: rule,
	})
}

func (p *strictYAML) origin(path string) string {
	return fmt.Sprintf("%s:%d", filepath.Base(p.path), p.lines[path])
}

func (p *strictYAML) isKey(path string) bool {
	for _, k := range p.known {
		if k.path == path {
			return true
		}
	}
	return false
}

func (p *strictYAML) isSection(path string) bool {
	for _, k := range p.known {
		if strings.HasPrefix(k.path, path+delimiter) {
			return true
		}
	}
	return false
}

func (p *strictYAML) suggestion(path string) string {
	paths := make([]string, len(p.known))
	last := path[strings.LastIndex(path, delimiter)+1:]
	var elsewhere string
	for i, k := range p.known {
		paths[i] = k.path
		if strings.HasSuffix(k.path, delimiter+last) {
			elsewhere = k.path // the right name in the wrong section
		}
	}
	if near := nearest(path, paths); near != "" {
		return "; did you mean " + near + "?"
	}
	if elsewhere != "" {
		return "; did you mean " + elsewhere + "?"
	}
	return ""
}

// nearest is the name within two slips of the pen, or "" if there is none.
func nearest(name string, names []string) string {
	best, found := 3, ""
	for _, n := range names {
		if d := distance(name, n); d < best {
			best, found = d, n
		}
	}
	return found
}

// distance is how many letters must be added, dropped or replaced, or
// neighbours swapped, to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
