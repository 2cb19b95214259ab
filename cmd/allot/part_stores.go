package main

import (
	"context"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// openCheckpoints reads the signing key, if one is given.
func (s *server) openCheckpoints(context.Context) error {
	signer, err := cli.LoadSigner(s.config.SigningKey)
	s.notary = &present.Notary{Key: signer}
	if err != nil || signer == nil {
		return err
	}
	s.vouchers, err = proof.OpenFolder(s.data.Path(datafolder.Checkpoints))
	return err
}

// saveCheckpoint signs the present log, and stores the signed checkpoint.
func (s *server) saveCheckpoint() {
	view := s.views.View()
	if s.vouchers == nil || view.Sequence() == 0 {
		return
	}
	signed, err := s.notary.Checkpoint(view)
	if err == nil {
		err = s.vouchers.Save(view.Sequence(), signed)
	}
	if err != nil {
		s.logger.Error("checkpoint not signed", "error", err)
	}
}

// signStart stores a signed checkpoint of the log that the server has found.
func (s *server) signStart(context.Context) error {
	s.saveCheckpoint() // If it cannot be stored, the failure is logged, and the next checkpoint may succeed.
	return nil
}

func (s *server) openViews(context.Context) (err error) {
	s.views, err = projector.Open(s.data.Path(datafolder.ReadModels), s.logger)
	return err
}

func (s *server) interruptViews() { s.views.Interrupt() }

// awaitDamage returns when the read models are damaged: the server ends then.
func (s *server) awaitDamage() error { return s.views.Await() }

func (s *server) closeViews() error { return s.views.Close() }

func (s *server) openSnapshots(context.Context) (err error) {
	s.due = snapshots.NewSchedule(snapshots.ScheduleOptions{
		Save: s.saveSnapshot, Records: s.paces.SnapshotRecords, Age: s.paces.SnapshotAge,
	})
	if s.snaps, err = snapshots.Open(s.data.Path(datafolder.Snapshots), s.logger); err == nil {
		s.snaps.KeepFor(s.durableModels)
	}
	return err
}

// durableModels returns the sequence that the read models have reached, whatever ends
// this server.
func (s *server) durableModels() (uint64, error) {
	reached := s.views.Checkpoint().Sequence
	return reached, s.views.Sync()
}

// leaveSnapshot saves the State at the end, unless there is a snapshot of it, so
// that the next start replays nothing.
func (s *server) leaveSnapshot(state *ledger.State) {
	s.due.Wait()
	if state == nil || state.Head().Sequence == 0 {
		return // unknown, or not begun
	}
	heads, err := s.snaps.Heads()
	if err == nil && (len(heads) == 0 || heads[0].Sequence < state.Head().Sequence) {
		err = s.snaps.Save(state)
	}
	if err != nil {
		s.logger.Error("no snapshot is left at the end: the next start replays more of the log", "error", err)
	}
}

func (s *server) saveSnapshot(state *ledger.State) {
	if err := s.snaps.Save(state); err != nil {
		s.logger.Error("snapshot not written", "error", err)
	}
	s.saveCheckpoint()
}
