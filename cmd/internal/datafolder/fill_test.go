package datafolder_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// filled is a log of commits with one record each.
func filled(t *testing.T, commits int) (*memlog.Log, ledger.Head) {
	t.Helper()
	log, head := &memlog.Log{}, ledger.Head{}
	builder := ledger.NewCommitBuilder()
	for i := range commits {
		builder.Begin(head)
		record := ledger.Record{
			CommandID: ledger.UUID{1, byte(i >> 16), byte(i >> 8), byte(i)}, Command: "CreateTrait", Time: int64(i) + 1, Actor: "admin",
			Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_TRAIT"}},
		}
		_, _, err := builder.Add(record, 1<<20)
		ledgertest.OK(t, err)
		commit, encoded, err := builder.Seal()
		ledgertest.OK(t, err)
		ledgertest.OK(t, ledgertest.Append(log, commit.Sequence, encoded))
		head = commit.Head()
	}
	return log, head
}

// TestFill: all commits are there, each under its sequence; what was interrupted goes
// on, unless it was of another log.
func TestFill(t *testing.T) {
	log, head := filled(t, 500)
	files := embedded.Files(filepath.Join(t.TempDir(), "log"))
	into := blocks.Import{From: "a test", Last: head}
	fill := func(from *memlog.Log) error {
		return datafolder.Fill(t.Context(), files, into, from.Read, "filling")
	}
	log.Edit(func(entries [][]byte) [][]byte { return entries[:200] })
	if err := fill(log); err == nil {
		t.Error("300 commits are missing, and it says nothing")
	}
	other, _ := filled(t, 300)
	other.Edit(func(entries [][]byte) [][]byte { entries[199] = entries[0]; return entries })
	if err := fill(other); err == nil {
		t.Error("it goes on with another log")
	}
	// What a power cut leaves of it is no reason to give up: none of it counted.
	block := filepath.Join(files.Dir(), "msgs", "1.blk")
	data := []byte(launchtest.Read(t, block))
	clear(data[len(data)/3 : len(data)/2])
	ledgertest.OK(t, os.WriteFile(block, data, 0o600))
	whole, _ := filled(t, 500)
	ledgertest.OK(t, fill(whole))
	ledgertest.OK(t, files.EndImport(head))
	verdict, err := files.Judge(t.Context(), blocks.JudgeOptions{})
	if err != nil || verdict.Report == nil || verdict.Last != head || verdict.Commits != 500 {
		t.Errorf("%+v, %v", verdict, err)
	}
}
