package processes

import (
	"context"
	"log/slog"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/projector"
)

// ConsumptionActor is the actor in the ConsumptionCommitter's records.
const ConsumptionActor = "allot:consumption"

// ConsumptionCommitter commits the ledger to what each project has consumed, at each whole
// hour. After a pause it goes on with the hours that it has missed.
type ConsumptionCommitter struct {
	views *projector.Projector
	now   func() time.Time
	next  int64 // the hour that is to come; 0: it is not known
	process
}

// StartConsumptionCommitter starts to commit to consumption, by the writer's clock.
func StartConsumptionCommitter(
	submit commands.Submitter, views *projector.Projector, now func() time.Time, logger *slog.Logger,
) *ConsumptionCommitter {
	c := &ConsumptionCommitter{views: views, now: now, process: process{submit: submit, logger: logger}}
	c.begin(c.run)
	return c
}

func (c *ConsumptionCommitter) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := c.views.Changed() // the change may be the first after the hour, or after what a root was made from
		await(ctx, changed, c.round(ctx))
	}
}

// round commits to the next hour, if it is over. It returns how long to wait for another round.
func (c *ConsumptionCommitter) round(ctx context.Context) time.Duration {
	now := c.now().UnixNano()
	if c.next == 0 {
		next, err := c.views.NextConsumptionRoot(now)
		if err != nil {
			c.logger.Error("roots of consumption cannot be read", "error", err)
			return retryPause
		}
		c.next = next
	}
	if left := c.next - now; left > 0 {
		return min(time.Duration(left), longestSleep)
	}
	root, last, err := c.views.ConsumptionRoot(c.next)
	if err != nil {
		c.logger.Error("what was consumed cannot be read", "error", err)
		return retryPause
	}
	at := c.next
	c.next = 0 // the root may be there, whatever the answer says
	outcome, done := c.carry(ctx, commands.Submission{
		ID: commands.NewID(), Actor: ConsumptionActor,
		Command: &commands.SetConsumptionRoot{ConsumptionRoot: root, Last: last},
	}, "the ledger is not committed to what was consumed", "up to", time.Unix(0, at).UTC())
	if done && outcome.Address.Sequence > 0 {
		return 0
	}
	return retryPause // a commit may have come in between
}
