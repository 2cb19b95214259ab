package check_test

import (
	"context"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots"
)

// world is a good log with everything that was made of it, and a key.
type world struct {
	commits     []*ledger.Commit
	encoded     [][]byte
	dir         string // of the read models and snapshots
	snaps       *snapshots.Store
	checkpoints []proof.Kept
	signer      note.Signer
	keys        note.Verifiers
}

const (
	worldCommits = 24
	snapshotAt   = 10
	signedAt     = 15 // and at the end
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{commits: ledgertest.Commits(t, worldCommits), dir: t.TempDir()}
	w.signer, w.keys = ledgertest.Key(t)
	for _, c := range w.commits {
		w.encoded = append(w.encoded, ledgertest.Encoded(t, c))
	}
	var err error
	w.snaps, err = snapshots.Open(filepath.Join(w.dir, "snapshots"), slog.New(slog.DiscardHandler))
	ledgertest.OK(t, err)
	replay(t, w.encoded, worldCommits, filepath.Join(w.dir, "readmodel"), func(r *check.Replayed) error {
		switch r.State.Head().Sequence {
		case snapshotAt:
			return w.snaps.Save(r.State)
		case signedAt, worldCommits:
			w.checkpoints = append(w.checkpoints, sign(t, r, w.signer))
		}
		return nil
	})
	return w
}

// replay folds entries, into read models if a folder is given.
func replay(
	t *testing.T, entries [][]byte, to uint64, dir string, each func(*check.Replayed) error,
) *check.Replayed {
	t.Helper()
	r := ledgertest.Must(check.Replay(t.Context(), memlog.Of(entries), to, dir, nil, each))
	return r
}

func sign(t *testing.T, r *check.Replayed, key note.Signer) proof.Kept {
	t.Helper()
	signed := ledgertest.Must(r.Checkpoint().Sign(key))
	return proof.Kept{Path: fmt.Sprint("of ", r.State.Head().Sequence), Signed: signed}
}

// rechain chains commits again after some were changed, as an attacker would who
// can write everything but has no key.
func rechain(t *testing.T, commits []*ledger.Commit) [][]byte {
	t.Helper()
	var prev ledger.Digest
	var all [][]byte
	for i, c := range commits {
		forged := *c
		forged.Sequence, forged.Prev = uint64(i+1), prev
		encoded := ledgertest.Encoded(t, &forged)
		prev = ledger.DigestOf(encoded)
		all = append(all, encoded)
	}
	return all
}

// altered returns a commit with another actor.
func altered(c *ledger.Commit) *ledger.Commit {
	other := *c
	other.Records = slices.Clone(c.Records)
	other.Records[0].Actor = "mallory"
	return &other
}

// TestMutations changes the log, or its checkpoints and snapshots, in 1,000 ways.
// Every change is noticed, and the first bad sequence is named.
func TestMutations(t *testing.T) {
	w := newWorld(t)
	snapshot, err := filepath.Glob(filepath.Join(w.dir, "snapshots", "*"))
	if err != nil || len(snapshot) != 1 {
		t.Fatal(snapshot, err)
	}
	goodSnapshot := ledgertest.ReadFile(t, snapshot[0])
	foreign, _ := ledgertest.Key(t)
	m := mutator{
		t: t, w: w, random: mathrand.New(mathrand.NewPCG(11, 12)), foreign: foreign,
		path: snapshot[0], snapshot: goodSnapshot,
	}
	mutations := slices.Concat(m.ofTheLog(), m.ofCheckpoints(), m.ofSnapshots())
	temporary := t.TempDir()
	for n := range 300 {
		mutation := mutations[n%len(mutations)]
		d := &damage{slices.Clone(w.encoded), slices.Clone(w.checkpoints), goodSnapshot}
		first, last := mutation.change(d, m.random.IntN(worldCommits))
		ledgertest.OK(t, os.WriteFile(snapshot[0], d.snapshot, 0o600))
		log := memlog.Of(d.entries)
		report, err := check.VerifyLog(context.Background(), log, uint64(len(d.entries)), check.Evidence{
			Snapshots: filepath.Join(w.dir, "snapshots"), Checkpoints: d.checkpoints, Keys: w.keys, Temporary: temporary,
		})
		ledgertest.OK(t, err)
		named := func(f *check.Finding) bool { return int(f.Sequence) >= first && int(f.Sequence) <= last }
		if !slices.ContainsFunc(report.Findings, named) {
			t.Fatalf("mutation %d (%s) was to be found at %d to %d: %v", n, mutation.name, first, last, report.Err())
		}
		if strings.Contains(report.Err().Error(), "%!") {
			t.Fatal(report.Err())
		}
	}
}

// damage is a ledger after a mutation.
type damage struct {
	entries     [][]byte
	checkpoints []proof.Kept
	snapshot    []byte
}

// mutation damages something. It returns the sequences that count as the first
// bad one.
type mutation struct {
	name   string
	change func(d *damage, i int) (first, last int)
}

// mutator makes mutations of a world.
type mutator struct {
	t        *testing.T
	w        *world
	random   *mathrand.Rand
	foreign  note.Signer
	path     string // of the snapshot
	snapshot []byte // as it was
}

func (m *mutator) flip(data []byte) []byte {
	data = slices.Clone(data)
	data[m.random.IntN(len(data))] ^= 1 << m.random.IntN(8)
	return data
}

func (m *mutator) forge(from int) []*ledger.Commit {
	commits := slices.Clone(m.w.commits)
	commits[from] = altered(commits[from])
	return commits
}

func (m *mutator) ofTheLog() []mutation {
	return []mutation{
		{"a bit flipped", func(d *damage, i int) (int, int) { d.entries[i] = m.flip(d.entries[i]); return i + 1, i + 2 }},
		{"a commit dropped", func(d *damage, i int) (int, int) {
			d.entries = slices.Delete(d.entries, i, i+1)
			return i + 1, worldCommits
		}},
		{"two commits swapped", func(d *damage, i int) (int, int) {
			i = min(i, worldCommits-2)
			d.entries[i], d.entries[i+1] = d.entries[i+1], d.entries[i]
			return i + 1, i + 1
		}},
		{"a commit twice", func(d *damage, i int) (int, int) {
			d.entries = slices.Insert(d.entries, i, d.entries[i])
			return i + 2, i + 2
		}},
		{"the end cut off", func(d *damage, i int) (int, int) {
			d.entries = d.entries[:max(1, i)]
			return 1, worldCommits
		}},
		{"history rewritten, with a good chain", func(d *damage, i int) (int, int) {
			d.entries = rechain(m.t, m.forge(i))
			return i + 1, worldCommits
		}},
		{"a forged tail, with a good chain", func(d *damage, i int) (int, int) {
			tail := *altered(m.w.commits[i])
			tail.Records = []ledger.Record{{
				CommandID: ledger.UUID{9}, Command: "CreateTrait", Actor: "mallory",
				Time:   m.w.commits[worldCommits-1].Records[0].Time + 1_000_000_000_000,
				Events: []ledger.Event{ledger.TraitCreated{Name: fmt.Sprint("CUSTOM_FORGED_", i)}},
			}}
			d.entries = rechain(m.t, append(slices.Clone(m.w.commits), &tail))
			return worldCommits + 1, worldCommits + 1
		}},
	}
}

func (m *mutator) ofCheckpoints() []mutation {
	return []mutation{
		{"a checkpoint changed", func(d *damage, i int) (int, int) {
			k := i % len(d.checkpoints)
			d.checkpoints[k].Signed = m.flip(d.checkpoints[k].Signed)
			return 0, worldCommits
		}},
		{"history rewritten, and signed with another key", func(d *damage, i int) (int, int) {
			d.entries = rechain(m.t, m.forge(i))
			d.checkpoints = []proof.Kept{sign(m.t, replay(m.t, d.entries, worldCommits, "", nil), m.foreign)}
			return 0, worldCommits
		}},
	}
}

func (m *mutator) ofSnapshots() []mutation {
	return []mutation{
		{"a snapshot changed", func(d *damage, _ int) (int, int) { d.snapshot = m.flip(m.snapshot); return 0, snapshotAt }},
		{"a snapshot of a rewritten history", func(d *damage, i int) (int, int) {
			i = min(i, snapshotAt-1)
			dir := m.t.TempDir()
			store, err := snapshots.Open(dir, slog.New(slog.DiscardHandler))
			ledgertest.OK(m.t, err)
			ledgertest.OK(m.t, store.Save(replay(m.t, rechain(m.t, m.forge(i)), snapshotAt, "", nil).State))
			d.snapshot = ledgertest.ReadFile(m.t, filepath.Join(dir, filepath.Base(m.path)))
			return snapshotAt, snapshotAt
		}},
	}
}

// TestOperatorAgainstKeptCheckpoint lets the operator, who has the key, rewrite
// the log and sign it. Only an auditor with a kept checkpoint finds out.
func TestOperatorAgainstKeptCheckpoint(t *testing.T) {
	w := newWorld(t)
	early, late := w.checkpoints[:1], w.checkpoints[1:]
	rewritten := func(at int) [][]byte {
		commits := slices.Clone(w.commits)
		commits[at-1] = altered(commits[at-1])
		return rechain(t, commits)
	}
	for name, attack := range map[string]struct {
		entries [][]byte
		kept    []proof.Kept
		found   uint64 // at which sequence; 0: it is not
	}{
		"nothing":                            {w.encoded, w.checkpoints, 0},
		"rewritten before the checkpoint":    {rewritten(signedAt - 5), early, signedAt},
		"the checkpoint's commit":            {rewritten(signedAt), early, signedAt},
		"rewritten after the checkpoint":     {rewritten(signedAt + 5), early, 0},
		"rewritten before the newer one":     {rewritten(signedAt + 5), late, worldCommits},
		"cut off before the checkpoint":      {w.encoded[:signedAt-1], early, signedAt},
		"cut off to an older checkpoint":     {w.encoded[:signedAt], late, worldCommits},
		"cut off, and the older one is kept": {w.encoded[:signedAt], early, 0},
		"no checkpoint was kept":             {rewritten(signedAt - 5), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			last := uint64(len(attack.entries))
			r := replay(t, attack.entries, last, "", nil)
			report, err := check.VerifyLog(t.Context(), memlog.Of(attack.entries), last, check.Evidence{
				Checkpoints: []proof.Kept{sign(t, r, w.signer)}, Kept: attack.kept, Keys: w.keys,
			})
			ledgertest.OK(t, err)
			found := slices.ContainsFunc(report.Findings, func(f *check.Finding) bool {
				return strings.HasPrefix(f.What, "kept checkpoint") && f.Sequence == attack.found
			})
			if found != (attack.found > 0) || (report.Err() == nil) == found {
				t.Errorf("found %v", report.Err())
			}
		})
	}
}
