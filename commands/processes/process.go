// Package processes contains the processes that submit commands without a client.
// A process reads the present from the read models and submits a command; the
// writer decides it. A process stores nothing: after a restart it goes on with
// what is left to do, and a command that was carried out before the crash changes
// nothing any more.
package processes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/commands"
)

// process is what runs until it is stopped.
type process struct {
	submit commands.Submitter
	logger *slog.Logger

	stop context.CancelFunc
	idle sync.WaitGroup
	// warns says why something is tried again, which it is ten times a second while the log takes nothing.
	warns rate.Sometimes
}

// warnEvery is how often the same trouble is told.
const warnEvery = time.Minute

func (p *process) begin(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.warns.Interval = cancel, warnEvery
	p.idle.Go(func() { run(ctx) })
}

// carry submits a command, and reports whether that was all. Otherwise it says what has come to
// nothing, and is tried again, unless the process ends.
func (p *process) carry(
	ctx context.Context, s commands.Submission, trouble string, about ...any,
) (outcome commands.Outcome, done bool) {
	outcome, err := p.submit.Submit(ctx, s)
	if err == nil && outcome.Rejection == nil {
		return outcome, true
	}
	p.warn(ctx, trouble, append(about, "error", err, "rejection", outcome.Rejection)...)
	return outcome, false
}

func (p *process) warn(ctx context.Context, trouble string, about ...any) {
	if ctx.Err() == nil {
		p.warns.Do(func() { p.logger.Warn(trouble+"; trying again", about...) })
	}
}

// await waits for something to change, or for some time.
func await(ctx context.Context, changed <-chan struct{}, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Stop ends the process. Commands that it has submitted may still be carried out.
func (p *process) Stop() {
	p.stop()
	p.idle.Wait()
}
