package projector

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"
)

// EndEpoch has the versions leave that only views before the one of a sequence need.
func (p *Projector) EndEpoch(ctx context.Context, sequence uint64) error {
	if err := p.KeepEpoch(ctx, sequence); err != nil {
		return err
	}
	return p.trimmer().FinishDrop(ctx)
}

// KeepEpoch is EndEpoch, but for the removal.
func (p *Projector) KeepEpoch(ctx context.Context, sequence uint64) error {
	m := p.models.Load()
	head, _, _, err := p.View().CommitMark(sequence)
	if err != nil {
		return err
	}
	view, err := p.ViewAt(sequence)
	if err != nil {
		return err
	}
	records, err := view.Records()
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
	_, _, err = p.trimmer().archiveEpoch(ctx, m, files, mark{head: head, with: records}, folder)
	return errors.Join(err, os.RemoveAll(folder))
}

func (p *Projector) trimmer() *HistoryTrimmer {
	return &HistoryTrimmer{p: p, cfg: HotHistory{Logger: slog.New(slog.DiscardHandler)}}
}

// FinishDrop removes what an epoch has that was not removed.
func (t *HistoryTrimmer) FinishDrop(ctx context.Context) error {
	return t.finishDrop(ctx, t.p.models.Load())
}

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
