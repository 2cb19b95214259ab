// Package processes contains the processes that submit commands without a client.
// A process reads the present from the read models and submits a command; the
// writer decides it. A process stores nothing: after a restart it goes on with
// what is left to do, and a command that was carried out before the crash changes
// nothing any more.
package processes

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// process is what runs until it is stopped.
type process struct {
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

// Stop ends the process. Commands that it has submitted may still be carried out.
func (p *process) Stop() {
	p.stop()
	p.idle.Wait()
}
