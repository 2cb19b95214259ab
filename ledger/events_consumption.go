package ledger

import (
	"fmt"
	"time"
)

// ConsumptionRoot commits the ledger to how much of each class every project has consumed up
// to a moment. Package proof has the tree that it is the root of.
type ConsumptionRoot struct {
	// At is the moment: a whole hour, Unix nanoseconds.
	At int64 `json:"at"`
	// Projects is the number of leaves: of projects that ever held something by then.
	Projects uint64 `json:"projects"`
	Root     Digest `json:"root"`
}

// ConsumptionPeriod lies between the moments of two roots, in nanoseconds.
const ConsumptionPeriod = int64(time.Hour)

// ConsumptionRootSet states a ConsumptionRoot. The moments of roots go on. No record after it
// is from before the moment of the root, even if the clock was set back meanwhile.
type ConsumptionRootSet struct{ ConsumptionRoot }

func (ev *ConsumptionRootSet) form(c *coder) {
	c.eventFields(3).int(&ev.At).uint(&ev.Projects).digest(&ev.Root)
}

func (ev ConsumptionRootSet) apply(s *State, m moment) error {
	if ev.At <= s.consumptionAt || ev.At > m.time+ConsumptionPeriod || ev.At%ConsumptionPeriod != 0 {
		return fmt.Errorf("%w: at %d there is no root of consumption up to %d after one up to %d",
			ErrInvariant, m.time, ev.At, s.consumptionAt)
	}
	s.consumptionAt, s.lastTime = ev.At, max(s.lastTime, ev.At)
	return nil
}

// ConsumptionAt is the moment of the newest ConsumptionRoot, in Unix nanoseconds; 0: there is
// none.
func (s *State) ConsumptionAt() int64 { return s.consumptionAt }
