package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// maker makes providers, one with each record, which are appended to a log and folded.
type maker struct {
	views *Projector
	state *ledger.State
	log   ledger.Log
	made  int // records
}

// commit makes a commit of some records; at is when the nth record is made.
func (m *maker) commit(t *testing.T, sequence uint64, records int, at func(n int) int64) *ledger.Commit {
	t.Helper()
	id := func(kind byte) ledger.UUID {
		return ledger.UUID{1: kind, 6: 0x40, 8: 0x80, 14: byte(m.made >> 8), 15: byte(m.made)}
	}
	m.state.Begin()
	var list []ledger.Record
	for range records {
		m.made++
		var c commands.Command = &commands.CreateProvider{Provider: id(2), Name: fmt.Sprint("p", m.made)}
		if m.made == 1 {
			begin := ledgertest.Must(commands.NewAddStandardNames(id(1)))
			c = begin
		}
		events, rejection := commands.Decide(commands.Submission{Command: c}, m.state)
		if rejection != nil {
			t.Fatal(rejection)
		}
		r := ledger.Record{CommandID: id(3), Command: commands.NameOf(c), Time: at(m.made), Actor: "a", Events: events}
		ledgertest.OK(t, m.state.Apply(sequence, &r))
		list = append(list, r)
	}
	after := ledger.Head{Sequence: sequence - 1, Digest: m.state.Head().Digest}
	commit, encoded := ledgertest.Commit(t, after, list...)
	m.state.Advance(commit.Head())
	ledgertest.OK(t, ledgertest.Append(m.log, sequence, encoded), m.views.Fold(commit, m.state.Changes()))
	return commit
}

// gapped folds six commits, one a second, of which those before sequence gap have
// their index plus one as sequence, and the others one more. It returns the read
// models, the log, and the time of the last commit.
func gapped(t *testing.T, dir string, gap uint64) (*Projector, ledger.Log, time.Time) {
	t.Helper()
	p := ledgertest.Must(Open(dir, quiet))
	m := &maker{views: p, state: ledger.NewState(), log: &memlog.Log{}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range uint64(6) {
		sequence := i + 1
		if sequence == gap {
			ledgertest.OK(t, ledgertest.Append(m.log, gap, []byte("no commit")))
		}
		if sequence >= gap {
			sequence++
		}
		now = now.Add(time.Second)
		m.commit(t, sequence, 1, func(int) int64 { return now.UnixNano() })
	}
	return p, m.log, now
}

// TestGapsAreNoDamage: where the log has an entry that is no commit, every moment is
// answered as the one before it, and a start takes the read models as they are.
func TestGapsAreNoDamage(t *testing.T) {
	t.Parallel()
	for _, gap := range []uint64{2, 4, 6} {
		dir := t.TempDir()
		p, log, last := gapped(t, dir, gap)
		check := func() {
			t.Helper()
			for sequence := uint64(1); sequence <= 7; sequence++ {
				want := int64(sequence)
				if sequence >= gap {
					want--
				}
				view := ledgertest.Must(p.ViewAt(sequence))
				if got, err := view.Records(); err != nil || got != want {
					t.Errorf("gap at %d: at %d there are %d records, want %d: %v", gap, sequence, got, want, err)
				}
				if _, err := view.Tree(t.Context(), log); err != nil {
					t.Errorf("gap at %d: the tree at %d: %v", gap, sequence, err)
				}
			}
			for n := range int64(6) {
				at := last.Add(-time.Duration(5-n)*time.Second + time.Second/2)
				view, err := p.ViewAtTime(at, at)
				if err != nil {
					t.Fatalf("gap at %d: at %v: %v", gap, at, err)
				}
				if got, err := view.Records(); err != nil || got != n+1 {
					t.Errorf("gap at %d: after %d seconds there are %d records: %v", gap, n+1, got, err)
				}
			}
			if _, err := p.ViewAtTime(last.Add(-time.Minute), last); !errors.Is(err, ErrBeforeFirst) {
				t.Errorf("gap at %d: a minute before the last commit: %v", gap, err)
			}
		}
		check()
		ledgertest.OK(t, p.Close())
		var err error
		p, err = Open(dir, quiet)
		ledgertest.OK(t, err)
		if got := p.Checkpoint().Sequence; got != 7 {
			t.Errorf("gap at %d: after a start %d of 7 are folded", gap, got)
		}
		check()
		ledgertest.OK(t, p.Close())
	}
}

// TestLostCommitsAreDamage: a commit that is gone is told from a gap, also beside one.
func TestLostCommitsAreDamage(t *testing.T) {
	t.Parallel()
	for _, lost := range []uint64{1, 3, 5, 6} {
		for what, find := range map[string]func(*models) error{
			"a start":  func(m *models) error { return m.checkSeam(1 << 20) },
			"a reader": func(m *models) error { _, err := m.lastCommit(lost); return err },
		} {
			p, _, _ := gapped(t, t.TempDir(), 4)
			t.Cleanup(func() { _ = p.Close() }) // it is damaged
			m := p.models.Load()
			ledgertest.OK(t, m.Use(func(db *pebble.DB) error {
				return db.Delete(binary.BigEndian.AppendUint64([]byte{tableCommit}, lost), pebble.Sync)
			}))
			if err := find(m); !errors.Is(err, ErrDamaged) {
				t.Errorf("without commit %d %s finds: %v", lost, what, err)
			}
		}
	}
}
