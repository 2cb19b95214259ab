package projector

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Histories of tests have few rows of an entity: two of them make a range.
func init() { dropRun = 2 }

// EndEpochs has the versions leave that only views before those of some sequences need, in
// an epoch for each.
func (p *Projector) EndEpochs(ctx context.Context, sequences ...uint64) error {
	m, ends, err := p.ends(sequences)
	if err != nil {
		return err
	}
	return p.trimmer().endEpochs(ctx, m, m.origin.past.Load(), ends)
}

// KeepEpoch is EndEpochs of one, but for the removal.
func (p *Projector) KeepEpoch(ctx context.Context, sequence uint64) error {
	m, ends, err := p.ends([]uint64{sequence})
	if err != nil {
		return err
	}
	files := m.origin.past.Load()
	folder, err := files.Folder()
	if err != nil {
		return err
	}
	if folder, err = os.MkdirTemp(folder, "epoch-"); err != nil {
		return err
	}
	made, err := m.makeEpochs(ctx, ends, folder)
	if err == nil {
		err = p.trimmer().archiveEpoch(ctx, m, files, made[0])
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// OpenOn is Open on a file system.
func OpenOn(files vfs.FS, dir string) (*Projector, error) {
	return openOn(files, dir, slog.New(slog.DiscardHandler))
}

// ends returns the marks of some commits.
func (p *Projector) ends(sequences []uint64) (m *models, ends []mark, err error) {
	for _, sequence := range sequences {
		head, _, _, err := p.View().CommitMark(sequence)
		if err != nil {
			return nil, nil, err
		}
		view, err := p.ViewAt(sequence)
		if err != nil {
			return nil, nil, err
		}
		records, err := view.Records()
		if err != nil {
			return nil, nil, err
		}
		ends = append(ends, mark{head: head, with: records})
	}
	return p.models.Load(), ends, nil
}

func (p *Projector) trimmer() *HistoryTrimmer {
	return &HistoryTrimmer{p: p, cfg: HotHistory{Logger: slog.New(slog.DiscardHandler)}}
}

// FinishDrop removes what an epoch has that was not removed.
func (t *HistoryTrimmer) FinishDrop(ctx context.Context) error {
	return t.finishDrop(ctx, t.p.models.Load())
}

// FinishDrop is that of a trimmer.
func (p *Projector) FinishDrop(ctx context.Context) error { return p.trimmer().FinishDrop(ctx) }

// FillArchives writes into archives what they lack.
func (t *HistoryTrimmer) FillArchives(ctx context.Context) error {
	m := t.p.models.Load()
	return t.fillArchives(ctx, m, m.origin.past.Load())
}

// Rows counts rows in the tables that leave.
func (p *Projector) Rows(t *testing.T) (n int) {
	t.Helper()
	it, err := p.models.Load().cursor(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if mayLeave(it.Key()[0]) {
			n++
		}
	}
	if err := finish(it, nil); err != nil {
		t.Fatal(err)
	}
	return n
}
