package configs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
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

// headerToken is for a secret that has to travel in an HTTP header.
func headerToken(s string) error {
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

func anything(string) error { return nil }

// network is a range of addresses, or one.
func network(s string) error {
	if _, err := ParseNetwork(s); err != nil {
		return errors.New("must be addresses or ranges of them, such as 10.0.0.0/8, 192.0.2.7 or fd00::/8")
	}
	return nil
}

// ParseNetwork reads a range of addresses; a single address is the range of itself.
// Those of IPv4 written as IPv6 are of IPv4, as those that connections come from.
func ParseNetwork(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errors.New("configs: no address")
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errors.New("configs: no range of addresses")
	}
	const mapped = 128 - 32 // bits in front of the address of IPv4
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= mapped {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-mapped)
	}
	return prefix.Masked(), nil
}

// keySet is a file, or an address of the web. Empty is none.
func keySet(s string) error {
	if !strings.Contains(s, "://") {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("must be a file, or begin with http:// or https:// and name a host")
	}
	return nil
}

// origin is what a browser puts into the header of that name: a name in ASCII, no port
// that is the scheme's own. Anything else would be listed and never match.
func origin(s string) error {
	u, err := url.Parse(s)
	own := map[string]string{"http": "80", "https": "443"}
	if err != nil || own[u.Scheme] == "" || u.Hostname() == "" || s != u.Scheme+"://"+u.Host || !ofAnOrigin.MatchString(u.Host) || u.Port() == own[u.Scheme] {
		return errors.New("must be origins as a browser writes them, such as https://www.example.com: in lower case and ASCII, without a path, a pattern or the usual port")
	}
	return nil
}

var ofAnOrigin = regexp.MustCompile(`^([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]+)?$`)

var (
	hexColour    = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
)

// colour also takes none.
func colour(s string) error {
	if s != "" && !hexColour.MatchString(s) {
		return errors.New("must be a colour as \"#rrggbb\" (in quotes: YAML takes what is behind # for a remark)")
	}
	return nil
}

func currency(s string) error {
	if !currencyCode.MatchString(s) {
		return errors.New("must be three capital letters, such as EUR")
	}
	return nil
}

// shortName fits on top of a page.
func shortName(s string) error {
	if utf8.RuneCountInString(s) > 60 {
		return errors.New("must have at most 60 characters")
	}
	return nil
}

// redisURL checks the shape; cmd has the client that knows the rest check it
// too. Whether it can be reached shows at start. Empty is none.
func redisURL(s string) error {
	if s == "" {
		return nil
	}
	scheme, rest, _ := strings.Cut(s, "://")
	switch scheme {
	case "redis", "rediss", "redis-cluster", "redis-sentinel":
	default:
		return errors.New("must begin with redis://, rediss://, redis-cluster:// or redis-sentinel://")
	}
	hosts, more := rest, ""
	if i := strings.IndexAny(hosts, "/?#"); i >= 0 {
		hosts, more = hosts[:i], hosts[i:]
	}
	if strings.Contains(more, "@") {
		return errors.New("must have /, ?, # and @ in a password or parameter percent-encoded")
	}
	if hosts == "" || strings.HasSuffix(hosts, "@") {
		return errors.New("must name a host")
	}
	if scheme == "redis-sentinel" && !strings.Contains(rest, "master=") {
		return errors.New("must name the master: redis-sentinel://a,b,c?master=name")
	}
	return nil
}

var schemaName = regexp.MustCompile(`^/[A-Za-z0-9_-]{1,64}$`)

// databaseURL refuses what orders/sqlstore would: a URL that it cannot use is a
// mistake here, and not a failure to start. Empty is none.
func databaseURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" || !schemaName.MatchString(u.Path) || !validPort(u.Port()) {
		return errors.New("must be mysql://user:password@host:port/name, with special characters percent-encoded")
	}
	for name, values := range u.Query() {
		if name != "tls" {
			return fmt.Errorf("has the unknown parameter %q; there is tls", name)
		}
		if err := oneOf("true", "false", "skip-verify", "preferred")(values[0]); err != nil {
			return fmt.Errorf("has a parameter tls that %w", err)
		}
	}
	return nil
}

// providerURL is the address that the paths of payments are put behind. Empty is
// none.
func providerURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validPort(u.Port()) ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return errors.New("must be http://host or https://host, with a port and a path where there is one and nothing behind it, special characters percent-encoded")
	}
	return nil
}

// collectorURL is where spans are sent. Empty is nowhere.
func collectorURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validPort(u.Port()) {
		return errors.New("must be http://host:port or https://host:port, with a path where it is not /v1/traces, special characters percent-encoded")
	}
	return nil
}

// validPort also takes none.
func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && n > 0
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

// crossed are the rules between keys. A rule is left out when one of its keys
// has a mistake already: what that key is meant to be nobody knows, and its
// default would be blamed for what somebody did set.
func (c Config) crossed(already Mistakes) Mistakes {
	var out Mistakes
	// must adds the mistake to the first key.
	must := func(holds bool, rule string, keys ...string) {
		if !holds && !already.about(keys) {
			out = append(out, Mistake{Key: keys[0], Rule: rule})
		}
	}
	must(c.Role == RoleAll || c.Redis != "",
		fmt.Sprintf("must be set when role is %s: the halves meet in it", c.Role), "redis", "role")
	must(c.Redis == "" || c.Secret != "",
		"must be set when redis is: every process must sign with the same one (make one with: openssl rand -hex 32)", "secret", "redis")
	must(loopback(c.Admin.Listen) || c.Admin.Token != "",
		fmt.Sprintf("must be set when admin.listen is not a loopback address, and it is %s", c.Admin.Listen), "admin.token", "admin.listen")
	must(c.Coupons.Mode != CouponsRedis || c.Redis != "",
		"must be set when coupons.mode is redis", "redis", "coupons.mode")
	must(c.Coupons.Ack != AckIssued || c.Coupons.Mode == CouponsRedis,
		"must be redis when coupons.ack is issued: nothing else issues them", "coupons.mode", "coupons.ack")
	must(len(c.Admission.Algorithms) > 0, "must name at least one: the first signs", "admission.algorithms")
	must(c.Identity.Mode != IdentityHeader || len(c.Identity.TrustedProxies) > 0,
		"must be set when identity.mode is header: nobody else is believed", "identity.trusted_proxies", "identity.mode")
	must(!c.Tracing.FollowProxies || len(c.Identity.TrustedProxies) > 0,
		"must be set when tracing.follow_proxies is true: nobody else is followed", "identity.trusted_proxies", "tracing.follow_proxies")
	must(c.Identity.Mode != IdentityJWT || (c.Identity.Key == "") != (c.Identity.JWKS == ""),
		"must be set when identity.mode is jwt, or identity.jwks instead of it, and not both", "identity.key", "identity.jwks", "identity.mode")
	provider, err := url.Parse(string(c.Payments.Provider))
	must(c.Payments.Token == "" || err != nil || provider.User == nil,
		"must not be set when payments.provider names a user: one of the two", "payments.token", "payments.provider")
	_, port, _ := net.SplitHostPort(c.Listen)
	must(c.Listen != c.Admin.Listen || port == "0", "must differ from listen", "admin.listen", "listen")

	// A ticket that ends before its admission would be refused while its
	// holder still may order.
	longest := c.Line.Jitter + c.Line.AdmissionTTL
	must(c.Line.TicketTTL >= longest,
		fmt.Sprintf("must be at least line.jitter + line.admission_ttl, which is %s, and it is %s",
			formatDuration(longest), formatDuration(c.Line.TicketTTL)),
		"line.ticket_ttl", "line.jitter", "line.admission_ttl")
	// Who may still pay must be able to.
	must(c.Orders.FollowupTTL >= c.Orders.PayWithin,
		fmt.Sprintf("must be at least orders.pay_within, which is %s, and it is %s",
			formatDuration(c.Orders.PayWithin), formatDuration(c.Orders.FollowupTTL)),
		"orders.followup_ttl", "orders.pay_within")
	c.crossedLines(must)
	return out
}

// about reports whether one of the keys, or the section of one, has a mistake.
func (m Mistakes) about(keys []string) bool {
	return slices.ContainsFunc(m, func(mistake Mistake) bool {
		return slices.ContainsFunc(keys, func(key string) bool {
			return key == mistake.Key || strings.HasPrefix(key, mistake.Key+delimiter)
		})
	})
}
