package browser

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/servicetest"
)

// patience is how long a test waits for something that must come.
const patience = time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	// More pages at once on a small machine only make each of them late.
	if err := flag.Set("test.parallel", "2"); err != nil {
		panic(err)
	}
	status := m.Run()
	atEnd.mu.Lock()
	for _, end := range atEnd.ends {
		end()
	}
	os.Exit(status)
}

// atEnd ends what all tests share.
var atEnd struct {
	mu   sync.Mutex
	ends []func() // guarded by mu
}

func afterAll(end func()) {
	atEnd.mu.Lock()
	defer atEnd.mu.Unlock()
	atEnd.ends = append(atEnd.ends, end)
}

// built are the programs, built once in a run.
var built = sync.OnceValues(func() (folder string, err error) {
	folder, err = os.MkdirTemp("", "sluice-browser-")
	if err != nil {
		return "", err
	}
	afterAll(func() { _ = os.RemoveAll(folder) })
	return folder, servicetest.Build(context.Background(), folder+"/", "sluice/cmd/...")
})

// program is the path of one of them.
func program(t testing.TB, name string) string {
	t.Helper()
	folder, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(folder, name)
}

var shared struct {
	once sync.Once
	ctx  context.Context
	err  error
}

// chromium is the browser that all tests share, each in a context of its own, as
// private windows are.
func chromium(t testing.TB) context.Context {
	t.Helper()
	path := servicetest.Chromium(t)
	shared.once.Do(func() {
		ctx, end, err := launch(context.Background(), path)
		shared.ctx, shared.err = ctx, err
		afterAll(end)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.ctx
}

// ownChromium is one of the test's own, with a profile that prepare may write to.
func ownChromium(t testing.TB, prepare func(profile string)) context.Context {
	t.Helper()
	profile := t.TempDir()
	prepare(profile)
	ctx, end, err := launch(context.Background(), servicetest.Chromium(t), chromedp.UserDataDir(profile))
	t.Cleanup(end)
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// launch starts a browser. It is spoken to over a pipe and ends where that closes, so
// that a test that is killed leaves none behind.
func launch(ctx context.Context, path string, more ...chromedp.ExecAllocatorOption) (context.Context, func(), error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.DisableGPU,
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("mute-audio", true),
	)
	ctx, endAll := chromedp.NewExecAllocator(ctx, append(options, more...)...)
	ctx, endBrowser := chromedp.NewContext(ctx)
	return ctx, func() { endBrowser(); endAll() }, chromedp.Do(ctx)
}
