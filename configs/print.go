package configs

import (
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// WriteYAML writes the configuration in the form of the file it could be read
// from, except that secrets and passwords are masked. A key that is not set
// and has no default is null.
func (c Config) WriteYAML(w io.Writer) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	sections := map[string]*yaml.Node{}
	for _, k := range keys(&c) {
		into, name := root, k.path
		if section, rest, ok := strings.Cut(k.path, delimiter); ok {
			if into, ok = sections[section]; !ok {
				into = &yaml.Node{Kind: yaml.MappingNode}
				sections[section] = into
				root.Content = append(root.Content, scalar(section), into)
			}
			name = rest
		}
		value := &yaml.Node{}
		v := k.get()
		if v == "" {
			v = nil
		}
		if err := value.Encode(v); err != nil {
			return fmt.Errorf("printing %s: %w", k.path, err)
		}
		into.Content = append(into.Content, scalar(name), value)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("printing the configuration: %w", err)
	}
	return enc.Close()
}

func scalar(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
