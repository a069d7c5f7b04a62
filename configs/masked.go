package configs

import (
	"log/slog"
	"slices"
	"strings"
)

const mask = "***"

// Secret is a value that is never shown: printed or logged it is "***".
// Convert it to string where it is used.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return mask
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// URL is the address of a store or a service, whose password is never shown. Convert
// it to string where it is used.
type URL string

// String is the address with any password as "***".
func (u URL) String() string {
	scheme, rest, ok := strings.Cut(string(u), "://")
	if !ok {
		// No scheme: nobody knows which part of it is the password.
		return Secret(u).String()
	}
	// The last @ ends the user part: a password may hold an @ that somebody
	// forgot to escape. One in the query hides more than it must, never less.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(rest[:at], ":")
		if hasPassword {
			user += ":" + mask
		}
		rest = user + rest[at:]
	}
	return scheme + "://" + maskQuery(rest)
}

// secretNames are parts of the names of parameters that hold a secret.
var secretNames = []string{"pass", "key", "secret", "token"}

// maskQuery hides the value of a password given as a parameter.
func maskQuery(address string) string {
	address, query, ok := strings.Cut(address, "?")
	if !ok {
		return address
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		secret := func(part string) bool { return strings.Contains(strings.ToLower(name), part) }
		if slices.ContainsFunc(secretNames, secret) {
			parts[i] = name + "=" + mask
		}
	}
	return address + "?" + strings.Join(parts, "&")
}

// GoString hides the password from %#v.
func (u URL) GoString() string { return u.String() }

// LogValue hides the password from slog.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }
