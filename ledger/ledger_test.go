package ledger_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestGoldenCommits compares encodings with the files, and reads the files,
// because logs are for ever.
func TestGoldenCommits(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		t.Run(history.Name, func(t *testing.T) { compareGolden(t, history.Name+".v1.hex", history.Commits) })
	}
}

func compareGolden(t *testing.T, name string, commits []*ledger.Commit) {
	var lines []string
	for _, c := range commits {
		lines = append(lines, hex.EncodeToString(ledgertest.Encoded(t, c)))
	}
	golden := strings.Fields(ledgertest.Golden(t, name, strings.Join(lines, "\n")+"\n"))
	if len(golden) != len(lines) {
		t.Fatalf("%d commits are on file, not %d", len(golden), len(lines))
	}
	for i, line := range golden {
		if line != lines[i] {
			t.Errorf("commit %d is encoded as %s, on file is %s", i+1, lines[i], line)
		}
		encoded := ledgertest.Must(hex.DecodeString(line))
		decoded := ledgertest.Must(ledger.DecodeCommit(encoded))
		if diff := cmp.Diff(commits[i], decoded, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("commit %d reads differently:\n%s", i+1, diff)
		}
	}
}

// TestGoldenStates compares the State's encoding after each history with the
// file, and reads it. If a form changed under the same version, snapshots of an
// older build would be misread.
func TestGoldenStates(t *testing.T) {
	for _, history := range ledgertest.Histories(t) {
		t.Run(history.Name, func(t *testing.T) {
			state := ledgertest.Fold(t, history.Commits)
			stored := ledgertest.EncodedState(t, state)
			name := fmt.Sprintf("state.v%d.%s.hex", ledger.StateVersion, history.Name)
			now := hex.EncodeToString(stored)
			if golden := strings.TrimSpace(ledgertest.Golden(t, name, now+"\n")); golden != now {
				t.Errorf("the State has another form than in %s: raise the newest version, read the old form, too, "+
					"and write the new files with -update\nnow:     %s\non file: %s", name, now, golden)
			}
			decoded := ledgertest.Must(ledger.DecodeState(stored))
			if !bytes.Equal(ledgertest.EncodedState(t, decoded), stored) {
				t.Error("the State changes when it is stored")
			}
			state.Providers(func(a *ledger.Provider) bool {
				b, _ := decoded.Provider(a.UUID)
				if diff := cmp.Diff(a, b, cmpopts.IgnoreUnexported(ledger.Provider{}), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("the provider differs: %s", diff)
				}
				return true
			})
		})
	}
}

// TestDamagedCommitsAreFound flips bits and cuts: the bytes are no commit any
// more, or have another digest and so break the chain.
func TestDamagedCommitsAreFound(t *testing.T) {
	commit := ledgertest.Commits(t, 1)[0]
	whole := ledgertest.Encoded(t, commit)
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		if c, err := ledger.DecodeCommit(damaged); err == nil && c.Digest == commit.Digest {
			t.Fatalf("flipped bit in byte %d goes unnoticed", i)
		}
		if _, err := ledger.DecodeCommit(whole[:i]); !errors.Is(err, ledger.ErrCorrupt) {
			t.Fatalf("cut at byte %d: %v", i, err)
		}
	}
	if _, err := ledger.DecodeCommit(append(bytes.Clone(whole), 0)); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestFoldRefusesWhatDoesNotFollow drops, repeats, swaps and forges commits.
func TestFoldRefusesWhatDoesNotFollow(t *testing.T) {
	commits := ledgertest.Commits(t, 4)
	forged := *commits[1]
	forged.Prev[0] ^= 1
	for name, list := range map[string][]*ledger.Commit{
		"dropped":  {commits[0], commits[2]},
		"repeated": {commits[0], commits[0]},
		"swapped":  {commits[1], commits[0]},
		"forged":   {commits[0], &forged},
	} {
		s := ledger.NewState()
		var err error
		for _, c := range list {
			if err == nil {
				_, err = s.Fold(c)
			}
		}
		if !errors.Is(err, ledger.ErrChain) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecodeCommit(f *testing.F) {
	for _, history := range ledgertest.Histories(f) {
		for _, c := range history.Commits {
			f.Add(ledgertest.Encoded(f, c))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ledger.DecodeCommit(data)
		if err != nil {
			if !errors.Is(err, ledger.ErrCorrupt) {
				t.Errorf("error of another kind: %v", err)
			}
			return
		}
		if _, err := ledger.EncodeCommit(c); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	f.Add(ledgertest.EncodedState(f, ledgertest.State(f, 10)))
	for _, history := range ledgertest.Histories(f) {
		f.Add(ledgertest.EncodedState(f, ledgertest.Fold(f, history.Commits)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := ledger.DecodeState(data); err != nil && !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("error of another kind: %v", err)
		}
	})
}
