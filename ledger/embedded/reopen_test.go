package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// smallDisk mounts a file system of a few MiB.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: a full disk needs root to mount a small file system")
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// fillUp writes a file until the disk is full.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for piece := make([]byte, 1<<16); len(piece) > 0; {
		if _, err := f.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
	_ = f.Close() // it is full
}

// TestReopenAfterFullDisk fills the disk under JetStream. The server says that
// it is broken; when there is room it stays so, until its store is opened
// anew. All that was acknowledged is there, with and without users.
func TestReopenAfterFullDisk(t *testing.T) {
	for name, users := range map[string][]embedded.User{"nobody": nil, "users": {{Name: "u", PasswordHash: "x", Publish: []string{"a"}}}} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "8m")
			ns, err := embedded.Start(embedded.Config{StoreDir: filepath.Join(dir, "log"), Users: users})
			if err != nil {
				t.Fatal(err)
			}
			defer ns.Shutdown()
			nc, err := ns.Connect()
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			log, err := jetstream.Open(context.Background(), nc, jetstream.Config{MayCreate: true, AckTimeout: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			fillUp(t, filepath.Join(dir, "filler"))
			acknowledged := appendUntilBroken(t, ns, log)
			readAll(t, log, acknowledged)
			if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
				t.Fatal(err)
			}
			if err := appendOne(log, acknowledged+1); err == nil {
				t.Error("JetStream recovers by itself: Reopen is not needed any more")
			}
			if err := nc.ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			if err := ns.Reopen(nil); err != nil || ns.Broken() != nil {
				t.Fatal(err, ns.Broken())
			}
			last, err := log.Last(context.Background())
			for errors.Is(err, ledger.ErrUnavailable) {
				last, err = log.Last(context.Background())
			}
			if err != nil || last < acknowledged {
				t.Fatalf("%d were acknowledged, and %d are there: %v", acknowledged, last, err)
			}
			if err := appendOne(log, last+1); err != nil {
				t.Errorf("after opening anew: %v", err)
			}
			readAll(t, log, last+1)
		})
	}
}

func appendOne(log ledger.Log, sequence uint64) error {
	result := make(chan error, 1)
	log.Append(sequence, fmt.Appendf(nil, "%08d%01000d", sequence, 0), func(err error) { result <- err })
	return <-result
}

// appendUntilBroken returns the last sequence that was acknowledged.
func appendUntilBroken(t *testing.T, ns *embedded.Server, log ledger.Log) uint64 {
	t.Helper()
	for sequence := uint64(1); ; sequence++ {
		err := appendOne(log, sequence)
		if err == nil {
			continue
		}
		if broken := ns.Broken(); !errors.Is(err, ledger.ErrUnknownFate) || !errors.Is(broken, embedded.ErrBroken) || !embedded.NoSpace(broken) {
			t.Fatalf("%v; broken: %v", err, broken)
		}
		return sequence - 1
	}
}

func readAll(t *testing.T, log ledger.Log, to uint64) {
	t.Helper()
	read := uint64(0)
	err := log.Read(context.Background(), 1, to, func(e ledger.Entry) error {
		if read++; e.Sequence != read || len(e.Data) != 1008 || string(e.Data[:8]) != fmt.Sprintf("%08d", read) {
			return fmt.Errorf("entry %d is %d", read, e.Sequence)
		}
		return nil
	})
	if err != nil || read != to {
		t.Errorf("%d of %d entries: %v", read, to, err)
	}
}
