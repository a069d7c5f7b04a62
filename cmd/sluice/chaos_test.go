//go:build prove

package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/servicetest"
)

// chaos is one run: two instances as processes, on a Redis and a MariaDB of its own,
// a crowd, and everything that goes wrong meanwhile. `make chaos` runs it.
type chaos struct {
	*testing.T
	seed     uint64
	over     time.Duration
	visitors int
	bypass   bool

	redis     *servicetest.RedisServer
	mariadb   *servicetest.MariaDB
	db        *sql.DB
	instances [2]*survivor
	dir       string

	begun    time.Time
	product  int
	coupon   int
	stock    int
	coupons  int
	crowd    *exec.Cmd
	said     bytes.Buffer // by the crowd
	happened []happening
	copied   int // polls answered from a copy of the places, as far as instances told before they were killed
}

// happening is a fault as it came about.
type happening struct {
	fault
	began, ended time.Time // ended is when it was undone
	note         string
}

func TestChaos(t *testing.T) {
	c := newChaos(t)
	c.openShop()
	c.startCrowd()
	c.play(planChaos(c.seed, c.over))
	ended := c.awaitCrowd()
	found := c.judge(ended)
	c.report(found)
}

// setting reads a parameter of the run; make chaos sets them.
func setting[T any](t *testing.T, name string, otherwise T, parse func(string) (T, error)) T {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	value, err := parse(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{
		T:        t,
		seed:     setting(t, "SEED", uint64(1), func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }),
		over:     setting(t, "DURATION", 150*time.Second, time.ParseDuration),
		visitors: setting(t, "VISITORS", 2000, strconv.Atoi),
		dir:      t.TempDir(),
	}
	// Both ways through an outage come up over the seeds.
	c.bypass = setting(t, "ON_REDIS_FAILURE", []string{"bypass", "block"}[c.seed%2], func(s string) (string, error) { return s, nil }) == "bypass"
	c.redis = servicetest.OwnRedis(t)
	c.mariadb = servicetest.OwnMariaDB(t)
	c.db = openSQL(t, c.mariadb.URL)
	for i := range c.instances {
		c.instances[i] = c.newSurvivor(i)
		c.instances[i].start()
	}
	for _, s := range c.instances {
		s.awaitReady(patience)
	}
	return c
}

// openShop offers less than everybody wants, and lets in so many a second that there is
// a line all the time.
func (c *chaos) openShop() {
	c.Helper()
	c.stock, c.coupons = c.visitors*9/10, c.visitors/2
	admin := c.instances[0].adminURL()
	c.product = addProduct(c.T, &instance{admin: admin}, c.stock)
	status, answer := call(c, http.MethodPost, admin+"/admin/api/coupons", nil, fmt.Sprintf(`{"name":"First come","quantity":%d,"discount":100}`, c.coupons))
	if status != http.StatusCreated {
		c.Fatalf("coupon: %d %v", status, answer)
	}
	c.coupon = int(number(answer, "coupon_id"))
	rate := float64(c.visitors) / (0.9 * c.over.Seconds())
	if status, answer := call(c, http.MethodPatch, admin+"/admin/api/lines/default", nil, fmt.Sprintf(`{"rate_override":%.3f}`, rate)); status != http.StatusOK {
		c.Fatalf("rate: %d %v", status, answer)
	}
}

func (c *chaos) startCrowd() {
	c.Helper()
	dir, err := binaries()
	if err != nil {
		c.Fatal(err)
	}
	c.crowd = exec.Command(filepath.Join(dir, "crowd"),
		"--targets", c.instances[0].url()+","+c.instances[1].url(),
		"--operator", c.instances[0].adminURL()+","+c.instances[1].adminURL(),
		"--visitors", fmt.Sprint(c.visitors), "--arrival", "constant", "--over", (c.over / 2).String(),
		// A request that hangs holds a connection, and must hold nobody else up.
		"--connections", fmt.Sprint(min(maxCrowd, c.visitors)), "--timeout", "3s", "--roam", "0.2",
		"--close-share", "0.1", "--return-share", "0.5", "--return-after", "10s",
		"--product", fmt.Sprint(c.product), "--coupon", fmt.Sprint(c.coupon), "--share-tokens", "20", "--replays", "30",
		"--seed", fmt.Sprint(c.seed), "--json", c.file("crowd.json"), "--receipts", c.file("receipts.csv"), "--quiet")
	c.crowd.Stdout, c.crowd.Stderr = &c.said, &c.said
	if err := c.crowd.Start(); err != nil {
		c.Fatal(err)
	}
	c.begun = time.Now()
}

// maxCrowd is the most connections that the crowd may have.
const maxCrowd = 2000

func (c *chaos) file(name string) string { return filepath.Join(c.dir, name) }

// play does what the plan says, and undoes it.
func (c *chaos) play(plan []fault) {
	c.Helper()
	type step struct {
		at   time.Duration
		undo bool
		of   int
	}
	var steps []step
	c.happened = make([]happening, len(plan))
	for i, f := range plan {
		c.happened[i].fault = f
		steps = append(steps, step{f.at, false, i}, step{f.at + f.lasts, true, i})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	for _, s := range steps {
		time.Sleep(time.Until(c.begun.Add(s.at)))
		c.countCopied()
		h := &c.happened[s.of]
		if s.undo {
			c.undo(h)
			h.ended = time.Now()
			continue
		}
		h.began = time.Now()
		c.do(h.fault)
		c.Logf("%6.1f s  %s", time.Since(c.begun).Seconds(), h.fault)
	}
}

// countCopied takes the most that the instances have told at once: one that is killed
// counts from 0 again, and one that is frozen says nothing.
func (c *chaos) countCopied() {
	client, sum := http.Client{Timeout: 300 * time.Millisecond}, 0
	for _, s := range c.instances {
		answer, err := client.Get(s.adminURL() + "/metrics")
		if err != nil {
			continue
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if m := pollsCopied.FindSubmatch(text); m != nil {
			n, _ := strconv.ParseFloat(string(m[1]), 64)
			sum += int(n)
		}
	}
	c.copied = max(c.copied, sum)
}

var pollsCopied = regexp.MustCompile(`(?m)^sluice_line_polls_copied_total\{[^}]*\} (\S+)$`)

func (c *chaos) do(f fault) {
	c.Helper()
	switch {
	case f.part == theRedis && f.harm == killed:
		c.redis.Stop()
	case f.part == theRedis && f.harm == frozen:
		c.redis.Freeze()
	case f.part == theRedis && f.harm == flushed:
		// Redis is there: plans have one fault of a part at a time.
		if err := c.redis.Client().FlushAll(context.WithoutCancel(c.Context())).Err(); err != nil {
			c.Errorf("FLUSHALL: %v", err)
		}
	case f.part == theDatabase && f.harm == killed:
		c.mariadb.Stop()
	case f.part == theDatabase && f.harm == frozen:
		c.mariadb.Freeze()
	default:
		c.of(f).suffer(f.harm)
	}
}

func (c *chaos) undo(h *happening) {
	c.Helper()
	switch f := h.fault; {
	case f.part == theRedis && f.harm == killed:
		c.redis.Start()
	case f.part == theRedis && f.harm == frozen:
		c.redis.Thaw()
	case f.part == theRedis && f.harm == flushed:
	case f.part == theDatabase && f.harm == killed:
		c.mariadb.Start()
	case f.part == theDatabase && f.harm == frozen:
		c.mariadb.Thaw()
	default:
		h.note = c.of(f).recover(f.harm)
	}
}

func (c *chaos) of(f fault) *survivor {
	if f.part == oneInstance {
		return c.instances[0]
	}
	return c.instances[1]
}

// awaitCrowd waits until everybody is done, for as long as it takes to let everybody in.
func (c *chaos) awaitCrowd() error {
	c.Helper()
	done := make(chan error, 1)
	go func() { done <- c.crowd.Wait() }()
	late := time.After(time.Until(c.begun.Add(2*c.over + 4*time.Minute)))
	for {
		select {
		case err := <-done:
			return err
		case <-late:
			_ = c.crowd.Process.Signal(syscall.SIGTERM)
			return fmt.Errorf("the crowd was not done in time: %w", <-done)
		case <-time.After(time.Second):
			c.countCopied()
		}
	}
}

// survivor is an instance that is killed and started again at the same addresses, with
// the same data folder.
type survivor struct {
	c              *chaos
	name           string
	listen, admin  string
	data           string
	log            *os.File
	restarts, gone int // gone is how often it ended although nobody asked it to

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has ended
	wanted bool          // it is to run
}

func (c *chaos) newSurvivor(i int) *survivor {
	c.Helper()
	name := fmt.Sprintf("instance %d", i+1)
	log, err := os.Create(c.file(fmt.Sprintf("instance-%d.log", i+1)))
	if err != nil {
		c.Fatal(err)
	}
	s := &survivor{c: c, name: name, listen: freeAddress(c), admin: freeAddress(c), data: c.TempDir(), log: log}
	c.Cleanup(func() {
		s.mu.Lock()
		s.wanted = false
		cmd, ended := s.cmd, s.ended
		s.mu.Unlock()
		if cmd != nil {
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = log.Close()
	})
	return s
}

func (s *survivor) url() string      { return "http://" + s.listen }
func (s *survivor) adminURL() string { return "http://" + s.admin }

// start starts it and, as whatever supervises a service does, again when it ends by
// itself.
func (s *survivor) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
	s.launch()
}

// launch starts the process; the caller holds the lock.
func (s *survivor) launch() {
	dir, _ := binaries()
	cmd := exec.Command(filepath.Join(dir, "sluice"), "serve", "--listen", s.listen, "--admin", s.admin)
	onFailure := "block"
	if s.c.bypass {
		onFailure = "bypass"
	}
	cmd.Env = append(os.Environ(),
		"SLUICE_REDIS="+s.c.redis.URL, "SLUICE_DATABASE="+s.c.mariadb.URL, "SLUICE_DATA="+s.data,
		"SLUICE_SECRET=a-secret-for-chaos-of-32-bytes-or-more", "SLUICE_LOG_ACCESS_EVERY=0",
		"SLUICE_LINE_RECOVERY_HOLD="+chaosHold.String(), "SLUICE_ORDERS_WORKERS=4",
		"SLUICE_ADMISSION_ON_REDIS_FAILURE="+onFailure)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.c.Errorf("%s: %v", s.name, err)
		return
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
		s.mu.Lock()
		if s.cmd != cmd || !s.wanted {
			s.mu.Unlock()
			return
		}
		s.gone++
		s.mu.Unlock()
		time.Sleep(time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cmd == cmd && s.wanted {
			s.launch()
		}
	}()
}

func (s *survivor) suffer(h harm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how := map[harm]syscall.Signal{killed: syscall.SIGKILL, stopped: syscall.SIGTERM, frozen: syscall.SIGSTOP}[h]
	s.wanted = h == frozen
	_ = s.cmd.Process.Signal(how) // it may have ended by itself
}

// stopTime is how long a process may take to stop: its drain timeout, and a while.
const stopTime = 15 * time.Second

// recover undoes it and says what there is to say.
func (s *survivor) recover(h harm) (note string) {
	if h == frozen {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		return ""
	}
	select {
	case <-s.ended:
	case <-time.After(stopTime):
		note = "did not stop in time"
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	if h == stopped && note == "" {
		note = fmt.Sprintf("exit %d", s.cmd.ProcessState.ExitCode())
	}
	s.restarts++
	s.start()
	return note
}

// awaitReady waits until it says that it is ready.
func (s *survivor) awaitReady(within time.Duration) {
	s.c.Helper()
	deadline := time.Now().Add(within)
	for {
		status, _, err := try(s.c.Context(), http.MethodGet, "", s.adminURL()+"/readyz", nil, "")
		if err == nil && status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			s.c.Fatalf("%s is not ready: %d %v\n%s", s.name, status, err, strings.Join(s.logged(), "\n"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// logged are the lines of its log, of all its lives.
func (s *survivor) logged() []string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		s.c.Error(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
