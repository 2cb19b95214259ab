package shadow

import (
	"context"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestUnderWay: while everything is compared, the status says what is read, and how far it is.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	reads, goes := make(chan struct{}), make(chan struct{})
	s, _ := between(t, Placement, newService(t), newService(t), func(c *Config) {
		c.Contents = func(ctx context.Context, of Side, show func(done, total uint64)) (*contents.Plan, error) {
			if of == Placement {
				show(3, 7)
				close(reads)
				<-goes
			}
			return new(contents.Plan), nil
		}
	})
	<-reads
	if got := s.Status().UnderWay; got != "everything is compared: reading placement, 3 of 7" {
		t.Errorf("under way: %q", got)
	}
	close(goes)
	ledgertest.WaitFor(t, "the end of the comparison", func() bool { return s.Status().Comparisons == 1 && s.Status().UnderWay == "" })
}
