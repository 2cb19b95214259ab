package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Await returns once the read models are condemned, with the reason; nil: the Projector was
// interrupted before. Condemned read models answer nothing any more, so their server ends:
// Close sets them aside, and the next start makes others, from a copy or from the log.
func (p *Projector) Await() error {
	for {
		m := p.models.Load()
		select {
		case <-m.broken:
			return m.fault()
		case <-m.replaced:
		case <-p.stopped:
			return nil
		}
	}
}

// Ready returns nil if the read models can be read and written, or why not.
func (p *Projector) Ready() error { return p.models.Load().fault() }

// Full reports whether the read models wait for space on their disk, or were opened without it.
func (p *Projector) Full() bool { return p.models.Load().disk.full.Load() || p.InMemory() }

// InMemory reports whether the disk was full when the read models were opened: what is folded
// now is in memory only, and folded again at the next start.
func (p *Projector) InMemory() bool { return p.models.Load().disk.inMemory() }

// setAside makes room for new read models. The last damaged ones are kept for examination.
func (p *Projector) setAside(reason error) error {
	if _, err := p.files.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(reason, errOtherVersion) {
		p.logger.Info("read models of another version removed; they are made again from the log", "reason", reason)
		return p.files.RemoveAll(p.dir)
	}
	parent := filepath.Dir(p.dir)
	names, err := p.files.List(parent)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, filepath.Base(p.dir)+damagedSuffix) {
			if err := p.files.RemoveAll(filepath.Join(parent, name)); err != nil {
				return err
			}
		}
	}
	aside := fmt.Sprintf("%s%s%d", p.dir, damagedSuffix, time.Now().UnixNano())
	p.logger.Warn("read models set aside; they are made again from a copy or the log", "error", reason, "moved_to", aside)
	return p.files.Rename(p.dir, aside)
}

const damagedSuffix = ".damaged-"

// Fatalf is called by Pebble when it cannot go on, and must not return. It ends
// only the read models: a goroutine of this package that has called Pebble gets a
// panic, which is recovered there; one of Pebble's own goroutines just ends.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf("pebble: "+format, args...)
	l.m.condemn(err)
	if inOurCall() {
		panic(err)
	}
	runtime.Goexit()
}

// inOurCall reports whether this package has called Pebble, further up the stack.
func inOurCall() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasPrefix(frame.Function, "github.com/allot-project/allot/projector.(*models)") ||
			strings.HasPrefix(frame.Function, "github.com/allot-project/allot/projector.(*cursor)") {
			return true
		}
		if !more {
			return false
		}
	}
}

// recovered turns a panic of Pebble's into damage.
func (m *models) recovered(err *error) {
	if reason := recover(); reason != nil {
		*err = m.broke(panicked(reason))
	}
}

// condemn ends the read models: they answer nothing and write nothing any more.
// The first reason stays.
func (m *models) condemn(reason error) {
	told := fmt.Errorf("%w: %w", ErrDamaged, reason)
	if m.reason.CompareAndSwap(nil, &told) {
		m.disk.dead.Store(true)
		if m.disk.refused.Load() == nil {
			m.logger.Error("the read models are damaged", "error", reason)
		}
		close(m.broken)
	}
}

// broke condemns the read models and returns the error to tell.
func (m *models) broke(reason error) error {
	m.condemn(reason)
	return m.fault()
}

// fault returns the reason for which the read models are condemned; nil: they are
// not.
func (m *models) fault() error {
	if reason := m.reason.Load(); reason != nil {
		return fmt.Errorf("%w: %w", ErrCondemned, *reason)
	}
	return nil
}
