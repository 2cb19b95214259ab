package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"unsafe"
)

// disk is an ext4 file system in a file, whose power can be cut: everything that
// was not synced is then gone.
type disk struct {
	t            *testing.T
	image, mount string
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: power cuts need root to mount a file system")
	}
	d := &disk{t: t, image: filepath.Join(t.TempDir(), "disk.img"), mount: t.TempDir()}
	output(t, exec.Command("truncate", "-s", "512M", d.image))
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("skipped: no ext4 file system can be made: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("skipped: no file system can be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", d.mount).Run() })
	return d
}

// shutdownNow is FS_IOC_SHUTDOWN with "do not even flush the journal".
const (
	shutdownIoctl = 0x8004587d
	shutdownNow   = uint32(2)
)

func (d *disk) cut() {
	d.t.Helper()
	dir, err := os.Open(d.mount)
	must(d.t, err)
	defer func() { _ = dir.Close() }() // nothing was written
	flag := shutdownNow
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), shutdownIoctl, uintptr(unsafe.Pointer(&flag)))
	if errno != 0 {
		d.t.Fatalf("FS_IOC_SHUTDOWN: %v", errno)
	}
}

// remount brings the disk back after a cut, and replays its journal. It is a copy of the image that is
// mounted: a process that has a mount namespace of its own may keep the dead file system, and the same
// image would bring that back.
func (d *disk) remount() {
	d.t.Helper()
	dead := d.image
	d.image += "+"
	for _, args := range [][]string{
		{"umount", d.mount}, {"cp", "--sparse=always", dead, d.image}, {"rm", dead},
		{"mount", "-o", "loop", d.image, d.mount},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			d.t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// TestPowerCut cuts the power under load: no answered command may be lost. With
// lazy syncing some must be lost, or the test proves nothing.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"sync always":      {},
		"negative control": {"--lazy-sync"},
	} {
		lazy := slices.Contains(flags, "--lazy-sync")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			data := filepath.Join(d.mount, "data")
			n, lost := newTally(), 0
			cuts := times(1, 40)
			if lazy {
				cuts = 1
			}
			s := launch(t, data)
			s.makeProvider(1_000_000)
			s.Terminate()
			for range cuts {
				s := launch(t, data, flags...)
				s.loadAndKill(n, 100, func() { d.cut(); s.Kill() })
				d.remount()
				lost = n.lostAfter(t, data, flags)
			}
			tell(t, "power cut, "+name, cuts, fmt.Sprintf("%d answered commands, %d lost", len(n.answered), lost))
			if lazy && lost == 0 {
				t.Error("lazy syncing lost nothing: the cut cuts nothing")
			}
			if !lazy && lost > 0 {
				t.Errorf("%d of %d answered commands were lost", lost, len(n.answered))
			}
		})
	}
}

// lostAfter starts again and counts the answered commands that are gone. If the
// server refuses to start, it has noticed that everything is gone.
func (n *tally) lostAfter(t *testing.T, data string, flags []string) (lost int) {
	t.Helper()
	again := start(t, data, flags...)
	if !again.Serves() {
		t.Logf("the server refuses to start:\n%s", again.Logs)
		return len(n.answered)
	}
	counts := again.commandIDs()
	for id := range n.answered {
		if counts[id] == 0 {
			lost++
		}
	}
	again.Kill()
	return lost
}
