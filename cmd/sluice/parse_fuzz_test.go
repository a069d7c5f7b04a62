package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"sluice/configs"
)

// FuzzReadDraw: what is read of a line's status is no draw, or one that can be checked.
func FuzzReadDraw(f *testing.F) {
	hash := strings.Repeat("0a", 32)
	f.Add(`{"line":"default"}`)
	f.Add(`{"line":"default","draw":{"seed_sha256":"` + hash + `","seed":null,"tickets_sha256":"` + hash + `"}}`)
	f.Add(`{"line":"default","draw":{"seed_sha256":"` + strings.ToUpper(hash) + `"}}`)
	f.Add(`{"line":"default","draw":{"seed":"short"}}`)
	f.Add(`{"line":1}`)
	f.Add(`{"line":"a","draw":[]} trailing`)
	f.Fuzz(func(t *testing.T, text string) {
		draw, err := readDraw(strings.NewReader(text))
		if err == nil && draw != nil && draw.Validate() != nil {
			t.Fatalf("%q is a draw that is none: %+v", text, draw)
		}
	})
}

// FuzzStoreURL: an address that the configuration takes is one that the client of the
// store takes; a mistake never shows the password.
func FuzzStoreURL(f *testing.F) {
	for _, s := range []string{
		"redis://u:p@h:1/2", "rediss://h", "redis-cluster://u:p@a:7000,b,[::1]:3", "redis-sentinel://a,b?master=m&db=2", "redis://h/0?dial_timeout=1s",
		"redis://u:p%40@h", "redis://:6379", "redis://h:99999", "redis-cluster://a//", "redis://h#f", "redis-sentinel://u@x@a?master=m",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if strings.ContainsRune(address, 0) {
			t.Skip() // no variable has one
		}
		flags := pflag.NewFlagSet("sluice", pflag.ContinueOnError)
		flags.SetOutput(io.Discard)
		configs.Flags(flags)
		loaded, err := load(flags, []string{"SLUICE_REDIS=" + address, "SLUICE_SECRET=" + strings.Repeat("k", 32)})
		if err == nil {
			return // load has dialled a client
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(loaded.Redis.String(), ":hunter2@") {
			t.Fatalf("%q shows its password: %v", address, err)
		}
	})
}
