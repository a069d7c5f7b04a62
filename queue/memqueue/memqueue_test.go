package memqueue_test

import (
	"testing"
	"testing/synctest"

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
		In: synctest.Test,
	})
}
