package store

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// pebbleLogger passes Pebble's lines on. Its routine lines become debug messages.
type pebbleLogger struct{ s *Store }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.s.logger.Debug(fmt.Sprintf(format, args...), "from", "pebble")
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.s.logger.Error(fmt.Sprintf(format, args...), "from", "pebble")
}

// Fatalf is called by Pebble when it cannot go on, and must not return. It ends
// only the store: a goroutine of this package that has called Pebble gets a
// panic, which is recovered there; one of Pebble's own goroutines just ends.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble: "+format, args...)
	l.s.Condemn(err)
	if inOurCall() {
		panic(err)
	}
	runtime.Goexit()
}

// inOurCall reports whether this package has called Pebble, further up the stack.
func inOurCall() bool {
	const ours = "github.com/allot-project/allot/projector/store."
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, ours+"(*Store)") || strings.HasPrefix(frame.Function, ours+"(*Iterator)") {
			return true
		}
		if !more {
			return false
		}
	}
}

func panicked(reason any) error { return fmt.Errorf("pebble: panic: %v", reason) }

// recovered turns a panic of Pebble's into damage.
func (s *Store) recovered(err *error) {
	if reason := recover(); reason != nil {
		*err = s.Broke(panicked(reason))
	}
}

// Condemn ends the store: it answers nothing and writes nothing any more. The first
// reason stays.
func (s *Store) Condemn(reason error) {
	told := fmt.Errorf("%w: %w", ErrDamaged, reason)
	if s.reason.CompareAndSwap(nil, &told) {
		s.disk.dead.Store(true)
		if s.disk.refusal() == nil {
			s.logger.Error("the read models are damaged", "error", reason)
		}
		close(s.broken)
	}
}

// Broken is closed when the store is condemned.
func (s *Store) Broken() <-chan struct{} { return s.broken }

// Broke condemns the store and returns the error to tell.
func (s *Store) Broke(reason error) error {
	s.Condemn(reason)
	return s.Fault()
}

// Fault returns the reason for which the store is condemned, an ErrCondemned; nil: it is not.
func (s *Store) Fault() error {
	if reason := s.reason.Load(); reason != nil {
		return fmt.Errorf("%w: %w", ErrCondemned, *reason)
	}
	return nil
}

// Judged returns the error for a reader. Nothing that was read counts if the store turned out to
// be damaged meanwhile, or by this very reading: an ErrDamaged condemns it.
func (s *Store) Judged(err error) error {
	if errors.Is(err, ErrDamaged) {
		s.Condemn(err)
	}
	if fault := s.Fault(); fault != nil {
		return fault
	}
	return err
}
