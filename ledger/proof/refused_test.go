package proof_test

import (
	"crypto/sha256"
	"errors"
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
	growth, err := proof.Growth(3, 7, reader(kept))
	ledgertest.OK(t, err)
	at := func(size int64, root ledger.Digest, sequence uint64) func(...func(*proof.Checkpoint)) *proof.Checkpoint {
		return func(changes ...func(*proof.Checkpoint)) *proof.Checkpoint {
			c := &proof.Checkpoint{Ledger: ledger.UUID{1}, Size: size, Root: root, Head: ledger.Head{Sequence: sequence}}
			for _, change := range changes {
				change(c)
			}
			return c
		}
	}
	before, same := at(3, earlier.Root(), 2), at(7, tree.Root(), 5)
	then, now := before(), same()
	ledgertest.OK(t, proof.CheckGrowth(growth, then, now), proof.CheckGrowth(nil, now, now))
	for name, c := range map[string]struct {
		earlier, later *proof.Checkpoint
		why            string
	}{
		"another ledger":           {before(func(c *proof.Checkpoint) { c.Ledger[1] = 1 }), now, "of the ledgers"},
		"nothing before":           {before(func(c *proof.Checkpoint) { c.Size = 0 }), now, "had 0 records"},
		"fewer records":            {now, then, "had 7 records"},
		"an earlier sequence":      {before(func(c *proof.Checkpoint) { c.Sequence = 6 }), now, "up to sequence 6"},
		"as many, another root":    {same(func(c *proof.Checkpoint) { c.Root[0] ^= 1 }), now, "another log"},
		"as many, another digest":  {same(func(c *proof.Checkpoint) { c.Digest[0] ^= 1 }), now, "another log"},
		"as many, at an earlier":   {same(func(c *proof.Checkpoint) { c.Sequence-- }), now, "another log"},
		"other records before":     {before(func(c *proof.Checkpoint) { c.Root[0] ^= 1 }), now, "does not hold"},
		"other records afterwards": {then, same(func(c *proof.Checkpoint) { c.Root[0] ^= 1 }), "does not hold"},
	} {
		err := proof.CheckGrowth(growth, c.earlier, c.later)
		if !errors.Is(err, proof.ErrProof) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v; want an error with %q", name, err, c.why)
		}
	}
	for _, number := range []int64{-1, 7} {
		if err := proof.CheckInclusion(nil, now, number, ledger.Digest{}); !errors.Is(err, proof.ErrProof) {
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

// TestHashesThatCannotBeRead: nothing is proved if a needed hash is missing.
func TestHashesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	lost := errors.New("the disk is gone")
	unreadable := proof.Hashes(func([]int64) ([]ledger.Digest, error) { return nil, lost })
	_, inclusionErr := proof.Inclusion(3, 7, unreadable)
	_, growthErr := proof.Growth(3, 7, unreadable)
	_, treeErr := proof.LoadTree(7, unreadable)
	for what, err := range map[string]error{"Inclusion": inclusionErr, "Growth": growthErr, "LoadTree": treeErr} {
		if !errors.Is(err, lost) {
			t.Errorf("%s: %v", what, err)
		}
	}
	tree := &proof.Tree{}
	kept := tree.Add(someLeaves(7))
	if path, err := proof.Inclusion(7, 7, reader(kept)); err == nil {
		t.Errorf("leaf 7 of 7: %v", path)
	}
	if path, err := proof.Growth(8, 7, reader(kept)); err == nil {
		t.Errorf("from 8 records to 7: %v", path)
	}
}

// TestTreesApart: a copy grows independently of the tree, and an empty tree
// works.
func TestTreesApart(t *testing.T) {
	t.Parallel()
	tree := &proof.Tree{}
	if tree.Root() != sha256.Sum256(nil) {
		t.Errorf("the root of nothing is %s", tree.Root())
	}
	tree.Add(someLeaves(5))
	root, other := tree.Root(), tree.Copy()
	other.Add(someLeaves(4))
	if tree.Root() != root || tree.Size() != 5 || other.Size() != 9 || other.Root() == root {
		t.Errorf("%d records with root %s, and %d with root %s", tree.Size(), tree.Root(), other.Size(), other.Root())
	}
}

// TestNoCheckpoints: a checkpoint has one form only, so no two texts are the same
// checkpoint.
func TestNoCheckpoints(t *testing.T) {
	t.Parallel()
	text := checkpoint().Text("log")
	if got, err := proof.Parse(text); err != nil || *got != *checkpoint() {
		t.Fatalf("%+v, %v", got, err)
	}
	id := checkpoint().Ledger.String()
	for _, c := range []struct{ old, new, why string }{
		{text, "", "0 lines"},
		{"\ndigest", "\n\ndigest", "7 lines"},
		{"4924d\n", "4924d", "5 lines"},
		{"ledger ", "", "not a ledger"},
		{"ledger ", "allot/", "not a ledger"},
		{id, "", "not a ledger"},
		{id, "0" + id, "not a ledger"},
		{"\n42\n", "\n0\n", "not a size"},
		{"\n42\n", "\n-1\n", "not a size"},
		{"\n42\n", "\n9223372036854775808\n", "not a size"},
		{"\n42\n", "\n042\n", "not in the canonical form"},
		{"d7I=", "d7I", "not a root"},
		{"SBNJ", "SBNJSBNJ", "not a root"},
		{"d7I=", "d7J=", "not in the canonical form"},
		{"sequence 7", "sequence 0", "not a sequence"},
		{"sequence 7", "sequence", "not a sequence"},
		{"sequence 7", "sequence -7", "not a sequence"},
		{"sequence 7", "sequence 07", "not in the canonical form"},
		{"digest 9f", "digest ", "not a digest"},
		{"digest 9f", "9f", "not a digest"},
		{"digest 9f", "digest 9F", "not in the canonical form"},
	} {
		damaged := strings.Replace(text, c.old, c.new, 1)
		got, err := proof.Parse(damaged)
		if got != nil || !errors.Is(err, proof.ErrCheckpoint) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q for %q: %+v, %v; want an error with %q", c.new, c.old, got, err, c.why)
		}
	}
}

// TestSignatures: a signature has one form, too, and nothing may follow it.
func TestSignatures(t *testing.T) {
	t.Parallel()
	signer, keys := ledgertest.Key(t)
	other, _ := ledgertest.Key(t)
	signed, err := checkpoint().Sign(signer)
	ledgertest.OK(t, err)
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
	signed, err := note.Sign(&note.Note{Text: text}, signer)
	ledgertest.OK(t, err)
	return signed
}

type failingSigner struct {
	note.Signer
	err error
}

func (s failingSigner) Sign([]byte) ([]byte, error) { return nil, s.err }

// TestFolder: checkpoints are read in the order of the log, from a folder of any
// name. A folder, or a checkpoint in it, that cannot be read is an error, because
// a reader that does not see them would believe a log that they contradict.
func TestFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "of [a-z]*, ?")
	if kept, err := proof.ReadFolder(dir); err != nil || len(kept) > 0 {
		t.Errorf("no folder: %v, %v", kept, err)
	}
	folder, err := proof.OpenFolder(dir)
	ledgertest.OK(t, err)
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
	file := filepath.Join(dir, "00000000000000000009.checkpoint")
	if kept, err := proof.ReadFolder(file); err == nil {
		t.Errorf("a file for a folder: %v", kept)
	}
	if _, err := proof.OpenFolder(file); err == nil {
		t.Error("a file is opened as a folder")
	}
	ledgertest.OK(t, os.RemoveAll(dir))
	if err := folder.Save(11, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("saved in a folder that is gone: %v", err)
	}
}
