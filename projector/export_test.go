package projector

import (
	"context"
	"log/slog"
)

// EndEpoch has the versions leave that only views before the one of a sequence need.
func (p *Projector) EndEpoch(ctx context.Context, sequence uint64) error {
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
	t := &HistoryTrimmer{p: p, cfg: HotHistory{Logger: slog.New(slog.DiscardHandler)}}
	return t.endEpoch(ctx, m, m.origin.past.Load(), mark{head: head, with: records})
}
