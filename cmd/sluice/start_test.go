package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/configs"
	"sluice/servicetest"
	"sluice/web"
)

// A need is tried for until it is met, ever more seldom and with few words, and no
// longer than it makes sense or anybody wants it.
func TestNeedIsAwaited(t *testing.T) {
	t.Parallel()
	away, never := errors.New("away"), errors.New("never")
	await := func(ctx context.Context, met func(attempt int) error) (attempts int, log string, took time.Duration, err error) {
		out := newLines()
		begun := time.Now()
		n := need{
			name: "store", meet: func(context.Context) error { attempts++; return met(attempts) },
			passes: func(err error) bool { return errors.Is(err, away) },
		}
		err = n.await(ctx, slog.New(slog.NewTextHandler(out, nil)))
		return attempts, out.String(), time.Since(begun), err
	}
	synctest.Test(t, func(t *testing.T) {
		attempts, log, took, err := await(t.Context(), func(int) error { return nil })
		if err != nil || attempts != 1 || took != 0 || log != "" {
			t.Errorf("there at once: %d attempts, %v, log %q, %v", attempts, took, log, err)
		}

		begun := time.Now()
		attempts, log, took, err = await(t.Context(), func(int) error {
			if time.Since(begun) < 10*time.Minute {
				return away
			}
			return nil
		})
		most := 10*time.Minute + longestPause
		if err != nil || took < 10*time.Minute || took > most || attempts < int(most/longestPause) || attempts > 2*int(most/longestPause)+10 {
			t.Errorf("there after 10 minutes: %d attempts, %v, %v", attempts, took, err)
		}
		if warned := strings.Count(log, "not ready"); warned < 8 || warned > 11 || strings.Count(log, "is there") != 1 {
			t.Errorf("log:\n%s", log)
		}

		attempts, log, _, err = await(t.Context(), func(attempt int) error {
			return []error{away, never}[attempt-1]
		})
		if !errors.Is(err, never) || attempts != 2 {
			t.Errorf("turned out to be hopeless: %d attempts, %v, log:\n%s", attempts, err, log)
		}

		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, _, took, err = await(ctx, func(int) error { return away })
		if err == nil || took != time.Minute {
			t.Errorf("stopped after a minute: %v, %v", took, err)
		}
	})
}

// What was read of a line while another store was waited for is read again before the
// first request: the line may have been started anew, and its earlier tokens be dead.
func TestLinesAreReadAgainAfterAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(toThisCentury)
		shared := newSharedLines()
		lines := processOn(t, shared, configs.Default(), noLog)
		here := time.Now().Add(time.Hour)
		a := &app{log: noLog, started: web.NewStart("line", "database"), needs: []need{
			{name: "line", meet: lines.openAll},
			{name: "database", passes: func(error) bool { return true }, meet: func(context.Context) error {
				if time.Now().Before(here) {
					return errors.New("away")
				}
				return nil
			}},
		}}
		met := make(chan error, 1)
		go func() { met <- a.meetNeeds(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if missing := a.started.Missing(); !slices.Equal(missing, []string{"database"}) {
			t.Fatalf("it misses %q", missing)
		}
		epoch, err := shared.lines[web.DefaultLine].Restart(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := <-met; err != nil || len(a.started.Missing()) > 0 {
			t.Fatalf("it misses %q, %v", a.started.Missing(), err)
		}
		if got := viewOf(t, lines, web.DefaultLine).Epoch; got != epoch {
			t.Errorf("it serves the epoch %d, and the line is at %d", got, epoch)
		}
	})
}

// Processes that start before their stores answer at once, tell what they wait for, and
// serve by themselves when it is there; one of them migrates.
func TestStartBeforeTheStores(t *testing.T) {
	t.Parallel()
	database, redis := servicetest.OwnMariaDB(t), servicetest.OwnRedis(t)
	database.Stop()
	redis.Stop()
	environ := []string{"SLUICE_DATABASE=" + database.URL, "SLUICE_REDIS=" + redis.URL, "SLUICE_SECRET=" + strings.Repeat("shared-secret-", 3)}
	early := []*early{beginEarly(t, environ...), beginEarly(t, environ...), beginEarly(t, environ...)}

	for _, at := range early {
		at.misses(t, "redis", "database", "coupons.mode")
		for _, path := range []string{"/", "/wait", "/assets/wait.js"} {
			at.answers(t, http.MethodGet, at.public+path, http.StatusOK, "")
		}
		at.answers(t, http.MethodGet, at.admin+"/healthz", http.StatusOK, "")
		at.answers(t, http.MethodGet, at.admin+"/metrics", http.StatusOK, "")
		at.answers(t, http.MethodPost, at.public+"/queue/enter", http.StatusServiceUnavailable, "queue_unavailable")
		at.answers(t, http.MethodGet, at.public+"/products", http.StatusServiceUnavailable, "database_unavailable")
		at.answers(t, http.MethodPatch, at.admin+"/admin/api/lines/default", http.StatusServiceUnavailable, "queue_unavailable")
		at.answers(t, http.MethodGet, at.public+"/nowhere", http.StatusNotFound, "not_found")
	}
	for _, at := range early {
		at.log.await(t, "need=redis")
		at.log.await(t, "need=database")
	}
	redis.Start()
	for _, at := range early {
		at.misses(t, "database")
		at.answers(t, http.MethodGet, at.public+"/products", http.StatusServiceUnavailable, "database_unavailable")
		at.answers(t, http.MethodPost, at.public+"/orders", http.StatusServiceUnavailable, "database_unavailable")
	}
	database.Start()
	for _, at := range early {
		at.misses(t)
	}
	a, b := early[0].instance, early[1].instance
	product := addProduct(t, a, 1)
	v := &visitor{t: t}
	v.enter(a)
	v.beAdmitted(b)
	if status, answer := v.order(early[2].instance, product); status != http.StatusCreated {
		t.Errorf("order: %d %v", status, answer)
	}
	for _, at := range early {
		at.saidOf(t, "not ready", 2, 3)
		at.saidOf(t, "is there", 2, 3)
	}
}

// A database that takes connections and is silent, or has none left, is waited for like
// one that is not there; whoever stops meanwhile is not kept waiting.
func TestStartBeforeTheDatabaseAnswers(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *servicetest.MariaDB) (end func()){
		"silent": func(_ *testing.T, m *servicetest.MariaDB) func() {
			m.Freeze()
			return m.Thaw
		},
		"no connection left": takeConnections,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := servicetest.OwnMariaDB(t)
			end := begin(t, database)
			waits, leaves := beginEarly(t, "SLUICE_DATABASE="+database.URL), beginEarly(t, "SLUICE_DATABASE="+database.URL)
			waits.misses(t, "database")
			leaves.misses(t, "database")
			if code := leaves.end(); code != exitOK {
				t.Errorf("exit %d", code)
			}
			if log := leaves.log.String(); !strings.Contains(log, "stopped while starting") {
				t.Errorf("log:\n%s", log)
			}
			end()
			waits.misses(t)
			waits.answers(t, http.MethodGet, waits.public+"/products", http.StatusOK, "")
		})
	}
}

// A process that gives coupons out in another way than those there are does not begin
// beside them: it says so, and begins when they have ended.
func TestStartWithOtherCoupons(t *testing.T) {
	t.Parallel()
	shared := sharedStores(t)
	before := serveEmbedded(t, shared...)
	eventually(t, "it is in the register", func() bool {
		_, line := call(t, http.MethodGet, before.admin+"/admin/api/lines/default", nil, "")
		all, _ := line["processes"].([]any)
		return len(all) == 1
	})
	same := serveEmbedded(t, append(shared, "SLUICE_COUPONS_MODE=database")...)
	other := beginEarly(t, append(shared, "SLUICE_COUPONS_MODE=redis")...)
	other.misses(t, "coupons.mode")
	other.log.await(t, "has coupons.mode database, this one redis")
	before.end()
	same.end()
	other.misses(t)
}

// What nobody gets by waiting ends the start, with the reason and no secret.
func TestStartThatCannotSucceed(t *testing.T) {
	t.Parallel()
	database, redis, evicting := servicetest.OwnMariaDB(t), servicetest.OwnRedis(t), servicetest.OwnRedis(t)
	with := func(change func(*url.URL)) string {
		u, err := url.Parse(database.URL)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return "SLUICE_DATABASE=" + u.String()
	}
	configure := func(of *servicetest.RedisServer, key, value string) {
		if err := of.Client().ConfigSet(t.Context(), key, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	configure(evicting, "maxmemory", "100mb")
	configure(evicting, "maxmemory-policy", "allkeys-lru")
	configure(redis, "requirepass", "not-hunter2")
	later := serveEmbedded(t, "SLUICE_DATABASE="+database.URL)
	later.end()
	database.Exec("UPDATE sluice_test_own.goose_db_version SET version_id = 9999 ORDER BY id DESC LIMIT 1")

	redisAt := strings.TrimPrefix(redis.URL, "redis://")
	for name, c := range map[string]struct{ store, says string }{
		"wrong password":       {with(func(u *url.URL) { u.User = url.UserPassword("sluice_test", "hunter2") }), "Access denied"},
		"no right to a schema": {with(func(u *url.URL) { u.Path = "/mysql" }), "Access denied"},
		"no TLS there":         {with(func(u *url.URL) { u.RawQuery = "tls=true" }), "TLS"},
		"a later schema":       {"SLUICE_DATABASE=" + database.URL, "version 9999"},
		"no password":          {"SLUICE_REDIS=" + redis.URL, "NOAUTH"},
		"another password":     {"SLUICE_REDIS=redis://:hunter2@" + redisAt, "WRONGPASS"},
		"evicting":             {"SLUICE_REDIS=" + evicting.URL, "noeviction"},
		"no such number":       {"SLUICE_REDIS=" + evicting.URL + "/99", "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, errs := newLines(), newLines()
			code := run(ctx, []string{"serve"}, []string{
				"SLUICE_LISTEN=127.0.0.1:0", "SLUICE_ADMIN_LISTEN=127.0.0.1:0", "SLUICE_DATA=" + t.TempDir(),
				"SLUICE_SECRET=" + strings.Repeat("k", 32), c.store,
			}, out, errs)
			said := errs.String()
			if code != exitFailed || out.String() != "" || !strings.Contains(said, c.says) || strings.Contains(said, "hunter2") {
				t.Errorf("exit %d, stdout %q, stderr:\n%s", code, out, said)
			}
		})
	}
}

// takeConnections takes all that a server has.
func takeConnections(t *testing.T, m *servicetest.MariaDB) (giveBack func()) {
	t.Helper()
	const all = 10 // the fewest that it may be told to have
	m.Exec(fmt.Sprintf("SET GLOBAL max_connections = %d", all))
	db := m.Connect()
	for range all {
		eventually(t, "another connection is free for the test", func() bool { // one of before may still be closing
			c, err := db.Conn(t.Context())
			if err == nil {
				t.Cleanup(func() { _ = c.Close() })
			}
			return err == nil
		})
	}
	return func() { m.Exec("SET GLOBAL max_connections = 151") }
}

// early is an instance on addresses that are known before it is ready.
type early struct{ *instance }

func beginEarly(t *testing.T, environ ...string) *early {
	t.Helper()
	public, admin := freeAddress(t), freeAddress(t)
	i, _ := begin(t, append([]string{"SLUICE_LISTEN=" + public, "SLUICE_ADMIN_LISTEN=" + admin}, environ...)...)
	i.public, i.admin = "http://"+public, "http://"+admin
	return &early{i}
}

// misses waits until readiness names these and nothing else.
func (e *early) misses(t *testing.T, needs ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("readiness misses %q", needs), func() bool {
		status, answer, err := try(t.Context(), http.MethodGet, "", e.admin+"/readyz", nil, "")
		if err != nil {
			return false // it has just begun
		}
		var missing []string
		all, _ := answer["missing"].([]any)
		for _, one := range all {
			missing = append(missing, one.(string))
		}
		return slices.Equal(missing, needs) && (status == http.StatusOK) == (len(needs) == 0)
	})
}

// answers asks once; a 503 must say when to come again.
func (e *early) answers(t *testing.T, method, at string, want int, code string) {
	t.Helper()
	status, answer := call(t, method, at, nil, map[string]string{http.MethodPatch: "{}", http.MethodPost: "{}"}[method])
	if status != want || code != "" && answer["code"] != code {
		t.Errorf("%s %s: %d %v, want %d %s", method, at, status, answer, want, code)
	}
	if after, _ := answer["retry_after_ms"].(float64); status == http.StatusServiceUnavailable && after < 1000 {
		t.Errorf("%s %s: %v", method, at, answer)
	}
}

func (e *early) saidOf(t *testing.T, what string, least, most int) {
	t.Helper()
	if n := strings.Count(e.log.String(), what); n < least || n > most {
		t.Errorf("%q is in the log %d times:\n%s", what, n, e.log)
	}
}
