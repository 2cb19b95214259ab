package projector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// gapped folds six commits, one a second, of which those before sequence gap have
// their index plus one as sequence, and the others one more. It returns the read
// models, the log, and the time of the last commit.
func gapped(t *testing.T, dir string, gap uint64) (*Projector, ledger.Log, time.Time) {
	t.Helper()
	p, err := Open(dir, slog.New(slog.DiscardHandler))
	ledgertest.OK(t, err)
	id := func(n uint64) ledger.UUID { return ledger.UUID{6: 0x40, 8: 0x80, 15: byte(n)} }
	begin, err := commands.NewAddStandardNames(id(1))
	ledgertest.OK(t, err)
	state, builder := ledger.NewState(), ledger.NewCommitBuilder()
	log := &memlog.Log{}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range uint64(6) {
		var c commands.Command = begin
		if i > 0 {
			c = &commands.CreateProvider{Provider: id(10 + i), Name: fmt.Sprint("p", i)}
		}
		sequence := i + 1
		if sequence == gap {
			err = ledgertest.Append(log, gap, []byte("no commit"))
		}
		if sequence >= gap {
			sequence++
		}
		now = now.Add(time.Second)
		state.Begin()
		builder.BeginAt(sequence, state.Head().Digest)
		events, rejection := c.Decide(state)
		if rejection != nil {
			t.Fatal(rejection)
		}
		r := ledger.Record{CommandID: id(100 + i), Command: commands.NameOf(c), Time: now.UnixNano(), Actor: "a", Events: events}
		ledgertest.OK(t, state.Apply(sequence, &r))
		if _, _, err := builder.Add(r, 1<<30); err != nil {
			t.Fatal(err)
		}
		commit, encoded, sealing := builder.Seal()
		ledgertest.OK(t, err, sealing, ledgertest.Append(log, sequence, encoded))
		state.Advance(commit.Head())
		ledgertest.OK(t, p.Fold(commit, state.Changes()))
	}
	return p, log, now
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
				view, err := p.ViewAt(sequence)
				ledgertest.OK(t, err)
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
			for _, early := range []time.Time{last.Add(-time.Minute), time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC)} {
				if _, err := p.ViewAtTime(early, last); !errors.Is(err, ErrBeforeFirst) {
					t.Errorf("gap at %d: at %s, before the first commit: %v", gap, early, err)
				}
			}
		}
		check()
		ledgertest.OK(t, p.Close())
		var err error
		p, err = Open(dir, slog.New(slog.DiscardHandler))
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
		p, _, _ := gapped(t, t.TempDir(), 4)
		t.Cleanup(func() { _ = p.Close() }) // it is damaged
		m := p.models.Load()
		ledgertest.OK(t, forget(m, lost))
		if err := m.checkSeam(1 << 20); !errors.Is(err, ErrDamaged) {
			t.Errorf("without commit %d a start finds: %v", lost, err)
		}
		other, _, _ := gapped(t, t.TempDir(), 4)
		t.Cleanup(func() { _ = other.Close() })
		m = other.models.Load()
		ledgertest.OK(t, forget(m, lost))
		if _, err := m.lastCommit(lost); !errors.Is(err, ErrDamaged) {
			t.Errorf("without commit %d: %v", lost, err)
		}
	}
}

// forget deletes a commit.
func forget(m *models, sequence uint64) error {
	return m.Use(func(db *pebble.DB) error {
		return db.Delete(binary.BigEndian.AppendUint64([]byte{tableCommit}, sequence), pebble.Sync)
	})
}
