package candidates

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
)

// meter counts work, and stops a search that has become too long or unwanted.
type meter struct {
	ctx   context.Context
	req   *Request
	steps int
}

// pauseSteps is the number of steps between two pauses, which take 20 to 100 us.
const pauseSteps = 256

func (m *meter) step() error { return m.work(1) }

func (m *meter) work(steps int) error {
	before := m.steps
	m.steps += steps
	if m.req.MaxSteps > 0 && m.steps > m.req.MaxSteps {
		return m.spent()
	}
	if before/pauseSteps == m.steps/pauseSteps {
		return nil
	}
	if err := m.ctx.Err(); err != nil || m.req.Pause == nil {
		return err
	}
	return m.req.Pause(m.ctx)
}

func (m *meter) spent() error { return fmt.Errorf("%w: more than %d steps", ErrBudget, m.req.MaxSteps) }

// suffices says at once that the budget is not enough to look at all of some roots, each
// of which takes a step at least. A caller with a larger budget then loses no time.
func (m *meter) suffices(roots *roaring.Bitmap) error {
	if m.req.MaxSteps > 0 && m.steps+int(roots.GetCardinality()) > m.req.MaxSteps {
		return m.spent()
	}
	return nil
}
