package configs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Rules of single values. Their errors complete "key = value: …".

func nonEmpty(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("must not be blank")
	}
	return nil
}

func oneOf(choices ...string) func(string) error {
	return func(s string) error {
		for _, c := range choices {
			if s == c {
				return nil
			}
		}
		return fmt.Errorf("must be one of %s", strings.Join(choices, ", "))
	}
}

func address(s string) error {
	rule := errors.New("must be host:port, such as 127.0.0.1:8080, [::1]:8080 or :8080")
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return rule
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return rule
	}
	return nil
}

// headerSafe is for a token that has to travel in an HTTP header.
func headerSafe(s string) error {
	for _, r := range s {
		if r <= ' ' || r > '~' {
			return errors.New("must be printable ASCII without spaces")
		}
	}
	return nil
}

func hostName(s string) error {
	if s == "" || strings.ContainsAny(s, "/@ \t*") {
		return errors.New("must be host names with or without a port, such as ops.example.com, no URLs or patterns")
	}
	return nil
}

// redisURL checks the shape only; whether it can be reached shows at start.
func redisURL(s string) error {
	scheme, rest, _ := strings.Cut(s, "://")
	hosts := rest
	if i := strings.IndexAny(hosts, "/?"); i >= 0 {
		hosts = hosts[:i]
	}
	switch scheme {
	case "redis", "rediss", "redis-cluster", "redis-sentinel":
	default:
		return errors.New("must begin with redis://, rediss://, redis-cluster:// or redis-sentinel://")
	}
	if hosts == "" || strings.HasSuffix(hosts, "@") {
		return errors.New("must name a host")
	}
	if scheme == "redis-sentinel" && !strings.Contains(rest, "master=") {
		return errors.New("must name the master: redis-sentinel://a,b,c?master=name")
	}
	return nil
}

var databaseShape = regexp.MustCompile(`^mysql://.*@?[^@/]+/[A-Za-z0-9_$-]{1,64}(\?.*)?$`)

func databaseURL(s string) error {
	if !databaseShape.MatchString(s) {
		return errors.New("must be mysql://user:password@host:port/name")
	}
	return nil
}

func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// crossed are the rules between keys. A key whose own value was refused is
// judged by its default here, which breaks none of them.
func (c Config) crossed() []Mistake {
	var out []Mistake
	miss := func(key, rule string) { out = append(out, Mistake{Key: key, Rule: rule}) }
	if c.Role != RoleAll && c.Redis == "" {
		miss("redis", fmt.Sprintf("must be set when role is %s: the halves meet in it", c.Role))
	}
	if c.Redis != "" && c.Secret == "" {
		miss("secret", "must be set when redis is: every process must sign with the same one (make one with: openssl rand -hex 32)")
	}
	if !loopback(c.Admin.Listen) && c.Admin.Token == "" {
		miss("admin.token", fmt.Sprintf("must be set when admin.listen is not a loopback address, and it is %s", c.Admin.Listen))
	}
	if _, port, _ := net.SplitHostPort(c.Listen); c.Listen == c.Admin.Listen && port != "0" {
		miss("admin.listen", "must differ from listen")
	}
	return out
}
