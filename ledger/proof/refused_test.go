package proof_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
)

// changed is a path with one thing changed.
func changed(t *rapid.T, path []ledger.Digest) []ledger.Digest {
	path = slices.Clone(path)
	at := rapid.IntRange(0, len(path)).Draw(t, "where")
	if at == len(path) {
		return append(path, ledger.Digest{1})
	}
	switch rapid.SampledFrom([]string{"bit", "less", "more"}).Draw(t, "what") {
	case "less":
		return slices.Delete(path, at, at+1)
	case "more":
		return slices.Insert(path, at, path[at])
	}
	path[at][rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	return path
}

// TestGrowthOfWhat: a log grows, of one ledger, in records and in sequence.
func TestGrowthOfWhat(t *testing.T) {
	t.Parallel()
	tree := &proof.Tree{}
	kept := tree.Add(someLeaves(7))
	earlier := &proof.Tree{}
	earlier.Add(someLeaves(3))
	growth := ledgertest.Must(proof.Growth(3, 7, reader(kept)))
	before := proof.Checkpoint{Ledger: ledger.UUID{1}, Size: 3, Root: earlier.Root(), Head: ledger.Head{Sequence: 2}}
	now := proof.Checkpoint{Ledger: ledger.UUID{1}, Size: 7, Root: tree.Root(), Head: ledger.Head{Sequence: 5}}
	ledgertest.OK(t, proof.CheckGrowth(growth, &before, &now), proof.CheckGrowth(nil, &now, &now))
	for name, c := range map[string]struct {
		change func(then, later *proof.Checkpoint)
		why    string
	}{
		"another ledger":           {func(c, _ *proof.Checkpoint) { c.Ledger[1] = 1 }, "of the ledgers"},
		"nothing before":           {func(c, _ *proof.Checkpoint) { c.Size = 0 }, "had 0 records"},
		"fewer records":            {func(c, l *proof.Checkpoint) { *c, *l = *l, *c }, "had 7 records"},
		"an earlier sequence":      {func(c, _ *proof.Checkpoint) { c.Sequence = 6 }, "up to sequence 6"},
		"as many, another root":    {func(c, l *proof.Checkpoint) { *c = *l; c.Root[0] ^= 1 }, "another log"},
		"as many, another digest":  {func(c, l *proof.Checkpoint) { *c = *l; c.Digest[0] ^= 1 }, "another log"},
		"as many, at an earlier":   {func(c, l *proof.Checkpoint) { *c = *l; c.Sequence-- }, "another log"},
		"other records before":     {func(c, _ *proof.Checkpoint) { c.Root[0] ^= 1 }, "does not hold"},
		"other records afterwards": {func(_, l *proof.Checkpoint) { l.Root[0] ^= 1 }, "does not hold"},
	} {
		then, later := before, now
		c.change(&then, &later)
		err := proof.CheckGrowth(growth, &then, &later)
		if !errors.Is(err, proof.ErrProof) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v; want an error with %q", name, err, c.why)
		}
	}
	for _, number := range []int64{-1, 7} {
		if err := proof.CheckInclusion(nil, &now, number, ledger.Digest{}); !errors.Is(err, proof.ErrProof) {
			t.Errorf("leaf %d of 7: %v", number, err)
		}
	}
}

func someLeaves(n int) (leaves []ledger.Digest) {
	for i := range n {
		leaves = append(leaves, sha256.Sum256([]byte{byte(i)}))
	}
	return leaves
}

// TestNoCheckpoints: a checkpoint has one form only, so no two texts are the same
// checkpoint.
func TestNoCheckpoints(t *testing.T) {
	t.Parallel()
	text := checkpoint().Text("log")
	if got, err := proof.Parse(text); err != nil || *got != *checkpoint() {
		t.Fatalf("%+v, %v", got, err)
	}
	spelt := strings.NewReplacer(`\n`, "\n", "$ALL", text, "$ID", checkpoint().Ledger.String(), "$NONE", "")
	ledgertest.Answers(t, "testdata/refused.txt", func(line, want string) string {
		old, now, _ := strings.Cut(line, " -> ")
		got, err := proof.Parse(strings.Replace(text, spelt.Replace(old), spelt.Replace(now), 1))
		if got != nil || !errors.Is(err, proof.ErrCheckpoint) {
			t.Errorf("%s: %+v, %v", line, got, err)
		}
		return ledgertest.Has(fmt.Sprint(err), want)
	})
}

// TestSignatures: a signature has one form, too, and nothing may follow it.
func TestSignatures(t *testing.T) {
	t.Parallel()
	signer, keys := ledgertest.Key(t)
	other, _ := ledgertest.Key(t)
	signed := ledgertest.Must(checkpoint().Sign(signer))
	// The last character of base64 in front of its padding has bits that mean
	// nothing: with others, the signature still decodes to the same bytes.
	at := strings.LastIndex(string(signed), "=\n")
	loose := slices.Clone(signed)
	for loose[at-1] == '=' {
		at--
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	loose[at-1] = alphabet[strings.IndexByte(alphabet, loose[at-1])+1]
	if _, err := note.Open(loose, keys); err != nil {
		t.Fatalf("the changed signature is no other form of the same one: %v", err)
	}
	for name, data := range map[string][]byte{
		"another form":  loose,
		"no end":        append(slices.Clone(signed), make([]byte, 16<<10)...),
		"no signature":  []byte(checkpoint().Text("operator.example")),
		"nothing":       nil,
		"another text":  resign(t, "operator.example\n", signer),
		"another's log": resign(t, checkpoint().Text("other.example"), signer),
		"another's key": resign(t, checkpoint().Text("operator.example"), other),
	} {
		if c, err := proof.Open(data, keys); c != nil || !errors.Is(err, proof.ErrCheckpoint) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	lost := errors.New("the key is gone")
	if _, err := checkpoint().Sign(failingSigner{signer, lost}); !errors.Is(err, lost) {
		t.Errorf("a key that does not sign: %v", err)
	}
}

func resign(t *testing.T, text string, signer note.Signer) []byte {
	t.Helper()
	signed := ledgertest.Must(note.Sign(&note.Note{Text: text}, signer))
	return signed
}

type failingSigner struct {
	note.Signer
	err error
}

func (s failingSigner) Sign([]byte) ([]byte, error) { return nil, s.err }

// TestTwoQuorumsShareAWitness: so no two histories are cosigned as long as each witness signs one.
func TestTwoQuorumsShareAWitness(t *testing.T) {
	for n := range 10 {
		if most := proof.Majority(n); most > n || n > 0 && 2*most != n+1 && 2*most != n+2 {
			t.Errorf("%d of %d", most, n)
		}
	}
}

// TestFolder: checkpoints are read in the order of the log. One that cannot be read is an error, because a reader that
// does not see it would believe a log that it contradicts.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "checkpoints")
	if kept, err := proof.ReadFolder(dir); err != nil || len(kept) > 0 {
		t.Errorf("no folder: %v, %v", kept, err)
	}
	folder := ledgertest.Must(proof.OpenFolder(dir))
	for _, sequence := range []uint64{10, 9, 1 << 62} {
		ledgertest.OK(t, folder.Save(sequence, []byte{byte(sequence)}))
	}
	ledgertest.OK(t, os.WriteFile(filepath.Join(dir, "00000000000000000011.checkpoint.tmp"), nil, 0o600))
	kept, err := proof.ReadFolder(dir)
	if err != nil || len(kept) != 3 || kept[0].Signed[0] != 9 || kept[1].Signed[0] != 10 || kept[2].Signed[0] != 0 ||
		filepath.Dir(kept[0].Path) != dir {
		t.Errorf("%v, %v", kept, err)
	}
	ledgertest.OK(t, os.Mkdir(filepath.Join(dir, "00000000000000000012.checkpoint"), 0o750))
	if kept, err := proof.ReadFolder(dir); err == nil {
		t.Errorf("a folder for a checkpoint: %v", kept)
	}
}
