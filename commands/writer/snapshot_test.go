package writer_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// TestCloseLeavesTheSnapshotAlone: the writer ends while a snapshot is being saved,
// so that another server can lead at once. The Schedule knows when it is saved.
func TestCloseLeavesTheSnapshotAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, closeWhileASnapshotIsSaved)
}

func closeWhileASnapshotIsSaved(t *testing.T) {
	views, err := projector.Open(filepath.Join(t.TempDir(), "readmodel"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	saving, release := make(chan struct{}), make(chan struct{})
	due := snapshots.NewSchedule(snapshots.ScheduleOptions{
		Records: 1, Save: func(*ledger.State) { close(saving); <-release },
	})
	p := writer.New(&memlog.Log{}, views, ledger.NewState(), writer.Options{Now: time.Now, Snapshots: due})
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err == nil {
		_, err = p.Submit(t.Context(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: begin})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-saving
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	saved := make(chan struct{})
	go func() { due.Wait(); close(saved) }()
	synctest.Wait()
	select {
	case <-saved:
		t.Error("the snapshot counts as saved before it is")
	default:
	}
	close(release)
	<-saved
	if err := views.Close(); err != nil {
		t.Error(err)
	}
}
