package configs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func load(t *testing.T, environ []string, args ...string) (Loaded, error) {
	t.Helper()
	fs := pflag.NewFlagSet("sluice", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load(fs, environ)
}

// Each file in testdata is named for the mistake in it and begins with what
// must be said about it.
func TestMistakes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want, environ []string
			args := []string{"--config", file}
			for line := range strings.Lines(string(raw)) {
				line = strings.TrimSpace(line)
				if s, ok := strings.CutPrefix(line, "# want: "); ok {
					want = append(want, s)
				} else if s, ok := strings.CutPrefix(line, "# env: "); ok {
					environ = append(environ, s)
				} else if s, ok := strings.CutPrefix(line, "# flag: "); ok {
					args = append(args, s)
				}
			}
			_, err = load(t, environ, args...)
			if err == nil {
				t.Fatalf("accepted; want:\n%s", strings.Join(want, "\n"))
			}
			if got := err.Error(); got != strings.Join(want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	yaml := "listen: 127.0.0.1:1\nadmin: {listen: '127.0.0.1:11'}\ndata: from-file\nline: {tick: 50ms, jitter: 1s}\norders:\nlog: {level: null}\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, []string{
		"SLUICE_LISTEN=127.0.0.1:2", "SLUICE_ADMIN_LISTEN=127.0.0.1:12", "SLUICE_LINE_TICK=60ms",
		"SLUICE_REDIS=", "SLUICE_ORDERS_TEST_DELAY=1298ms", "SLUICE_ADMIN_HOSTS=a, b:1,",
		"SLUICE_PORT=tcp://10.0.0.1:80", "SLUICE_LINE_TIKC=1s", "PATH=/bin",
	}, "--config", file, "--listen", "127.0.0.1:3")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Listen = "127.0.0.1:3"             // flag over environment over file
	want.Admin.Listen = "127.0.0.1:12"      // environment over file
	want.Admin.Hosts = []string{"a", "b:1"} // a list by comma
	want.Data = "from-file"                 // file over default
	want.Line.Tick = 60 * time.Millisecond
	want.Line.Jitter = time.Second
	want.Orders.TestDelay = 1298 * time.Millisecond
	if !reflect.DeepEqual(got.Config, want) {
		t.Errorf("got  %+v\nwant %+v", got.Config, want)
	}
	wantWarnings := []string{"SLUICE_LINE_TIKC is not a variable of Sluice; did you mean SLUICE_LINE_TICK?"}
	if !reflect.DeepEqual(got.Warnings, wantWarnings) {
		t.Errorf("warnings %q, want %q", got.Warnings, wantWarnings)
	}
}

// A flag wins also when it is empty; an empty variable is one that is not set.
func TestEmptyValues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	yaml := "admin: {hosts: [a], token: ''}\ndatabase: mysql://u@file/shop\nline: {tick: 50ms, max_length: 5, initial_rate: 2}\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"SLUICE_REDIS=redis://environment", "SLUICE_SECRET=", "SLUICE_DATABASE=", "SLUICE_ADMIN_HOSTS=",
		"SLUICE_LINE_TICK=", "SLUICE_LINE_MAX_LENGTH=", "SLUICE_LINE_INITIAL_RATE=",
	}
	got, err := load(t, environ, "--config", file, "--redis", "")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Admin.Hosts = []string{"a"}
	want.Database = "mysql://u@file/shop"
	want.Line.Tick, want.Line.MaxLength, want.Line.InitialRate = 50*time.Millisecond, 5, 2
	if !reflect.DeepEqual(got.Config, want) {
		t.Errorf("got  %+v\nwant %+v", got.Config, want)
	}
	if got, err = load(t, nil, "--config", file, "--database="); err != nil || got.Database != "" {
		t.Errorf("--database= leaves %q, %v", got.Database, err)
	}
}

func TestStoreURLs(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"redis://h", "rediss://u:p%2F@h:1/2", "redis-cluster://u:p@a,b:7001", "redis-sentinel://a,b?db=1&master=m", "redis://u:p@ss@h",
	} {
		if err := redisURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"h:6379", "http://h", "redis://", "redis:///0", "redis://u:p@", "redis-sentinel://a",
		"redis-cluster://u:hun?ter2@h", "redis-cluster://u:hun/ter2@h", "redis://u:hun#ter2@h",
	} {
		if err := redisURL(bad); err == nil || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, good := range []string{
		"mysql://u:p@h/n", "mysql://u:p%40@h:1/n_-1", "mysql://h/n?tls=preferred", "mysql://u:hun@ter2@[::1]:3306/n",
	} {
		if err := databaseURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"h/n", "postgres://h/n", "mysql:///n", "mysql://h", "mysql://h/", "mysql://h/a/b", "mysql://h/a$", "mysql://h:0/n",
		"mysql://h:99999/n", "mysql://h:port/n", "mysql://h/n?charset=utf8", "mysql://h/n?tls=maybe", "mysql://u:hun/ter2@h/n",
		"mysql://u:hun?ter2@h/n", "mysql://u:%zzter2@h/n",
	} {
		if err := databaseURL(bad); err == nil || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestProviderURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"http://h", "https://u:p%2F@h:1/pay/v2", "http://[::1]:9/"} {
		if err := providerURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"h", "h:80", "ftp://h", "http://", "http:///pay", "http://h:0", "http://h:99999", "https://h/?key=hunter2", "https://h?", "https://h#hunter2",
		"https://u:hun/ter2@h", "https://u:%zzter2@h",
	} {
		if err := providerURL(bad); err == nil || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestDefaultsKeepTheRules(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	if err := Default().WriteYAML(&printed); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "printed.yaml")
	if err := os.WriteFile(file, printed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(t, nil, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(normal(got.Config), normal(Default())) {
		t.Errorf("read back %+v\nwant %+v", got.Config, Default())
	}
}

// The example names every key and gives it its default.
func TestExampleEqualsDefaults(t *testing.T) {
	t.Parallel()
	c := Default()
	table := keys(&c)
	file, err := readFile("sluice.yaml", &c, table)
	if err != nil || len(file.mistakes) > 0 {
		t.Fatal(err, file.mistakes)
	}
	parser := &strictYAML{known: table}
	raw, err := os.ReadFile("sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	for _, k := range table {
		if _, ok := parser.lines[k.path]; !ok {
			t.Errorf("%s is missing", k.path)
		}
	}
	got, err := load(t, nil, "--config", "sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(normal(got.Config), normal(Default())) {
		t.Errorf("the example is %+v\nwant %+v", got.Config, Default())
	}
}

// normal makes an empty list nil.
func normal(c Config) Config {
	if len(c.Admin.Hosts) == 0 {
		c.Admin.Hosts = nil
	}
	return c
}

// The table in the README names every key with its variable's default.
func TestReadmeNamesEveryKey(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := Default()
	for _, k := range keys(&c) {
		def := "–"
		switch v := k.get().(type) {
		case nil:
		case []string:
		case string:
			if v != "" {
				def = "`" + v + "`"
			}
		default:
			def = fmt.Sprintf("`%v`", v)
		}
		if row := fmt.Sprintf("| `%s` | %s |", k.path, def); !strings.Contains(string(raw), row) {
			t.Errorf("the README lacks %s", row)
		}
	}
}

func TestPrintedConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	got, err := load(t, []string{
		"SLUICE_SECRET=0123456789abcdef0123456789abcdef",
		"SLUICE_ADMIN_TOKEN=alice=hunter2-and-sixteen-bytes,bob=hunter2-and-other-bytes",
		"SLUICE_REDIS=redis://:hunter2@localhost:6379/1",
		"SLUICE_DATABASE=mysql://sluice:hun@ter2@localhost:3306/shop?tls=true",
		"SLUICE_PAYMENTS_PROVIDER=https://shop:hunter2@pay.example.com/v1",
	})
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := got.WriteYAML(&printed); err != nil {
		t.Fatal(err)
	}
	all := printed.String() + fmt.Sprintf("%v %+v %#v", got.Config, got.Config, got.Config)
	for _, secret := range []string{"hunter2", "ter2", "abcdef"} {
		if strings.Contains(all, secret) {
			t.Errorf("%q shows in:\n%s", secret, all)
		}
	}
	for _, want := range []string{"redis: redis://:***@localhost:6379/1\n", "database: mysql://sluice:***@localhost:3306/shop?tls=true\n", "secret: '***'\n",
		"provider: https://shop:***@pay.example.com/v1\n"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, printed.String())
		}
	}
}

func TestURLString(t *testing.T) {
	t.Parallel()
	for in, want := range map[URL]string{
		"":                                      "",
		"redis://localhost:6379":                "redis://localhost:6379",
		"redis://user@localhost":                "redis://user@localhost",
		"redis-cluster://u:p@a:1,b:2":           "redis-cluster://u:***@a:1,b:2",
		"redis://h/0?password=abc@d&db=1":       "redis://h/0?password=***&db=1",
		"mysql://u:p@ss/w?rd@h:3306/n":          "mysql://u:***@h:3306/n",
		"redis-sentinel://a,b?sentinelpass=x1":  "redis-sentinel://a,b?sentinelpass=***",
		"user:pw@host":                          "***",
		"https://u:p@h/pay?v=1&Api_Key=x":       "https://u:***@h/pay?v=***&Api_Key=***",
		"redis-sentinel://a,b?master=shop&db=1": "redis-sentinel://a,b?master=shop&db=1",
		"mysql://u:p@h/n?tls=skip-verify":       "mysql://u:***@h/n?tls=skip-verify",
		"https://hunter2@h/v1":                  "https://***@h/v1",
		"https://h/v1?sig=hunter2":              "https://h/v1?sig=***",
		"https://h/v1?api%2Dk%65y=hunter2":      "https://h/v1?api%2Dk%65y=***",
		"https://h/v1?db=1;key=hunter2":         "https://h/v1?db=***",
		"https://h/v1?hunter2":                  "https://h/v1?***",
		"https://h/v1?db=1#hunter2":             "https://h/v1?db=***",
		"https://h/v1#hunter2?db=1":             "https://h/v1#***",
	} {
		if got := in.String(); got != want {
			t.Errorf("%q is shown as %q, want %q", string(in), got, want)
		}
	}
}
