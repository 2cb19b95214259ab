package present

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/projector"
)

// errAhead means that a read here could show more than a later one at the leader.
var errAhead = errors.New("this server has read more in the log than a leader has confirmed to it yet")

// confirmed is the pause between two looks whether a leader has confirmed what was read.
const confirmed = 20 * time.Millisecond

// Reached returns nil if a commit can be read here, and else why it cannot. Fresh is nil
// for a single server.
func Reached(views *projector.Projector, fresh commands.Freshness, least uint64) error {
	if last := views.View().Sequence(); last < least {
		return fmt.Errorf("this server has not folded %d yet, only %d", least, last)
	}
	if fresh != nil && fresh.Ahead() {
		return errAhead
	}
	return nil
}

// AwaitReached waits until a commit can be read here. When the context ends it returns why
// it cannot.
func AwaitReached(ctx context.Context, views *projector.Projector, fresh commands.Freshness, least uint64) error {
	for {
		changed := views.Changed()
		err := Reached(views, fresh, least)
		if err == nil {
			return nil
		}
		var again <-chan time.Time
		if errors.Is(err, errAhead) {
			again = time.After(confirmed)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return err
		}
	}
}
