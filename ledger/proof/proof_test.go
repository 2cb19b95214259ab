package proof_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// grow adds leaves in commits of random sizes and returns what is kept.
func grow(t *rapid.T, upTo int) (tree *proof.Tree, leaves, kept []ledger.Digest) {
	tree = &proof.Tree{}
	for tree.Size() < int64(upTo) {
		var commit []ledger.Digest
		for range rapid.IntRange(1, 9).Draw(t, "records") {
			commit = append(commit, sha256.Sum256(fmt.Append(nil, len(leaves)+len(commit))))
		}
		leaves = append(leaves, commit...)
		kept = append(kept, tree.Add(commit)...)
	}
	return tree, leaves, kept
}

func reader(kept []ledger.Digest) proof.Hashes {
	return func(numbers []int64) ([]ledger.Digest, error) {
		var found []ledger.Digest
		for _, n := range numbers {
			found = append(found, kept[n])
		}
		return found, nil
	}
}

// TestTree: the tree is the one of RFC 6962 as tlog computes it, it can be
// loaded again, and every record and every earlier tree can be proved, and
// nothing else.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, leaves, kept := grow(t, rapid.IntRange(1, 200).Draw(t, "up to"))
		size := tree.Size()
		if int64(len(kept)) != proof.Kept(size) {
			t.Fatalf("%d hashes kept, not %d", len(kept), proof.Kept(size))
		}
		want, err := tlog.TreeHash(size, reader(kept))
		if err != nil || ledger.Digest(want) != tree.Root() {
			t.Fatalf("root %s, not %v, %v", tree.Root(), want, err)
		}
		again, err := proof.LoadTree(size, reader(kept))
		if err != nil || again.Root() != tree.Root() || again.Size() != size {
			t.Fatalf("loaded: %v, %v", again, err)
		}
		now := &proof.Checkpoint{Size: size, Root: tree.Root()}
		number := rapid.Int64Range(0, size-1).Draw(t, "leaf")
		path, err := proof.Inclusion(number, size, reader(kept))
		if err == nil {
			err = proof.CheckInclusion(path, now, number, leaves[number])
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := proof.CheckInclusion(path, now, number, sha256.Sum256(nil)); !errors.Is(err, proof.ErrProof) {
			t.Fatalf("another record is proved: %v", err)
		}
		earlier := rapid.Int64Range(1, size).Draw(t, "earlier")
		past := &proof.Tree{}
		past.Add(leaves[:earlier])
		then := &proof.Checkpoint{Size: earlier, Root: past.Root()}
		growth, err := proof.Growth(earlier, size, reader(kept))
		if err == nil {
			err = proof.CheckGrowth(growth, then, now)
		}
		if err != nil {
			t.Fatal(err)
		}
		then.Root[3] ^= 1
		if err := proof.CheckGrowth(growth, then, now); !errors.Is(err, proof.ErrProof) {
			t.Fatalf("the growth of another log is proved: %v", err)
		}
	})
}

func checkpoint() *proof.Checkpoint {
	return &proof.Checkpoint{
		Ledger: ledger.UUID{1, 2, 3}, Size: 42, Root: sha256.Sum256([]byte("root")),
		Head: ledger.Head{Sequence: 7, Digest: sha256.Sum256([]byte("head"))},
	}
}

// TestCheckpoint: a signed checkpoint is read again with the key, and with no
// byte changed.
func TestCheckpoint(t *testing.T) {
	private, public, err := note.GenerateKey(rand.Reader, "operator.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	keys := note.VerifierList(verifier)
	signed, err := checkpoint().Sign(signer)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := proof.Open(signed, keys); err != nil || *got != *checkpoint() {
		t.Fatalf("%+v, %v", got, err)
	}
	for i := range signed {
		damaged := bytes.Clone(signed)
		damaged[i] ^= 1
		if got, err := proof.Open(damaged, keys); err == nil {
			t.Errorf("byte %d changed: %+v", i, got)
		}
	}
	if _, err := proof.Open(signed, note.VerifierList()); !errors.Is(err, proof.ErrCheckpoint) {
		t.Errorf("without a key: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(checkpoint().Text())
	f.Add("allot/x\n1\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := proof.Parse(text); err == nil && c.Text() != text {
			t.Errorf("%q is read as %q", text, c.Text())
		}
	})
}
