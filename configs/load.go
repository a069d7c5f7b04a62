package configs

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Flags adds the flags that set keys, and --config.
func Flags(fs *pflag.FlagSet) {
	fs.String("config", "", "YAML `file`; environment and flags win over it")
	d := Default()
	fs.String("listen", d.Listen, "public `address`: queue, orders, pages")
	fs.String("admin", d.Admin.Listen, "operator `address`: page, API, metrics, health")
	fs.String("role", d.Role, "what to serve: all, queue or orders")
	fs.String("redis", "", "`URL` of Redis: redis://, rediss://, redis-cluster://, redis-sentinel:// (default: in-process line)")
	fs.String("database", "", "`URL` mysql://user:pass@host:port/name (default: SQLite in the data folder)")
	fs.String("data", d.Data, "`folder` of the embedded database, the generated secret, and the line's last settings")
}

// Loaded is a configuration that was read.
type Loaded struct {
	Config
	// Warnings are worth telling, and stop nothing.
	Warnings []string
}

// Load reads the file that --config names, the environment (as in os.Environ)
// and the flags, in rising order of precedence. A wrong configuration is
// returned as [Mistakes], all of them, together with what could be read.
func Load(flags *pflag.FlagSet, environ []string) (Loaded, error) {
	out := Loaded{Config: Default()}
	table := keys(&out.Config)
	var mistakes Mistakes
	var lineTable []key // of the lines in the file

	sources := make([]source, 0, 3)
	if path, err := flags.GetString("config"); err == nil && path != "" {
		file, err := readFile(path, &out.Config, table)
		if err != nil {
			return out, Mistakes{{Key: "--config", Value: fmt.Sprintf("%q", path), Rule: err.Error()}}
		}
		mistakes = append(mistakes, file.mistakes...)
		sources = append(sources, file.source)
		lineTable = file.lineKeys
	}
	fromEnv, warnings, err := readEnv(environ, table)
	if err != nil {
		return out, err
	}
	out.Warnings = warnings
	fromFlags, err := readFlags(flags, table)
	if err != nil {
		return out, err
	}
	sources = append(sources, fromEnv, fromFlags)

	// Every source is checked, also where a later one overrules it: a wrong
	// value in the file is wrong even while a flag hides it.
	for _, s := range sources {
		for _, k := range slices.Concat(table, lineTable) {
			if !s.values.Exists(k.path) {
				continue
			}
			raw := s.values.Get(k.path)
			if raw == "" && s.emptyIsUnset {
				continue
			}
			if err := k.set(raw); err != nil {
				mistakes = append(mistakes, Mistake{Key: k.path, Value: k.show(raw), Origin: s.origin(k), Rule: err.Error()})
			}
		}
	}
	mistakes = append(mistakes, out.crossed(mistakes)...)
	if len(mistakes) > 0 {
		return out, mistakes
	}
	return out, nil
}

// source is one place that values come from.
type source struct {
	values *koanf.Koanf
	origin func(key) string
	// emptyIsUnset takes an empty text for a key that is not set: compose files
	// and manifests pass empty variables on. On the command line somebody wrote
	// it, to overrule what the other sources say.
	emptyIsUnset bool
}

const delimiter = "."

// yamlFile is a source with the mistakes that its form already shows.
type yamlFile struct {
	source
	lineKeys []key // of the lines that it names
	mistakes Mistakes
}

// readFile reads a file; the lines that it names are put into c.
func readFile(path string, c *Config, table []key) (yamlFile, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return yamlFile{}, fmt.Errorf("cannot be read: %w", err)
	}
	parser := &strictYAML{path: path, known: slices.Clone(table), lineKeys: func(id string) []key {
		return lineKeys(id, addLine(&c.Lines, id))
	}}
	k := koanf.New(delimiter)
	if err := k.Load(rawbytes.Provider(raw), parser); err != nil {
		return yamlFile{}, fmt.Errorf("cannot be read: %w", err)
	}
	return yamlFile{
		source:   source{values: k, origin: func(k key) string { return parser.origin(k.path) }, emptyIsUnset: true},
		lineKeys: parser.known[len(table):],
		mistakes: parser.mistakes,
	}, nil
}

func readEnv(environ []string, table []key) (source, []string, error) {
	var warnings []string
	paths := make(map[string]string, len(table))
	names := make([]string, 0, len(table))
	for _, k := range table {
		paths[k.env()] = k.path
		names = append(names, k.env())
	}
	k := koanf.New(delimiter)
	err := k.Load(env.Provider(delimiter, env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			// An unknown variable is no mistake: orchestrators add their own
			// for a service of this name (SLUICE_PORT, SLUICE_SERVICE_HOST).
			// One that looks like a slip of the pen is told.
			if _, ok := paths[name]; !ok {
				if near := nearest(name, names); near != "" {
					warnings = append(warnings, fmt.Sprintf("%s is not a variable of Sluice; did you mean %s?", name, near))
				}
			}
			return paths[name], value
		},
	}), nil)
	if err != nil {
		return source{}, nil, fmt.Errorf("reading the environment: %w", err)
	}
	return source{values: k, origin: key.env, emptyIsUnset: true}, warnings, nil
}

func readFlags(flags *pflag.FlagSet, table []key) (source, error) {
	paths := make(map[string]string, len(table))
	for _, k := range table {
		if k.flag != "" {
			paths[k.flag] = k.path
		}
	}
	k := koanf.New(delimiter)
	// Without a koanf of earlier layers posflag passes on only the flags that
	// were given.
	err := k.Load(posflag.ProviderWithFlag(flags, delimiter, nil, func(f *pflag.Flag) (string, any) {
		return paths[f.Name], f.Value.String()
	}), nil)
	if err != nil {
		return source{}, fmt.Errorf("reading the flags: %w", err)
	}
	return source{values: k, origin: func(k key) string { return "--" + k.flag }}, nil
}

// Mistake is one thing that is wrong with a configuration.
type Mistake struct {
	Key    string // "line.tick"
	Value  string // as given, secrets masked; empty when the key alone is wrong
	Origin string // "sluice.yaml:12", "SLUICE_LINE_TICK", "--listen"; empty for rules between keys
	Rule   string // what must hold
}

// String is the mistake in one line.
func (m Mistake) String() string {
	var b strings.Builder
	b.WriteString(m.Key)
	if m.Value != "" {
		b.WriteString(" = " + m.Value)
	}
	if m.Origin != "" {
		b.WriteString(" (" + m.Origin + ")")
	}
	b.WriteString(": " + m.Rule)
	return b.String()
}

// Mistakes are all mistakes of a configuration.
type Mistakes []Mistake

// Error lists the mistakes, one a line.
func (m Mistakes) Error() string {
	lines := make([]string, len(m))
	for i, mistake := range m {
		lines[i] = mistake.String()
	}
	return strings.Join(lines, "\n")
}
