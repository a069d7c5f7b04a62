package benchmarks

import (
	"context"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"

	"sluice/web"
)

// serveBare answers a constant, and a rank by one command of go-redis, through its pool
// and through its pipelines, with nothing else in the way: what HTTP costs, and what a
// simple service would do.
func (c *crowd) serveBare(t testing.TB) (address string) {
	t.Helper()
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	constant := []byte(`{"line":"` + web.DefaultLine + `","state":"waiting","position":54321,"waiting":99987,"estimated_wait_ms":null,` +
		`"estimated_wait_range_ms":null,"poll_after_ms":11873,"entered_at":"2026-01-02T03:04:05.678Z","server_time":"2026-01-02T03:04:05.678Z"}`)
	app.Get("/constant", func(f *fiber.Ctx) error {
		f.Context().SetContentType(fiber.MIMEApplicationJSON)
		f.Response().SetBodyRaw(constant)
		return nil
	})
	pipelines, err := c.client.AsyncAutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipelines.Close() })
	app.Get("/rank", c.rankBy(c.client))
	app.Get("/rank-pipelined", c.rankBy(pipelines))
	ln := listen(t)
	runUntilEnd(t, func(ctx context.Context) error {
		go func() {
			<-ctx.Done()
			_ = app.Shutdown()
		}()
		return app.Listener(ln)
	})
	return ln.Addr().String()
}

func (c *crowd) rankBy(client interface {
	ZRank(ctx context.Context, key, member string) *redis.IntCmd
}) fiber.Handler {
	return func(f *fiber.Ctx) error {
		rank, err := client.ZRank(context.Background(), c.waiting, f.Get("X-User-Id")).Result()
		if err != nil {
			return err
		}
		return f.JSON(fiber.Map{"state": "waiting", "position": rank + 1})
	}
}
