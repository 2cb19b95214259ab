package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
)

// HotHistory says which commits leave the read models, once archives have them, and with
// them the versions that only views of before need: these need ReadPastFrom.
type HotHistory struct {
	Age      time.Duration // younger commits stay
	Records  int64         // versions leave when so many records, or more, have brought them; 0: 65,536
	Archives []ArchivedLog // all must have what leaves
	Every    time.Duration // how often it is looked for what is due
	Now      func() time.Time
	Logger   *slog.Logger
}

// ArchivedLog is the log in one archive.
type ArchivedLog interface {
	ledger.Log
	fmt.Stringer
	// PartEnd returns the last sequence of the part that holds a sequence; 0: the
	// archive has none yet.
	PartEnd(ctx context.Context, sequence uint64) (uint64, error)
}

var (
	// ErrKeepsAll means that commits cannot leave, because there is no archive or no
	// age.
	ErrKeepsAll = errors.New("projector: commits leave the read models only with archives, and with an age")

	// ErrArchiveDiffers means that an archive does not give what the read models say
	// about a commit.
	ErrArchiveDiffers = errors.New("projector: the archive gives another commit than the read models have")
)

// lastHistoryPause bounds the pause after a failure.
const lastHistoryPause = time.Minute

// HistoryTrimmer has old commits leave the read models, in the background.
type HistoryTrimmer struct {
	p    *Projector
	cfg  HotHistory
	stop context.CancelFunc
	idle sync.WaitGroup

	// Only Work uses these.
	filled   bool             // archives have the files of all epochs
	entities map[uint64]int64 // how many there were after commits, see alive

	mu    sync.Mutex
	state HistoryStatus // guarded by mu
}

// HistoryStatus says what a HistoryTrimmer has done since it was started.
type HistoryStatus struct {
	Commits uint64 // that have left
	Epochs  uint64 // whose versions have left
	Fault   string // why none leaves now; empty: nothing is wrong
}

// TrimHistory starts a HistoryTrimmer.
func (p *Projector) TrimHistory(cfg HotHistory) (*HistoryTrimmer, error) {
	t, err := p.NewHistoryTrimmer(cfg)
	if err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, t.stop = context.WithCancel(context.Background())
	t.idle.Go(func() { t.run(ctx) })
	return t, nil
}

// NewHistoryTrimmer returns a HistoryTrimmer that does nothing by itself.
func (p *Projector) NewHistoryTrimmer(cfg HotHistory) (*HistoryTrimmer, error) {
	if len(cfg.Archives) == 0 || cfg.Age <= 0 {
		return nil, ErrKeepsAll
	}
	return &HistoryTrimmer{p: p, cfg: cfg}, nil
}

// Stop ends the HistoryTrimmer. What it was about to do it does after the next
// start.
func (t *HistoryTrimmer) Stop() {
	t.stop()
	t.idle.Wait()
}

// Status says what has left.
func (t *HistoryTrimmer) Status() HistoryStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// fault notes why nothing leaves, and reports whether that is new.
func (t *HistoryTrimmer) fault(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state.Fault == text {
		return false
	}
	t.state.Fault = text
	return true
}

func (t *HistoryTrimmer) run(ctx context.Context) {
	pause := t.cfg.Every
	for {
		err := t.Work(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pause = t.cfg.Every
			t.fault("")
		} else {
			pause = min(2*pause, max(lastHistoryPause, t.cfg.Every))
			if t.fault(err.Error()) && !errors.Is(err, ErrRebuilding) {
				t.cfg.Logger.Error("nothing leaves the read models now; they keep everything meanwhile", "error", err, "again_in", pause)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// Work has leave what is due, a part of the archives after the other.
func (t *HistoryTrimmer) Work(ctx context.Context) error {
	for {
		m := t.p.models.Load()
		if err := t.versionsLeave(ctx, m); err != nil {
			return err
		}
		cold := m.coldUpTo()
		to, err := t.due(ctx, m, cold)
		if err != nil || to == 0 {
			return err
		}
		var marks []mark
		for _, a := range t.cfg.Archives {
			if marks, err = m.confirm(ctx, a, cold, to); err != nil {
				return fmt.Errorf("%s: %w", a, err)
			}
		}
		if err := m.leave(cold.head.Sequence+1, marks); err != nil {
			return err
		}
		last := marks[len(marks)-1]
		t.mu.Lock()
		t.state.Commits += last.head.Sequence - cold.head.Sequence
		t.mu.Unlock()
		t.cfg.Logger.Info("commits have left the read models: all archives have them, as was verified just now",
			"first", cold.head.Sequence+1, "last", last.head.Sequence, "records", last.with-cold.with)
	}
}

// due returns the last commit that is to leave next: the end of a part that every
// archive has, if it is old enough. The newest commit stays, which says where the
// read models are. 0: none is.
func (t *HistoryTrimmer) due(ctx context.Context, m *models, cold mark) (uint64, error) {
	first, newest := cold.head.Sequence+1, m.checkpoint().Sequence
	if newest <= first {
		return 0, nil
	}
	to := newest - 1
	for _, a := range t.cfg.Archives {
		end, err := a.PartEnd(ctx, first)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", a, err)
		}
		to = min(to, end)
	}
	if to < first {
		return 0, nil
	}
	last, err := m.lastCommit(to)
	if err != nil || last < first {
		return 0, err
	}
	_, at, _, err := m.view().CommitMark(last)
	if err != nil || t.cfg.Now().UnixNano()-at < int64(t.cfg.Age) {
		return 0, err
	}
	return last, nil
}

// confirm makes each commit after a mark up to a sequence again from a log, compares
// it with that of the read models, and returns the marks that are to stay.
func (m *models) confirm(ctx context.Context, log ledger.Log, cold mark, to uint64) ([]mark, error) {
	stays := marking{records: cold.with}
	end, err := readOutlines(ctx, log, cold, to, func(o *ledger.Outline, k mark) error {
		leaves, hashes := leafRow(o, k.with)
		row := appendCommit(nil, o.Digest, o.Records, k.with)
		for _, row := range [][2][]byte{{commitKey(o.Sequence), row}, {leaves, hashes}} {
			same := false
			_, err := m.get(row[0], func(have []byte) error {
				same = bytes.Equal(have, row[1])
				return nil
			})
			if err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("%w: %d", ErrArchiveDiffers, o.Sequence)
			}
		}
		stays.add(k, o.Sequence == to)
		return nil
	})
	if err == nil && end.head.Sequence != to {
		err = fmt.Errorf("%w: it ends at %d, not at %d", ErrArchiveDiffers, end.head.Sequence, to)
	}
	return stays.marks, err
}

// marking chooses the commits of which marks stay: the first one of the log, the last
// one that leaves, and between them those with which there are so many records that
// there is one due.
type marking struct {
	records int64 // with the last mark; 0: there is none
	marks   []mark
}

// add takes the mark that the next commit would have.
func (m *marking) add(k mark, isLast bool) {
	if m.records > 0 && k.with-m.records < markRecords && !isLast {
		return
	}
	k.before, m.records = m.records, k.with
	m.marks = append(m.marks, k)
}
