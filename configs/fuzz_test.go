package configs

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// tryLoad loads without a test to fail.
func tryLoad(environ []string, args ...string) (Loaded, error) {
	fs := pflag.NewFlagSet("sluice", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		return Loaded{}, err
	}
	return Load(fs, environ)
}

// printed is the configuration as check-config shows it.
func printed(t *testing.T, c Config) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteYAML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// FuzzFile: what a file says is refused with mistakes that name a key and a rule, or
// it is a configuration that is printed as a file which says the same.
func FuzzFile(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "sluice.yaml") {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("line: {tick: &t 50ms, jitter: *t}\n"))
	f.Add([]byte("lines: {a: {opens_at: 2026-11-27T18:00:00+09:00, weight: 3, rate_override: 1e2}, b: ~}\n"))
	f.Add([]byte("? [a, b]\n: c\n<<: {listen: x}\n"))
	f.Add([]byte("a: &a [*a]"))
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := filepath.Join(folder, "sluice.yaml")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := tryLoad(nil, "--config", file)
		if err != nil {
			mistakes, ok := errors.AsType[Mistakes](err)
			if !ok || len(mistakes) == 0 {
				t.Fatalf("refused without a mistake: %v", err)
			}
			for _, m := range mistakes {
				if m.Key == "" && m.Origin == "" || m.Rule == "" {
					t.Fatalf("a mistake without a place or a rule: %+v", m)
				}
			}
			return
		}
		c := got.Config
		if c.Secret != "" || c.Admin.Token != "" || c.Payments.Token != "" || strings.Contains(printed(t, c), mask) {
			return // what is masked cannot be read back
		}
		if err := os.WriteFile(file, []byte(printed(t, c)), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := tryLoad(nil, "--config", file)
		if err != nil || printed(t, again.Config) != printed(t, c) {
			t.Fatalf("printed as\n%s\nand read as\n%s%v", printed(t, c), printed(t, again.Config), err)
		}
	})
}

// FuzzVariable: a variable's value is refused with the rule of its key, or is printed
// as a value that means the same. Read twice it says the same.
func FuzzVariable(f *testing.F) {
	var c Config
	table := keys(&c)
	for i, value := range []string{
		"127.0.0.1:80", "[::1]:0", "50ms", "1h2m3.5s", "0", "-0", "0x10", "1e3", "NaN", "Inf", "a,b , c", "10.0.0.0/8,fd00::1", "::ffff:1.2.3.4/96",
		"redis://u:p@h:1/2?x=y", "mysql://u:p@h/name?tls=true", "https://p.example/a%20b", "http", "https://www.example.com", "true", "jwks.json", "9223372036854775808",
	} {
		f.Add(uint8(i), value)
		f.Add(uint8(i+len(table)/2), value)
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		if strings.ContainsRune(value, 0) {
			t.Skip() // no variable has one
		}
		k := table[int(which)%len(table)]
		environ := []string{k.env() + "=" + value}
		got, err := tryLoad(environ)
		again, errAgain := tryLoad(environ)
		if !reflect.DeepEqual(got.Config, again.Config) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%s: %+v, %v, and then %+v, %v", environ, got, err, again, errAgain)
		}
		if err != nil {
			if mistakes, ok := errors.AsType[Mistakes](err); !ok || len(mistakes) == 0 {
				t.Fatalf("%s is refused without a mistake: %v", environ, err)
			}
			return
		}
		if text := printed(t, got.Config); text == "" || !strings.Contains(text, k.path[strings.LastIndex(k.path, delimiter)+1:]+":") {
			t.Fatalf("%s is not printed in\n%s", k.path, text)
		}
	})
}

// FuzzSecretsStayHidden: whatever a secret looks like, and wherever it is put, neither
// the printed configuration nor a mistake shows it.
func FuzzSecretsStayHidden(f *testing.F) {
	f.Add("hunter2-and-a-lot-more-to-be-long-enough", uint8(0))
	f.Add("base64:aHVudGVyMi1hbmQtYS1sb3QtbW9yZS10by1iZS1sb25n", uint8(0))
	f.Add("p@ss:w/rd?#%zz", uint8(1))
	f.Add("with space and\ttab", uint8(2))
	f.Add("?key=sesame&token=x", uint8(3))
	f.Add("ünïcode-geheim", uint8(4))
	f.Add("S3same-open", uint8(7))
	places := []func(secret string) []string{
		func(s string) []string { return []string{"SLUICE_SECRET=" + s} },
		func(s string) []string { return []string{"SLUICE_ADMIN_TOKEN=" + s, "SLUICE_ADMIN_LISTEN=0.0.0.0:1"} },
		func(s string) []string { return []string{"SLUICE_REDIS=redis://user:" + s + "@host:6379/0"} },
		func(s string) []string {
			return []string{"SLUICE_REDIS=redis://user:" + url.QueryEscape(s) + "@host:6379/0"}
		},
		func(s string) []string { return []string{"SLUICE_DATABASE=mysql://user:" + s + "@host/name"} },
		func(s string) []string { return []string{"SLUICE_PAYMENTS_PROVIDER=https://user:" + s + "@host/path"} },
		func(s string) []string { return []string{"SLUICE_PAYMENTS_TOKEN=" + s} },
		func(s string) []string {
			return []string{"SLUICE_IDENTITY_JWKS=https://user:" + s + "@host/keys", "SLUICE_IDENTITY_MODE=jwt"}
		},
	}
	// What is printed anyway: a secret of these letters alone proves nothing.
	plain, _ := tryLoad(nil)
	var public bytes.Buffer
	_ = plain.WriteYAML(&public)
	f.Fuzz(func(t *testing.T, secret string, where uint8) {
		if len(secret) < 6 || strings.ContainsAny(secret, "\x00\n") || strings.Contains(public.String(), secret) || strings.Trim(secret, "abcdefghijklmnopqrstuvwxyz ./:,0123456789-_") == "" {
			t.Skip()
		}
		environ := places[int(where)%len(places)](secret)
		got, err := tryLoad(environ)
		shown := printed(t, got.Config)
		if err != nil {
			shown += err.Error()
		}
		if strings.Contains(shown, secret) {
			t.Fatalf("%q shows its secret:\n%s", environ, shown)
		}
	})
}

// FuzzNetwork: a range that is read is printed as one that is the same, and holds its
// own address.
func FuzzNetwork(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "10.1.2.3/8", "192.0.2.7", "fd00::/8", "::ffff:1.2.3.4", "::ffff:1.2.3.4/120", "fe80::1%eth0", "0.0.0.0/0", "1.2.3.4/33", "010.0.0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		prefix, err := ParseNetwork(s)
		if err != nil {
			if prefix != (netip.Prefix{}) {
				t.Fatalf("%q is refused as %v", s, prefix)
			}
			return
		}
		again, err := ParseNetwork(prefix.String())
		if err != nil || again != prefix || !prefix.Contains(prefix.Addr()) || prefix != prefix.Masked() {
			t.Fatalf("%q is %v, and that is %v, %v", s, prefix, again, err)
		}
	})
}

// FuzzParseSecrets: each of several secrets is long enough, and nothing is added.
func FuzzParseSecrets(f *testing.F) {
	f.Add(strings.Repeat("k", 32))
	f.Add(strings.Repeat("k", 31))
	f.Add("base64:" + strings.Repeat("QUJD", 11) + "," + strings.Repeat("x", 40))
	f.Add("base64:" + strings.Repeat("QUJD", 11) + "=== , base64:")
	f.Add(",")
	f.Fuzz(func(t *testing.T, s string) {
		secrets, err := ParseSecrets(Secret(s))
		if err != nil {
			if secrets != nil || len(s) > 6 && strings.Contains(err.Error(), s) {
				t.Fatalf("%q: %q, %v", s, secrets, err)
			}
			return
		}
		if len(secrets) != strings.Count(s, ",")+1 {
			t.Fatalf("%d secrets of %q", len(secrets), s)
		}
		for _, one := range secrets {
			if len(one) < minSecret || len(one) > len(s) {
				t.Fatalf("a secret of %d bytes of %q", len(one), s)
			}
		}
	})
}

// FuzzFormatDuration: a duration is read back as the same.
func FuzzFormatDuration(f *testing.F) {
	for _, d := range []time.Duration{0, 1, time.Minute, time.Hour, 90 * time.Minute, time.Hour + time.Second, 24 * time.Hour} {
		f.Add(int64(d))
	}
	f.Fuzz(func(t *testing.T, n int64) {
		d := time.Duration(n)
		if back, err := time.ParseDuration(formatDuration(d)); err != nil || back != d {
			t.Fatalf("%d ns is printed as %s and read as %v, %v", n, formatDuration(d), back, err)
		}
	})
}
