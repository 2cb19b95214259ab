package baremetal_test

import (
	"context"
	"testing"

	"github.com/allot-project/allot/commands"
)

// noting notes what is submitted last.
type noting struct {
	commands.Submitter
	last commands.Submission
}

func (n *noting) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	n.last = s
	return n.Submitter.Submit(ctx, s)
}

// TestWhoLoadsInBulk: each command names its client, on whose account it adds to the log, and only
// administrators and services add to it without a bound.
func TestWhoLoadsInBulk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for who, bulk := range map[string]bool{"p member": false, "admin": true, "nova service": true} {
		n := &noting{Submitter: w.handler.Commands}
		w.handler.Commands = n
		answer := w.send("", who, "POST", "/v1/allocations", `{"resource_class":"bm"}`)
		if n.last.Client == "" || n.last.Bulk != bulk {
			t.Errorf("%s: %d, %+v", who, answer.Code, n.last)
		}
	}
}
