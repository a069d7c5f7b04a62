package configs

import (
	"log/slog"
	"regexp"
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

// String is the address with what may be secret as "***": a password, a service's user
// without one, what is behind # and the values of parameters. A key in the path is shown.
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
		} else if !ofStore.MatchString(scheme) && !strings.ContainsAny(user, "/?#") {
			user = mask // services take a key there; a store takes a name
		}
		rest = user + rest[at:]
	}
	return scheme + "://" + maskRest(rest)
}

var (
	ofStore = regexp.MustCompile(`^(mysql|rediss?|redis-cluster|redis-sentinel)$`)
	// plainNames are the parameters that are shown. Any other may hold a key, whatever
	// its name.
	plainNames = []string{"master", "db", "tls"}
	plainValue = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)
)

// maskRest hides what parameters say, and what is behind #.
func maskRest(address string) string {
	i := strings.IndexAny(address, "?#")
	if i < 0 {
		return address
	}
	address, query := address[:i+1], address[i+1:]
	if strings.HasSuffix(address, "#") {
		return address + mask
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		switch {
		case !ok:
			parts[i] = mask
		case !slices.Contains(plainNames, name) || !plainValue.MatchString(value):
			parts[i] = name + "=" + mask
		}
	}
	return address + strings.Join(parts, "&")
}

// GoString hides the password from %#v.
func (u URL) GoString() string { return u.String() }

// LogValue hides the password from slog.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }
