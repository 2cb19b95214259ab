package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/memlog"
)

// refuses checks that a server ends by itself, and says why and what to do.
func (s *server) refuses(words ...string) {
	s.T.Helper()
	if s.Serves() {
		s.T.Fatalf("it serves:\n%s", s.Logs)
	}
	if s.Wait() == nil {
		s.T.Error("it ended as if all were well")
	}
	for _, word := range words {
		if !strings.Contains(s.Logs.String(), word) {
			s.T.Errorf("it does not say %q:\n%s", word, s.Logs)
		}
	}
}

// sole makes the data of a single server that has written something.
func sole(t *testing.T) string {
	t.Helper()
	data := t.TempDir()
	s := launch(t, data)
	s.Must(201, "PUT", "/traits/CUSTOM_ALONE", "")
	s.Terminate()
	return data
}

// TestReplicaRefusals: a server that cannot be part of a cluster says so at the
// start, with what to do, and the cluster goes on.
func TestReplicaRefusals(t *testing.T) {
	t.Parallel()
	r := launchReplicas(t)
	r.list[0].Must(201, "PUT", "/traits/CUSTOM_BEFORE", "")
	victim := (r.leader() + 1) % 3
	other := sole(t)
	alive := r.list[(victim+1)%3]
	for _, c := range []struct {
		name string
		// prepare makes the folder, and returns the flags of the start.
		prepare func(t *testing.T, data string) (flags []string)
		// beside: the replica in that place runs, too.
		beside bool
		words  []string
	}{
		{name: "data of a server that was alone", prepare: func(t *testing.T, data string) []string {
			copyTree(t, other, data)
			return nil
		}, words: []string{"is the data of a single server", "--from FILE", "nothing was changed"}},
		{name: "read models of another ledger", prepare: func(t *testing.T, data string) []string {
			copyTree(t, r.data(victim), data)
			for _, name := range []string{"readmodel", "snapshots"} {
				replaceTree(t, filepath.Join(other, name), filepath.Join(data, name))
			}
			return nil
		}, words: []string{"of another ledger than the cluster's", "move the folder away"}},
		{name: "another secret", prepare: func(t *testing.T, data string) []string {
			secret := filepath.Join(t.TempDir(), "secret")
			if err := os.WriteFile(secret, []byte(uuid.NewString()), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--cluster-secret-file", secret}
		}, words: []string{"another secret", "--cluster-secret-file"}},
		{name: "the name of another", beside: true, prepare: func(t *testing.T, data string) []string {
			return []string{"--cluster-listen", freeAddress(t)}
		}, words: []string{"is called", "--cluster-name"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.beside {
				r.list[victim].Terminate()
			}
			data := filepath.Join(t.TempDir(), "data")
			flags := c.prepare(t, data)
			r.start(t, victim, data, flags...).refuses(c.words...)
			if !c.beside {
				r.begin(victim)
			}
			if !r.list[victim].Serves() {
				t.Fatalf("the right one does not come back:\n%s", r.list[victim].Logs)
			}
			r.leader()
			alive.Must(200, "GET", "/traits", "")
		})
	}
	t.Run("a replica's data without --cluster", func(t *testing.T) {
		r.list[victim].Terminate()
		start(t, r.data(victim)).refuses("is the data of one of several servers", "--cluster", "nothing was changed")
		r.begin(victim)
		if !r.list[victim].Serves() {
			t.Fatal("it does not come back")
		}
	})
}

// start starts a server in the place of a replica, on other data and with other
// flags.
func (r *replicas) start(t *testing.T, i int, data string, flags ...string) *server {
	t.Helper()
	before, secret, listener := r.list[i], r.secret, r.nats[i]
	defer func() { r.list[i], r.secret, r.nats[i] = before, secret, listener }()
	r.nats[i] = ""
	if len(flags) > 0 && flags[0] == "--cluster-secret-file" {
		r.secret, flags = flags[1], flags[2:]
	}
	r.beginOn(t, i, data, flags...)
	return r.list[i]
}

// copyTree copies a folder.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// replaceTree copies a file or folder in the place of another.
func replaceTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	copyTree(t, from, to)
}

// TestNewerLevel: a log of a newer release is refused at the term that says so,
// before anything after that is folded.
func TestNewerLevel(t *testing.T) {
	_, sealed, err := commitOf(ledger.LedgerCreated{Ledger: ledger.UUID(uuid.New())}, ledger.TermBegan{Term: ledger.Term{
		Number: 1, Leader: "a", Instance: ledger.UUID(uuid.New()), Level: ledger.Level + 1,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	log := memlog.Of([][]byte{sealed})
	if _, err := logfile.Write(t.Context(), &file, log, logfile.Extent{From: 1, To: 1}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, data := filepath.Join(dir, "archive"), filepath.Join(dir, "data")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "import", path, "--data", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	start(t, data).refuses("newer release", fmt.Sprintf("knows level %d", ledger.Level+1))
}

// commitOf returns the first commit of a log, with some events.
func commitOf(events ...ledger.Event) (*ledger.Commit, []byte, error) {
	b := ledger.NewCommitBuilder()
	b.Begin(ledger.Head{})
	_, _, err := b.Add(ledger.Record{
		CommandID: ledger.UUID(uuid.New()), Command: "BeginTerm", Actor: "allot", Time: 1, Events: events,
	}, 1<<20)
	if err != nil {
		return nil, nil, err
	}
	return b.Seal()
}
