package leading_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestNoFollowerReadsAheadOfTheLeader: while the leader does not know that a commit is in
// the log, no replica shows it to a read that must be fresh, or that names the commit that
// it needs. Else a client could read it there, and not find it at the leader afterwards.
func TestNoFollowerReadsAheadOfTheLeader(t *testing.T) {
	g := startGroup(t, nil)
	leader := g.leader()
	leader.submit(t, &commands.CreateTrait{Name: "CUSTOM_BEFORE"})
	late := make(chan struct{})
	release := sync.OnceFunc(func() { close(late) })
	t.Cleanup(release)
	leader.late.Store(&late)
	answered := make(chan error, 1)
	go func() {
		_, err := leader.Submit(context.Background(), commands.Submission{
			ID: commands.NewID(), Actor: "test", Command: &commands.CreateTrait{Name: "CUSTOM_LATE"},
		})
		answered <- err
	}()
	follower := g.others()[0]
	next := leader.views.Checkpoint().Sequence + 1
	ledgertest.WaitFor(t, "the commit to be in the follower's log", func() bool {
		last, err := follower.log.Last(t.Context())
		return err == nil && last >= next
	})
	if err := follower.FollowAnew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown := follower.views.Checkpoint().Sequence; shown >= next {
		t.Errorf("a follower has folded sequence %d, and the leader %d", shown, leader.views.Checkpoint().Sequence)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := follower.Fresh(ctx)
	if shown := follower.views.Checkpoint().Sequence; err == nil && shown >= next {
		t.Fatalf("a follower shows sequence %d, and the leader %d", shown, leader.views.Checkpoint().Sequence)
	}
	if err := leader.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	if err := follower.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if shown := follower.views.Checkpoint().Sequence; shown < next {
		t.Errorf("a follower shows sequence %d after a fresh read, and not the acknowledged %d", shown, next)
	}
}
