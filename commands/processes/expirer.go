package processes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// ExpirerActor is the actor in the Expirer's records.
const ExpirerActor = "allot:expirer"

const (
	// endingAtATime is how many reservations are being ended at a time.
	endingAtATime = 256
	// longestSleep is how long the Expirer sleeps without looking at its clock,
	// which may be set meanwhile.
	longestSleep = time.Minute
)

// ReservationList is what the Expirer reads. projector.Projector implements it.
type ReservationList interface {
	Changed() <-chan struct{}
	Reservations(limit int) ([]projector.Reservation, error)
}

// Expirer ends reservations whose time is over. The read models list them by
// their end, and the writer decides whether one has ended.
type Expirer struct {
	views ReservationList
	now   func() time.Time
	process
}

// StartExpirer starts to end reservations, by the writer's clock.
func StartExpirer(
	submit commands.Submitter, views ReservationList, now func() time.Time, logger *slog.Logger,
) *Expirer {
	e := &Expirer{views: views, now: now, process: process{submit: submit, logger: logger}}
	e.begin(e.run)
	return e
}

func (e *Expirer) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := e.views.Changed() // the change may be a reservation that ends earlier
		if wait, again := e.round(ctx); !again {
			await(ctx, changed, wait)
		}
	}
}

// round ends the reservations whose time is over. It returns how long to wait for
// the next one, or that there is more to do now.
func (e *Expirer) round(ctx context.Context) (wait time.Duration, again bool) {
	list, err := e.views.Reservations(endingAtATime)
	if err != nil {
		e.logger.Error("reservations cannot be read", "error", err)
		return retryPause, false
	}
	now := e.now().UnixNano()
	var work sync.WaitGroup
	var mu sync.Mutex
	failed, due := 0, 0
	wait = longestSleep
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
	return wait, due == endingAtATime
}

// end submits the command that ends one reservation.
func (e *Expirer) end(ctx context.Context, consumer ledger.UUID, now int64) bool {
	_, done := e.carry(ctx, commands.Submission{
		ID: commands.NewID(), Actor: ExpirerActor, Command: &commands.ExpireReservation{Consumer: consumer, Now: now},
	}, "reservations are not ended", "consumer", consumer)
	return done
}
