// Package expirer is the process that ends reservations whose time is over.
// It keeps nothing: the read models list reservations by their end, and the
// writer decides whether one has ended.
package expirer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Actor is whom the expirer's records name.
const Actor = "allot:expirer"

const (
	// atATime is how many reservations are being ended at a time.
	atATime = 256
	// retryPause lies before another try of what was not answered.
	retryPause = 100 * time.Millisecond
	// longest is how long the expirer sleeps without looking at its clock,
	// which may be set.
	longest = time.Minute
)

// ReadModels is what the expirer reads; projector.Projector has it.
type ReadModels interface {
	Changed() <-chan struct{}
	Reservations(limit int) ([]projector.Reservation, error)
}

// Expirer is the running process.
type Expirer struct {
	submit commands.Submitter
	views  ReadModels
	now    func() time.Time
	log    *slog.Logger
	stop   context.CancelFunc
	done   chan struct{}
}

// Start begins to end reservations by a clock, the writer's.
func Start(submit commands.Submitter, views ReadModels, now func() time.Time, log *slog.Logger) *Expirer {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Expirer{submit: submit, views: views, now: now, log: log, stop: cancel, done: make(chan struct{})}
	go e.run(ctx)
	return e
}

// Stop ends the process. What it has submitted may still be carried out.
func (e *Expirer) Stop() {
	e.stop()
	<-e.done
}

func (e *Expirer) run(ctx context.Context) {
	defer close(e.done)
	for ctx.Err() == nil {
		changed := e.views.Changed()
		wait, again := e.round(ctx)
		if again {
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed: // perhaps a reservation that ends earlier
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// round ends what is over. It returns how long to wait for the next one, or
// that there is more to do now.
func (e *Expirer) round(ctx context.Context) (wait time.Duration, again bool) {
	list, err := e.views.Reservations(atATime)
	if err != nil {
		e.log.Error("reservations cannot be read", "error", err)
		return retryPause, false
	}
	now := e.now().UnixNano()
	var work sync.WaitGroup
	var mu sync.Mutex
	failed, due := 0, 0
	wait = longest
	for _, r := range list {
		if r.Until > now {
			wait = min(wait, time.Duration(r.Until-now))
			break
		}
		due++
		work.Go(func() {
			if !e.end(ctx, r.Consumer, now) {
				mu.Lock()
				failed++
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if failed > 0 {
		return retryPause, false
	}
	return wait, due == atATime
}

// end has the writer end one reservation.
func (e *Expirer) end(ctx context.Context, consumer ledger.UUID, now int64) bool {
	outcome, err := e.submit.Submit(ctx, commands.Submission{
		ID: commands.NewID(), Actor: Actor, Command: &commands.ExpireReservation{Consumer: consumer, Now: now},
	})
	if err == nil && outcome.Rejection == nil {
		return true
	}
	if ctx.Err() == nil {
		e.log.Warn("a reservation was not ended; trying again", "consumer", consumer, "error", err, "rejection", outcome.Rejection)
	}
	return false
}
