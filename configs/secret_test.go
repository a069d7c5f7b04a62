package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestParseSecrets(t *testing.T) {
	t.Parallel()
	plain := strings.Repeat("k", 32)
	got, err := ParseSecrets(Secret(plain + ", base64:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="))
	if err != nil {
		t.Fatal(err)
	}
	want := [][]byte{[]byte(plain), []byte("0123456789abcdef0123456789abcdef")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"short", plain + ",", "base64:c2hvcnQ", "base64:*"} {
		if _, err := ParseSecrets(Secret(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestSecretIsMadeOnce(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Data = filepath.Join(t.TempDir(), "new", "data")
	const starters = 20
	got := make([][][]byte, starters)
	var wg sync.WaitGroup
	for i := range starters {
		wg.Go(func() {
			var err error
			if got[i], err = c.Secrets(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range got {
		if !reflect.DeepEqual(got[i], got[0]) || len(got[i]) != 1 {
			t.Fatalf("starter %d has another secret", i)
		}
	}
	entries, err := os.ReadDir(c.Data)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != secretFile {
		t.Errorf("the folder holds %v", entries)
	}
	info, err := os.Stat(filepath.Join(c.Data, secretFile))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the secret's mode is %v", info.Mode())
	}
	if err := os.WriteFile(filepath.Join(c.Data, secretFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Secrets(); err == nil {
		t.Error("an emptied secret was accepted")
	}
}
