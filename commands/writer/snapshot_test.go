package writer_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// TestCloseWaitsForTheSnapshot: the writer ends only after the snapshot, because
// the parts that a snapshot needs are closed after the writer.
func TestCloseWaitsForTheSnapshot(t *testing.T) {
	t.Parallel()
	views, err := projector.Open(filepath.Join(t.TempDir(), "readmodel"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	saving, release := make(chan struct{}), make(chan struct{})
	p := writer.New(&memlog.Log{}, views, ledger.NewState(), writer.Options{
		Now: time.Now,
		Snapshots: snapshots.NewSchedule(snapshots.ScheduleOptions{
			Records: 1, Save: func(*ledger.State) { close(saving); <-release },
		}),
	})
	begin, err := commands.NewAddStandardNames(commandstest.NewID())
	if err == nil {
		_, err = p.Submit(t.Context(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: begin})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-saving
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	for {
		// Once it refuses commands, only the snapshot is left to wait for.
		if _, err := p.Submit(t.Context(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: begin}); err != nil {
			break
		}
	}
	select {
	case <-closed:
		t.Error("closed before the snapshot was written")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := views.Close(); err != nil {
		t.Error(err)
	}
}
