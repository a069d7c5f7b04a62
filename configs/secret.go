package configs

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	minSecret  = 32 // bytes
	secretFile = "secret"
)

// ParseSecrets splits a configured secret at its commas and decodes base64:….
// The first is the one to sign with. The error says which value is wrong and
// never what it is.
func ParseSecrets(s Secret) ([][]byte, error) {
	var out [][]byte
	for i, part := range strings.Split(string(s), ",") {
		part = strings.TrimSpace(part)
		raw := []byte(part)
		if text, ok := strings.CutPrefix(part, "base64:"); ok {
			var err error
			if raw, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=")); err != nil {
				return nil, fmt.Errorf("value %d is not base64", i+1)
			}
		}
		if len(raw) < minSecret {
			return nil, fmt.Errorf("value %d has %d bytes, and each must have at least %d", i+1, len(raw), minSecret)
		}
		out = append(out, raw)
	}
	return out, nil
}

func secretRule(s string) error {
	_, err := ParseSecrets(Secret(s))
	return err
}

// Secrets are the configured secrets, or without any the one in the data
// folder, which is made at the first start.
func (c Config) Secrets() ([][]byte, error) {
	if c.Secret != "" {
		return ParseSecrets(c.Secret)
	}
	return keptSecret(c.Data)
}

// keptSecret reads the secret of a data folder, making folder and secret when
// they are missing. Of two processes that start at once both get the same one:
// the file appears complete under its name or not at all.
func keptSecret(dir string) ([][]byte, error) {
	path := filepath.Join(dir, secretFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeSecret(dir, path); err != nil {
			return nil, fmt.Errorf("making a secret in the data folder: %w", err)
		}
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the secret: %w", err)
	}
	secrets, err := ParseSecrets(Secret(strings.TrimSpace(string(raw))))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secrets, nil
}

func makeSecret(dir, path string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, secretFile+".*") // 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	random := make([]byte, minSecret)
	rand.Read(random) // never fails, by its contract
	_, err = fmt.Fprintf(f, "base64:%s\n", base64.StdEncoding.EncodeToString(random))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another process has made
	// in the meantime.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
