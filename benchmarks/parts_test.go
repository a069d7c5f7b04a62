package benchmarks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	osexec "os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"

	"sluice/admission"
	"sluice/queue"
	"sluice/servicetest"
	"sluice/web"
)

// A part is what a benchmark has done by another process, so that its goroutines are not
// in the way of those that measure and its processor time can be told from theirs. It is
// this same program, which finds its orders in the environment and stops when its input
// ends.
const partName = "SLUICE_BENCHMARK_PART"

type part struct {
	Buyers *buyers `json:",omitempty"`
	Burner *burner `json:",omitempty"`
}

// playPart is for TestMain. It tells whether this process was one.
func playPart() bool {
	orders := os.Getenv(partName)
	if orders == "" {
		return false
	}
	var p part
	if err := json.Unmarshal([]byte(orders), &p); err != nil {
		panic(err)
	}
	var enough atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		enough.Store(true)
	}()
	var done any
	var err error
	if p.Buyers != nil {
		done, err = p.Buyers.buy(&enough)
	} else {
		p.Burner.burn(&enough)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(done)
	return true
}

// playing is a part at work.
type playing struct {
	pid  int
	stop io.Closer
	wait func() error
	out  bytes.Buffer
}

func play(t testing.TB, p part) *playing {
	t.Helper()
	orders, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r, cmd := &playing{}, osexec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), partName+"="+string(orders))
	cmd.Stdout, cmd.Stderr = &r.out, os.Stderr
	if r.stop, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if r.wait, err = servicetest.Bound(cmd); err != nil {
		t.Fatal(err)
	}
	r.pid = cmd.Process.Pid
	return r
}

// end has it stop, and reads what it has to say.
func (r *playing) end(t testing.TB, said any) {
	t.Helper()
	_ = r.stop.Close()
	if err := r.wait(); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.out.Bytes(), said); err != nil {
		t.Fatal(err)
	}
}

// buyers have been let in, and order in a closed loop.
type buyers struct {
	Address, Secret, Name string
	Products              []int64
	Count                 int
}

// sales is what came of them.
type sales struct {
	Orders, Refused int64
	PerSecond       float64
}

func (b *buyers) buy(enough *atomic.Bool) (sales, error) {
	tokens, err := admission.NewTokens([][]byte{[]byte(b.Secret)})
	if err != nil {
		return sales{}, err
	}
	var made, refused atomic.Int64
	var buying errgroup.Group
	began := time.Now()
	for i := range b.Count {
		buying.Go(func() error {
			c, err := net.Dial("tcp", b.Address)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			buyer := (&shop{address: b.Address, product: b.Products[i%len(b.Products)]}).newBuyer(c)
			for n := 0; !enough.Load(); n++ {
				token, err := mintFor(tokens, fmt.Sprintf("%s-%d-%d", b.Name, i, n))
				if err != nil {
					return err
				}
				switch err := buyer.order(token); {
				case err == nil:
					made.Add(1)
				case buyer.res.StatusCode() == fasthttp.StatusServiceUnavailable:
					refused.Add(1)
				default:
					return err
				}
			}
			return nil
		})
	}
	err = buying.Wait()
	return sales{made.Load(), refused.Load(), float64(made.Load()) / time.Since(began).Seconds()}, err
}

// mintFor makes the token of somebody who was let in a second ago.
func mintFor(tokens *admission.Tokens, who string) (string, error) {
	now := time.Now().Add(-time.Second).Truncate(time.Millisecond)
	return tokens.Mint(queue.Admission{
		Line: web.DefaultLine, Subject: "visitor-" + who, TicketID: "ticket-" + who, Place: now.UnixMicro(),
		AdmittedAt: now, NotBefore: now, ExpiresAt: now.Add(time.Hour),
	})
}

// burner takes a share of the processors and does nothing with it.
type burner struct {
	Threads    int
	Processors float64
}

// burn spins in short turns while the process has had less than its share, which it may
// have to catch up with where others hold the processors.
func (b *burner) burn(enough *atomic.Bool) {
	const turn = 100 * time.Microsecond
	runtime.GOMAXPROCS(b.Threads)
	var burning errgroup.Group
	began := time.Now()
	for range b.Threads {
		burning.Go(func() error {
			runtime.LockOSThread()
			for !enough.Load() {
				var had syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &had); err != nil {
					return err
				}
				if float64(had.Utime.Nano()+had.Stime.Nano()) > b.Processors*float64(time.Since(began)) {
					time.Sleep(2 * turn)
					continue
				}
				for until := time.Now().Add(turn); time.Now().Before(until); {
				}
			}
			return nil
		})
	}
	if err := burning.Wait(); err != nil {
		panic(err)
	}
}

// ask sends JSON to an operator's API and reads the answer.
func ask(t testing.TB, method, url, body string) map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil || res.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s %s: %d %s", method, url, res.StatusCode, text)
	}
	return answer
}
