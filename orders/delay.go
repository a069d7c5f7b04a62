package orders

import (
	"fmt"
	"sync/atomic"
	"time"
)

// delay is the current test delay.
type delay struct{ ns atomic.Int64 }

func (d *delay) set(v time.Duration) { d.ns.Store(int64(v)) }
func (d *delay) get() time.Duration  { return time.Duration(d.ns.Load()) }

// TestDelay says how long every order is made to sleep, and whether that can
// be changed: only where the process was started with a delay, so that nobody
// slows a real sale down by a slip.
func (s *Service) TestDelay() (d time.Duration, changeable bool) {
	return s.testDelay.get(), s.opts.TestDelay > 0
}

// SetTestDelay changes the delay of the orders that start from now on, in this
// process. [ErrInvalid] where it may not be changed, or not to this.
func (s *Service) SetTestDelay(d time.Duration) error {
	if s.opts.TestDelay == 0 {
		return fmt.Errorf("%w: the test delay can be changed only where it was set at start", ErrInvalid)
	}
	if d < 0 || d > maxTestDelay {
		return fmt.Errorf("%w: the test delay must be between 0 and %s", ErrInvalid, maxTestDelay)
	}
	s.setTestDelay(d)
	return nil
}

// setTestDelay also has every order done alone, whatever its products: an experiment
// with slow orders needs them side by side.
func (s *Service) setTestDelay(d time.Duration) {
	s.testDelay.set(d)
	s.pool.setApart(d > 0)
	s.store.SetTestDelay(d)
}
