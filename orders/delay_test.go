package orders

import (
	"errors"
	"testing"
	"time"
)

func TestTestDelay(t *testing.T) {
	f := &fakeStore{}
	s, err := NewService(f, DefaultOptions(), discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetTestDelay(time.Second); !errors.Is(err, ErrInvalid) || f.delay != 0 {
		t.Errorf("not set at start: %v, delay %v", err, f.delay)
	}
	opts := DefaultOptions()
	opts.TestDelay = time.Second
	if s, err = NewService(f, opts, discard); err != nil {
		t.Fatal(err)
	}
	if d, changeable := s.TestDelay(); d != time.Second || !changeable || f.delay != time.Second {
		t.Errorf("set at start: %v, %v, store %v", d, changeable, f.delay)
	}
	for _, d := range []time.Duration{-1, 2 * time.Minute} {
		if err := s.SetTestDelay(d); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v: %v", d, err)
		}
	}
	for _, d := range []time.Duration{0, time.Minute} { // 0 does not end the experiment for good
		if err := s.SetTestDelay(d); err != nil || f.delay != d {
			t.Errorf("%v: %v, store %v", d, err, f.delay)
		}
	}
}
