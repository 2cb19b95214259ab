package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
)

// brokenLog is a log whose disk became full before an append.
type brokenLog struct {
	*embedded.Server
	dir          string
	nc           *nats.Conn
	log          *jetstream.Log
	acknowledged uint64
}

func startOn(t *testing.T, dir string, users []embedded.User) *brokenLog {
	t.Helper()
	ns, nc := logtest.StartNATS(t, embedded.Config{StoreDir: filepath.Join(dir, "log"), Users: users})
	log := logtest.OpenLog(t, nc, jetstream.Config{MayCreate: true, AckTimeout: hangLimit})
	return &brokenLog{Server: ns, dir: dir, nc: nc, log: log}
}

// breakAt appends, fills the disk before a given append, and goes on until JetStream is broken.
func (b *brokenLog) breakAt(t *testing.T, sequence uint64) {
	t.Helper()
	for b.acknowledged < sequence-1 {
		ledgertest.OK(t, b.append(t, b.acknowledged+1))
		b.acknowledged++
	}
	logtest.FillUp(t, filepath.Join(b.dir, "filler"), 0)
	err := b.append(t, b.acknowledged+1)
	for ; err == nil; err = b.append(t, b.acknowledged+1) {
		b.acknowledged++
	}
	if broken := b.WhyBroken(); !errors.Is(err, ledger.ErrUnknownFate) || !errors.Is(broken, embedded.ErrBroken) ||
		!embedded.NoSpace(broken) {
		t.Fatalf("%v; broken: %v", err, broken)
	}
	readAll(t, b.log, b.acknowledged)
	ledgertest.OK(t, os.Remove(filepath.Join(b.dir, "filler")))
}

// goesOn checks that everything that was acknowledged is there, that nothing is
// missing, and that more can be appended.
func (b *brokenLog) goesOn(t *testing.T) {
	t.Helper()
	last, err := b.log.Last(context.Background())
	for errors.Is(err, ledger.ErrUnavailable) {
		last, err = b.log.Last(context.Background())
	}
	if err != nil || last < b.acknowledged || last > b.acknowledged+1 {
		t.Fatalf("%d were acknowledged, and %d are there: %v", b.acknowledged, last, err)
	}
	if err := b.append(t, last+1); err != nil {
		t.Errorf("more: %v", err)
	}
	readAll(t, b.log, last+1)
}

// firstOfBlock returns the sequence of the first message in the stream's second block.
func firstOfBlock(t *testing.T) uint64 {
	b := startOn(t, logtest.SmallDisk(t, "24m"), nil)
	second := filepath.Join(b.dir, "log", "jetstream", "$G", "streams", jetstream.DefaultStream, "msgs", "2.blk")
	for sequence := uint64(1); ; sequence++ {
		ledgertest.OK(t, b.append(t, sequence))
		if _, err := os.Stat(second); err == nil {
			return sequence
		}
	}
}

// TestFullDiskLosesNothing fills the disk before the first message, in the middle of a block, and before the first
// message of another block. The server tells that its store is broken, and what it leaves when its process ends
// opens: everything that was acknowledged is there, no sequence is lost, and the log goes on.
func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	users := []embedded.User{{Name: "u", PasswordHash: "x", Publish: []string{"a"}}}
	for name, c := range map[string]struct {
		at    uint64
		users []embedded.User
	}{
		"first message": {1, nil}, "users": {1, users}, "middle": {5, nil}, "first of a block": {firstOfBlock(t), nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := startOn(t, logtest.SmallDisk(t, "24m"), c.users)
			b.breakAt(t, c.at)
			if err := b.append(t, b.acknowledged+1); err == nil {
				t.Error("JetStream recovers by itself: no server has to end any more")
			}
			b.Shutdown()
			left := t.TempDir() // the process goes on here, and with it the store
			ledgertest.OK(t, os.CopyFS(left, os.DirFS(b.dir)))
			again := startOn(t, left, c.users)
			again.acknowledged = b.acknowledged
			again.goesOn(t)
		})
	}
}

// commits are the commits of every test, of 100 KB each.
var commits struct {
	sync.Mutex
	made []*ledger.Commit
	data [][]byte
}

// commitOf is the nth commit.
func commitOf(t *testing.T, sequence uint64) []byte {
	t.Helper()
	commits.Lock()
	defer commits.Unlock()
	for uint64(len(commits.data)) < sequence {
		var head ledger.Head
		if n := len(commits.made); n > 0 {
			head = commits.made[n-1].Head()
		}
		commit, encoded := ledgertest.Commit(t, head, ledger.Record{
			CommandID: ledgertest.ID(9, 1), Command: "CreateTrait", Time: 1, Actor: strings.Repeat("a", 100_000),
			Events: ledgertest.Vocabulary()[:1],
		})
		commits.made, commits.data = append(commits.made, commit), append(commits.data, encoded)
	}
	return commits.data[sequence-1]
}

// hangLimit is the time after which an operation counts as hanging.
const hangLimit = 2 * time.Minute

// append appends one entry. It ends an append that a broken store does not answer, as the server does.
func (b *brokenLog) append(t *testing.T, sequence uint64) error {
	t.Helper()
	result := make(chan error, 1)
	b.log.Append(sequence, commitOf(t, sequence), func(err error) { result <- err })
	for {
		select {
		case err := <-result:
			return err
		case <-time.After(200 * time.Millisecond):
		}
		if b.WhyBroken() != nil {
			if err := b.nc.ForceReconnect(); err != nil {
				return err
			}
		}
	}
}

func readAll(t *testing.T, log ledger.Log, to uint64) {
	t.Helper()
	read := uint64(0)
	err := log.Read(context.Background(), 1, to, func(e ledger.Entry) error {
		if read++; e.Sequence != read || !bytes.Equal(e.Data, commitOf(t, read)) {
			return fmt.Errorf("entry %d is %d", read, e.Sequence)
		}
		return nil
	})
	if err != nil || read != to {
		t.Errorf("%d of %d entries: %v", read, to, err)
	}
}
