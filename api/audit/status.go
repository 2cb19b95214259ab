package audit

import (
	"context"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
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
	// Scrub is the progress of the search for damage on the disk; nil: there is
	// no search.
	Scrub *check.ScrubStatus `json:"scrub,omitempty"`
	// Disk is how the disk is now; nil: it is not known.
	Disk *Disk `json:"disk,omitempty"`
}

// Disk is the fullest disk of the data folder.
type Disk struct {
	Free    int64 `json:"free"`    // bytes
	Reserve int64 `json:"reserve"` // bytes; commands are refused while less is free
	Data    int64 `json:"data"`    // bytes of the log and of the read models
	// DaysLeft is how long the room lasts if commands keep coming as in the last
	// day, and take as much room as those before; nil: there were too few to say.
	DaysLeft *float64 `json:"days_left,omitempty"`
	// Stores are the stores of the ledger's contents, each with its own disk.
	Stores []Store `json:"stores,omitempty"`
}

// Store is the log, the read models, the snapshots, or an archive.
type Store struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// BytesPerDay is by how much it grows, at the pace of the last day; nil: that
	// is not known yet.
	BytesPerDay *float64 `json:"bytes_per_day,omitempty"`
	Free        *int64   `json:"free,omitempty"`    // bytes on its disk; nil: it is a bucket
	Reserve     *int64   `json:"reserve,omitempty"` // bytes that are to stay free there
	// DaysLeft is how long the room on its disk lasts above the reserve, at the
	// pace of the last day; nil: it does not become less, or that is not known yet.
	DaysLeft *float64 `json:"days_left,omitempty"`
}

// leastForDays is how many records must have come in the last day for an
// estimate.
const leastForDays = 100

func (d *Disk) estimate(views *projector.Projector) error {
	now := time.Now()
	records, err := views.View().Records()
	if err != nil {
		return err
	}
	before, err := recordsBy(views, now.Add(-24*time.Hour), now)
	if err != nil {
		return err
	}
	if fresh := records - before; fresh >= leastForDays && d.Data > 0 {
		perDay := float64(d.Data) / float64(records) * float64(fresh)
		days := max(0, float64(d.Free-d.Reserve)) / perDay
		d.DaysLeft = &days
	}
	return nil
}

func (q *Questions) status(ctx context.Context, p *parameters) (any, error) {
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	if view.Sequence() == 0 {
		return nil, rest.NotFound("there is no record yet")
	}
	checkpoint, err := view.Checkpoint(ctx, q.Log)
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
		Time: time.Unix(0, newest).UTC(), Begun: time.Unix(0, first).UTC(),
	}
	if q.Notary.Key != nil {
		s.Key = q.Notary.Key.Name()
	}
	if q.Scrub != nil {
		s.Scrub = new(q.Scrub())
	}
	if q.Disk != nil {
		s.Disk = new(q.Disk())
		err = s.Disk.estimate(q.Views)
	}
	return s, err
}

// Digests are the position of the log after a commit, and the digests that a
// replay of the log up to there must give, too.
type Digests struct {
	ledger.Head
	ReadModels ledger.Digest `json:"read_models"`
	Records    int64         `json:"records"`
	Root       ledger.Digest `json:"root"` // of the Merkle tree
}

// digest is GET /audit/digest: of the newest commit unless a moment is asked for.
func (q *Questions) digest(ctx context.Context, p *parameters) (any, error) {
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	sum, err := view.Digest(ctx, q.Log)
	if err != nil {
		return nil, err
	}
	checkpoint, err := view.Checkpoint(ctx, q.Log)
	if err != nil {
		return nil, err
	}
	return &Digests{Head: checkpoint.Head, ReadModels: sum, Records: checkpoint.Size, Root: checkpoint.Root}, nil
}
