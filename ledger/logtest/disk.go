package logtest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// SmallDisk mounts a file system of this size, such as 64m, until the test ends.
// Without the right to mount it skips the test.
func SmallDisk(t *testing.T, size string) string {
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

// FillUp writes a file until this many bytes are left on its disk.
func FillUp(t *testing.T, path string, left int64) {
	t.Helper()
	f := ledgertest.Must(os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))
	for piece := make([]byte, 1<<16); len(piece) > 0; {
		var disk syscall.Statfs_t
		ledgertest.OK(t, syscall.Statfs(path, &disk))
		if room := int64(disk.Bavail)*disk.Bsize - left; left > 0 && room < int64(len(piece)) {
			piece = piece[:max(room, 0)]
		}
		if _, err := f.Write(piece); err != nil {
			piece = piece[:len(piece)/2]
		}
	}
	_ = f.Close() // the disk is full
}
