package audit

import (
	"context"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/check"
)

// Status is the answer of GET /audit/status: the position of the log, and its
// proofs.
type Status struct {
	Ledger  ledger.UUID `json:"ledger"`
	Version string      `json:"version"`
	ledger.Head
	Time    time.Time     `json:"time"`  // time of the newest record
	Begun   time.Time     `json:"begun"` // time of the first commit's last record
	Records int64         `json:"records"`
	Root    ledger.Digest `json:"root"` // of the Merkle tree
	// Key is the name of the key in signed checkpoints; empty: the server signs
	// none.
	Key string `json:"key,omitempty"`
	// Audits reports whether the server audits itself; Audit is the last audit.
	Audits bool               `json:"audits"`
	Audit  *check.AuditResult `json:"audit,omitempty"`
	// Scrub is the progress of the search for damage on the disk; nil: there is
	// no search.
	Scrub *check.ScrubStatus `json:"scrub,omitempty"`
}

// status is GET /audit/status.
func (q *Questions) status(_ context.Context, p parameters) (any, error) {
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	if view.Sequence() == 0 {
		return nil, rest.NotFound("there is no record yet")
	}
	checkpoint, err := view.Checkpoint()
	if err != nil {
		return nil, err
	}
	_, newest, _, err := view.CommitMark(view.Sequence())
	if err != nil {
		return nil, err
	}
	_, first, _, err := view.CommitMark(1)
	if err != nil {
		return nil, err
	}
	s := &Status{
		Ledger: q.Notary.Ledger, Version: q.Version, Head: checkpoint.Head, Records: checkpoint.Size, Root: checkpoint.Root,
		Time: time.Unix(0, newest).UTC(), Begun: time.Unix(0, first).UTC(), Audits: q.LastAudit != nil,
	}
	if q.Notary.Key != nil {
		s.Key = q.Notary.Key.Name()
	}
	if q.LastAudit != nil {
		s.Audit = q.LastAudit()
	}
	if q.Scrub != nil {
		status := q.Scrub()
		s.Scrub = &status
	}
	return s, nil
}
