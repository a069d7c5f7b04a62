package configs

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one thing that can be set, bound to its field of a Config.
type key struct {
	path string // "line.tick"
	flag string // the command-line flag that sets it, if there is one
	// set parses a value as a source gave it (text from the environment and
	// flags; text, int, float64, bool or a list from YAML) into the field. Its
	// error is the rule that the value breaks and does not repeat the value.
	set func(raw any) error
	// get is the value for printing: text, number, list or nil; secrets masked.
	get func() any
	// show is a value that somebody gave, fit for a message.
	show func(raw any) string
}

// env is the variable that sets the key.
func (k key) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
}

const envPrefix = "SLUICE_"

// Bounds of a line, which are package queue's; a test of cmd/sluice holds them
// together.
const (
	maxTick    = 200 * time.Millisecond
	maxHold    = 10 * time.Minute
	maxRate    = 10_000 // admissions/s
	maxWeight  = 1000
	maxPolls   = 1_000_000 // polls/s
	maxPeople  = 1_000_000_000
	maxMessage = 1000 // bytes
)

// keys is the one list of what can be set; order is that of the printed
// configuration.
func keys(c *Config) []key {
	return []key{
		withFlag("listen", text("listen", &c.Listen, address)),
		withFlag("admin", text("admin.listen", &c.Admin.Listen, address)),
		text("admin.token", &c.Admin.Token, operatorToken),
		list("admin.hosts", &c.Admin.Hosts, hostName),
		withFlag("role", text("role", &c.Role, oneOf(RoleAll, RoleQueue, RoleOrders))),
		withFlag("redis", text("redis", &c.Redis, redisURL)),
		withFlag("database", text("database", &c.Database, databaseURL)),
		withFlag("data", text("data", &c.Data, nonEmpty)),
		text("secret", &c.Secret, secretRule),

		duration("line.tick", &c.Line.Tick, 10*time.Millisecond, maxTick),
		duration("line.jitter", &c.Line.Jitter, 0, 10*time.Minute),
		duration("line.admission_ttl", &c.Line.AdmissionTTL, time.Second, 24*time.Hour),
		// Who is told to come back in a minute must still find the ticket renewed.
		duration("line.ticket_ttl", &c.Line.TicketTTL, 5*time.Minute, 30*24*time.Hour),
		duration("line.keep_place", &c.Line.KeepPlace, 0, 30*24*time.Hour),
		duration("line.recovery_hold", &c.Line.RecoveryHold, 0, maxHold),
		whole("line.max_length", &c.Line.MaxLength, 0, maxPeople),
		whole("line.max_active", &c.Line.MaxActive, 0, maxPeople),
		number("line.poll_budget", &c.Line.PollBudget, 0, maxPolls),
		number("line.initial_rate", &c.Line.InitialRate, 0, maxRate),
		lineList(linesKey, &c.Lines),

		number("admission.margin", &c.Admission.Margin, 0.01, 1),
		text("admission.on_redis_failure", &c.Admission.OnRedisFailure, oneOf(OnFailureBlock, OnFailureBypass)),
		list("admission.algorithms", &c.Admission.Algorithms, oneOf(AlgorithmHS256, AlgorithmEdDSA)),

		text("identity.mode", &c.Identity.Mode, oneOf(IdentityAnonymous, IdentityHeader, IdentityJWT)),
		list("identity.trusted_proxies", &c.Identity.TrustedProxies, network),
		text("identity.key", &c.Identity.Key, anything),
		maskedURL(text("identity.jwks", &c.Identity.JWKS, keySet)),
		text("identity.issuer", &c.Identity.Issuer, anything),
		text("identity.audience", &c.Identity.Audience, anything),

		whole("limits.poll_factor", &c.Limits.PollFactor, 0, 1_000_000),
		whole("limits.enter_per_address", &c.Limits.EnterPerAddress, 0, 1_000_000),
		// Each bit doubles the work: 24 keep a phone busy for a minute.
		whole("limits.proof_of_work", &c.Limits.ProofOfWork, 0, 24),

		list("cors.origins", &c.CORS.Origins, origin),

		// What a shop's address, logo and folder must be is package web/pages' to say.
		text("pages.name", &c.Pages.Name, shortName),
		text("pages.shop", &c.Pages.Shop, nonEmpty),
		text("pages.currency", &c.Pages.Currency, currency),
		text("pages.logo", &c.Pages.Logo, anything),
		text("pages.accent", &c.Pages.Accent, colour),
		text("pages.accent_dark", &c.Pages.AccentDark, colour),
		text("pages.background", &c.Pages.Background, colour),
		text("pages.background_dark", &c.Pages.BackgroundDark, colour),
		text("pages.text", &c.Pages.Text, colour),
		text("pages.text_dark", &c.Pages.TextDark, colour),
		text("pages.folder", &c.Pages.Folder, anything),

		whole("orders.workers", &c.Orders.Workers, 1, 10_000),
		whole("orders.backlog", &c.Orders.Backlog, 1, 1_000_000),
		duration("orders.deadline", &c.Orders.Deadline, time.Millisecond, 10*time.Minute),
		duration("orders.wait_target", &c.Orders.WaitTarget, time.Millisecond, 10*time.Minute),
		duration("orders.assumed_time", &c.Orders.AssumedTime, time.Millisecond, 10*time.Minute),
		durationOrZero("orders.pay_within", &c.Orders.PayWithin, time.Second, 30*24*time.Hour),
		duration("orders.followup_ttl", &c.Orders.FollowupTTL, time.Second, 365*24*time.Hour),
		duration("orders.test_delay", &c.Orders.TestDelay, 0, time.Minute),

		text("coupons.mode", &c.Coupons.Mode, oneOf(CouponsDatabase, CouponsRedis)),
		text("coupons.ack", &c.Coupons.Ack, oneOf(AckCommitted, AckIssued)),

		text("payments.provider", &c.Payments.Provider, providerURL),
		text("payments.token", &c.Payments.Token, headerToken),
		duration("payments.timeout", &c.Payments.Timeout, 10*time.Millisecond, 10*time.Minute),
		whole("payments.at_once", &c.Payments.AtOnce, 1, 100_000),

		text("log.level", &c.Log.Level, oneOf("debug", "info", "warn", "error")),
		text("log.format", &c.Log.Format, oneOf("text", "json")),
		whole("log.access_every", &c.Log.AccessEvery, 0, 1_000_000_000),

		text("tracing.endpoint", &c.Tracing.Endpoint, collectorURL),
		number("tracing.sample", &c.Tracing.Sample, 0, 1),
		truth("tracing.follow_proxies", &c.Tracing.FollowProxies),

		duration("drain_delay", &c.DrainDelay, 0, 10*time.Minute),
		duration("drain_timeout", &c.DrainTimeout, 0, 10*time.Minute),
	}
}

func withFlag(name string, k key) key {
	k.flag = name
	return k
}

// text binds a string; how it is shown is decided by its type.
func text[T ~string](path string, p *T, rule func(string) error) key {
	shown := func(s T) string {
		if m, ok := any(s).(fmt.Stringer); ok {
			return m.String()
		}
		return string(s)
	}
	return key{
		path: path,
		set: func(raw any) error {
			s, ok := raw.(string)
			if !ok {
				return fmt.Errorf("must be text, not %s", kind(raw))
			}
			if err := rule(s); err != nil {
				return err
			}
			*p = T(s)
			return nil
		},
		get: func() any { return shown(*p) },
		show: func(raw any) string {
			if s, ok := raw.(string); ok {
				return strconv.Quote(shown(T(s)))
			}
			return shown(T(fmt.Sprint(raw)))
		},
	}
}

// maskedURL hides the password in what is a file or an address.
func maskedURL(k key) key {
	hide := func(v any) any {
		if s, ok := v.(string); ok && strings.Contains(s, "://") {
			return URL(s).String()
		}
		return v
	}
	get, show := k.get, k.show
	k.get = func() any { return hide(get()) }
	k.show = func(raw any) string { return show(hide(raw)) }
	return k
}

func list(path string, p *[]string, rule func(string) error) key {
	return key{
		path: path,
		set: func(raw any) error {
			var items []string
			switch v := raw.(type) {
			case string:
				for item := range strings.SplitSeq(v, ",") {
					if item = strings.TrimSpace(item); item != "" {
						items = append(items, item)
					}
				}
			case []any:
				for _, item := range v {
					s, ok := item.(string)
					if !ok {
						return fmt.Errorf("must be a list of texts, %s is in it", kind(item))
					}
					items = append(items, s)
				}
			default:
				return fmt.Errorf("must be a list, not %s", kind(raw))
			}
			for _, item := range items {
				if err := rule(item); err != nil {
					return err
				}
			}
			*p = items
			return nil
		},
		get:  func() any { return slices.Clone(*p) },
		show: showPlain,
	}
}

func duration(path string, p *time.Duration, lo, hi time.Duration) key {
	return durationKey(path, p, func(d time.Duration) error {
		if d < lo || d > hi {
			return fmt.Errorf("must be between %s and %s", formatDuration(lo), formatDuration(hi))
		}
		return nil
	})
}

// durationOrZero is for what 0 switches off.
func durationOrZero(path string, p *time.Duration, lo, hi time.Duration) key {
	return durationKey(path, p, func(d time.Duration) error {
		if d != 0 && (d < lo || d > hi) {
			return fmt.Errorf("must be 0s, or between %s and %s", formatDuration(lo), formatDuration(hi))
		}
		return nil
	})
}

func durationKey(path string, p *time.Duration, rule func(time.Duration) error) key {
	const form = "must be a duration with a unit, such as 100ms, 5s or 3m"
	return key{
		path: path,
		set: func(raw any) error {
			s, ok := raw.(string)
			if !ok {
				return fmt.Errorf("%s, not %s", form, kind(raw))
			}
			d, err := time.ParseDuration(s)
			if err != nil {
				return errors.New(form)
			}
			if err := rule(d); err != nil {
				return err
			}
			*p = d
			return nil
		},
		get:  func() any { return formatDuration(*p) },
		show: showPlain,
	}
}

func whole[T int | int64](path string, p *T, lo, hi T) key {
	return key{
		path: path,
		set: func(raw any) error {
			var n int64
			switch v := raw.(type) {
			case int:
				n = int64(v)
			case uint64: // more than an int64 holds
				return fmt.Errorf("must be between %d and %d", lo, hi)
			case string:
				var err error
				if n, err = strconv.ParseInt(v, 10, 64); err != nil {
					return fmt.Errorf("must be a whole number between %d and %d", lo, hi)
				}
			default:
				return fmt.Errorf("must be a whole number between %d and %d, not %s", lo, hi, kind(raw))
			}
			if n < int64(lo) || n > int64(hi) {
				return fmt.Errorf("must be between %d and %d", lo, hi)
			}
			*p = T(n)
			return nil
		},
		get:  func() any { return int64(*p) },
		show: showPlain,
	}
}

func number(path string, p *float64, lo, hi float64) key {
	return key{
		path: path,
		set: func(raw any) error {
			var f float64
			switch v := raw.(type) {
			case int:
				f = float64(v)
			case float64:
				f = v
			case string:
				var err error
				if f, err = strconv.ParseFloat(v, 64); err != nil {
					return fmt.Errorf("must be a number between %v and %v", plain(lo), plain(hi))
				}
			default:
				return fmt.Errorf("must be a number between %v and %v, not %s", plain(lo), plain(hi), kind(raw))
			}
			if math.IsNaN(f) || f < lo || f > hi {
				return fmt.Errorf("must be between %v and %v", plain(lo), plain(hi))
			}
			*p = f
			return nil
		},
		get:  func() any { return *p },
		show: showPlain,
	}
}

// plain prints a number without an exponent.
func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func showPlain(raw any) string {
	if s, ok := raw.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(raw)
}

// kind names the type of a raw value for somebody who writes YAML.
func kind(raw any) string {
	switch raw.(type) {
	case string:
		return "text"
	case int:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a section"
	}
	return fmt.Sprintf("a %T", raw)
}

// formatDuration prints a duration without the zero units that time.Duration adds:
// 3m, not 3m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// SlogLevel is the level for slog.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		return slog.LevelInfo // checked by Load
	}
	return level
}
