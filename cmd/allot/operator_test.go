package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector/check"
)

// operator is an attacker who has everything, including the signing key.
type operator struct {
	t       *testing.T
	key     note.Signer
	commits []*ledger.Commit
}

func newOperator(t *testing.T, keyFile, exported string) *operator {
	t.Helper()
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t: t}
	if o.key, err = note.NewSigner(strings.TrimSpace(string(text))); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(exported)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // nothing was written
	_, err = logfile.Read(in, func(logfile.Header) error { return nil }, func(entry ledger.Entry) error {
		commit, err := ledger.DecodeCommit(entry.Data)
		o.commits = append(o.commits, commit)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// export writes the commits from one to another as a log that is whole and
// signed: chained again, with a checkpoint of its end.
func (o *operator) export(file string, from, to int) {
	o.t.Helper()
	log, prev := &memlog.Log{}, ledger.Digest{}
	for i, c := range o.commits[:to] {
		forged := *c
		forged.Sequence, forged.Prev = uint64(i+1), prev
		encoded, err := ledger.EncodeCommit(&forged)
		if err == nil {
			err = ledgertest.Append(log, forged.Sequence, encoded)
		}
		if err != nil {
			o.t.Fatal(err)
		}
		prev = ledger.DigestOf(encoded)
	}
	r, err := check.Replay(o.t.Context(), log, uint64(to), "", nil, nil)
	if err != nil {
		o.t.Fatal(err)
	}
	signed, err := r.Checkpoint().Sign(o.key)
	if err != nil {
		o.t.Fatal(err)
	}
	out, err := os.Create(file)
	if err != nil {
		o.t.Fatal(err)
	}
	_, err = logfile.Write(
		o.t.Context(), out, log, logfile.Extent{From: uint64(from), To: uint64(to), Checkpoints: [][]byte{signed}},
	)
	if err != nil || out.Close() != nil {
		o.t.Fatal(err)
	}
}

// TestOperatorIsTheAttacker: with the real key the operator rewrites commit 30,
// or cuts the log off, and signs it again. An auditor finds that offline, with
// only the public key and a kept checkpoint.
func TestOperatorIsTheAttacker(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	s := busy(t, data, "--signing-key", file("key"))
	ask := func(args ...string) string {
		t.Helper()
		return allot(t, true, append(args, "--http", s.http, "--public-key", key)...)
	}
	ask("checkpoint", "--out", file("old"), "--at", "20")
	for i := range 20 {
		s.must(201, "PUT", fmt.Sprintf("/traits/CUSTOM_T%d", i), "")
	}
	ask("checkpoint", "--out", file("kept"))
	s.must(201, "PUT", "/traits/CUSTOM_LAST", "")
	growth := ask("prove", "--since", file("kept"))
	s.kill()
	allot(t, true, "sign", "--data", data, "--signing-key", file("key"))
	allot(t, true, "export", file("honest"), "--data", data)
	allot(t, true, "export", file("honest part"), "--data", data, "--from", "10")
	verified := func(good bool, archive, kept string, says ...string) {
		t.Helper()
		out := allot(t, good, "verify", "--archive", file(archive), "--public-key", key, "--since", file(kept))
		for _, part := range says {
			if !strings.Contains(out, part) {
				t.Errorf("%s against %s: %s lacks %q", archive, kept, out, part)
			}
		}
	}
	verified(true, "honest", "kept", "1 of 1 are of this log")
	verified(true, "honest part", "kept", "is of this log")
	allot(t, false, "verify", "--archive", file("honest"), "--since", file("kept"))

	o := newOperator(t, file("key"), file("honest"))
	o.export(file("cut off"), 1, 20)
	o.export(file("cut off part"), 10, 20)
	o.commits[29].Records[0].Actor = "another actor"
	o.export(file("rewritten"), 1, len(o.commits))
	o.export(file("rewritten part"), 10, len(o.commits))
	o.export(file("rewritten end"), 25, len(o.commits))
	for _, forged := range []string{"cut off", "rewritten"} {
		allot(t, true, "verify", "--archive", file(forged), "--public-key", key) // signed with the real key
		verified(false, forged, "kept", "kept checkpoint")
		verified(false, forged+" part", "kept")
	}
	verified(true, "cut off", "old")
	verified(true, "rewritten", "old") // from before the change
	verified(false, "rewritten end", "old", "nothing connects the two")
	write(t, file("growth"), growth)
	if out := allot(t, true, "check-proof", file("growth"), "--since", file("kept"), "--public-key", key); !strings.Contains(
		out, "and 1 more") {
		t.Errorf("%s", out)
	}
	allot(t, false, "check-proof", file("growth"), "--since", file("old"), "--public-key", key)
}
