package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// phase is a stage of a server's life in which a part runs.
type phase string

// The phases of a server. Each builds on the one before.
const (
	// open: this process has the data folder, the policy, the port, the log and
	// the stores, and has found them good.
	open phase = "open"
	// follow: State and read models are at the end of the log and can be read.
	follow phase = "follow"
	// lead: this process writes the log. Lead can stop and start again, any
	// number of times, while the rest goes on.
	lead phase = "lead"
)

// part is a component of a server that starts and stops by itself.
type part struct {
	phase phase
	name  string
	// start begins the part; its context is for the start alone. If start fails
	// it leaves nothing behind, and stop is not called.
	start func(context.Context) error
	// run, if set, does the part's work until it is stopped. If it returns earlier, the server cannot go on.
	run func() error
	// interrupt, if set, makes everybody who waits for the part give up. It is called before any part is
	// stopped, because parts that stop first may be waiting for this one; and when a start is to end early. It
	// does not block, and may be called more than once. Only stop and start undo it.
	interrupt func()
	// stop, if set, ends what start began, and waits until that has ended.
	stop func() error
}

// quietly is a stop that cannot fail.
func quietly(stop func()) func() error {
	return func() error {
		stop()
		return nil
	}
}

// partList holds a server's parts in the order in which they start. They always stop in the reverse order.
type partList struct {
	list   []part
	logger *slog.Logger
	failed chan failure // why the server cannot go on

	// life ends when a part fails outside of lead: nothing goes on to start, or to wait, then.
	life context.Context
	die  context.CancelCauseFunc

	turn    sync.Mutex // held while parts start or stop
	running []*running // by place in the list; nil: the part does not run; guarded by turn

	mu  sync.Mutex
	end context.CancelCauseFunc // ends the start under way; nil: none is; guarded by mu
}

type failure struct {
	err error
	of  *running // the part that has ended; nil: none has
}

// past reports whether the part that failed was stopped since, as part of a phase that
// has ended for another reason.
func (f failure) past() bool {
	if f.of == nil {
		return false
	}
	select {
	case <-f.of.stopping:
		return true
	default:
		return false
	}
}

type running struct {
	stopping chan struct{} // closed before the part is stopped
	returned chan struct{} // closed when its run has returned
}

var errStopped = errors.New("stopped before everything had started")

func newPartList(logger *slog.Logger, list ...part) *partList {
	life, die := context.WithCancelCause(context.Background())
	return &partList{
		list: list, logger: logger, failed: make(chan failure, 2*len(list)+1), running: make([]*running, len(list)),
		life: life, die: die,
	}
}

// alive returns a context that ends with another one, and when a part fails outside of lead.
func (p *partList) alive(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.life, func() { cancel(context.Cause(p.life)) })
	context.AfterFunc(ctx, func() { stop() })
	return ctx, cancel
}

// start starts the parts of some phases that do not run yet. If one fails, also while
// others start, the parts that this call has started are stopped; parts that ran before go on.
func (p *partList) start(asked context.Context, phases ...phase) error {
	p.turn.Lock()
	defer p.turn.Unlock()
	ctx, cancel := p.alive(asked)
	defer cancel(nil)
	p.mayEnd(cancel)
	defer p.mayEnd(nil)
	var begun []int
	for i, one := range p.list {
		if p.running[i] != nil || !slices.Contains(phases, one.phase) {
			continue
		}
		err := p.startOne(ctx, i)
		if err == nil {
			begun = append(begun, i)
			if one.interrupt != nil {
				defer context.AfterFunc(ctx, one.interrupt)() // later parts may wait for this one
			}
		}
		if asked.Err() == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return errors.Join(err, p.stopThese(begun))
		}
	}
	return nil
}

func (p *partList) mayEnd(end context.CancelCauseFunc) {
	p.mu.Lock()
	p.end = end
	p.mu.Unlock()
}

func (p *partList) startOne(ctx context.Context, i int) error {
	one, began := p.list[i], time.Now()
	if err := one.start(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("told to stop while this was starting: %s: %w", one.name, err)
		}
		return err
	}
	r := &running{stopping: make(chan struct{}), returned: make(chan struct{})}
	p.running[i] = r
	p.logger.Debug("started", "phase", one.phase, "part", one.name, "took", time.Since(began))
	if one.run == nil {
		close(r.returned)
		return nil
	}
	go func() {
		defer close(r.returned)
		p.ended(one, r, one.run())
	}()
	return nil
}

// ended reports that a part has ended, unless it was told to.
func (p *partList) ended(one part, r *running, err error) {
	select {
	case <-r.stopping:
		return
	default:
	}
	if err == nil {
		err = fmt.Errorf("%s has ended by itself", one.name)
	}
	p.report(failure{err, r}, one.phase)
}

func (p *partList) fail(err error) { p.report(failure{err: err}, open) }

// report tells of a failure, and ends what waits for a part that has failed.
func (p *partList) report(f failure, of phase) {
	select {
	case p.failed <- f:
	default: // the server is ending for another reason
	}
	if of != lead {
		p.die(f.err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		p.end(f.err)
	}
}

// stop stops the parts of some phases. It also ends a start under way.
func (p *partList) stop(phases ...phase) error {
	p.mu.Lock()
	if p.end != nil {
		p.end(errStopped)
	}
	p.mu.Unlock()
	p.turn.Lock()
	defer p.turn.Unlock()
	var these []int
	for i, one := range p.list {
		if p.running[i] != nil && slices.Contains(phases, one.phase) {
			these = append(these, i)
		}
	}
	return p.stopThese(these)
}

// stopThese stops parts in the reverse order. It stops all of them, and returns all errors.
func (p *partList) stopThese(these []int) error {
	slices.Reverse(these)
	for _, i := range these {
		close(p.running[i].stopping)
		if interrupt := p.list[i].interrupt; interrupt != nil {
			interrupt()
		}
	}
	var errs []error
	for _, i := range these {
		one, began := p.list[i], time.Now()
		if one.stop != nil {
			errs = append(errs, one.stop())
		}
		<-p.running[i].returned
		p.running[i] = nil
		p.logger.Debug("stopped", "phase", one.phase, "part", one.name, "took", time.Since(began))
	}
	return errors.Join(errs...)
}
