package memqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/queue"
	"sluice/queue/memqueue"
	"sluice/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	queuetest.Run(t, queuetest.Implementation{
		Open: func(t testing.TB, opts queue.Options) func() queue.Line {
			line, err := memqueue.New("test", opts)
			if err != nil {
				t.Fatal(err)
			}
			return func() queue.Line { return line }
		},
		In: func(t *testing.T, test func(t *testing.T)) {
			synctest.Test(t, func(t *testing.T) {
				// A bubble begins in 2000, when every drawn place was still to come.
				time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
				test(t)
			})
		},
	})
}
