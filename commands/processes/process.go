// Package processes contains the processes that submit commands without a client.
// A process reads the present from the read models and submits a command; the
// writer decides it. A process stores nothing: after a restart it goes on with
// what is left to do, and a command that was carried out before the crash changes
// nothing any more.
package processes

import (
	"context"
	"sync"
)

// process is what runs until it is stopped.
type process struct {
	stop context.CancelFunc
	idle sync.WaitGroup
}

func (p *process) begin(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.idle.Go(func() { run(ctx) })
}

// Stop ends the process. Commands that it has submitted may still be carried out.
func (p *process) Stop() {
	p.stop()
	p.idle.Wait()
}
