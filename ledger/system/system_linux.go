package system

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot is a clock that nothing can set, and that goes on while the process,
// or the machine, sleeps.
func SinceBoot() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // Linux has had this clock since 2.6.39.
	}
	return time.Duration(now.Nano())
}

// Room returns the free bytes, and the size in bytes, of the disk of a folder.
func Room(folder string) (free, size int64, err error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: folder, Err: err}
	}
	return int64(disk.Bavail) * disk.Bsize, int64(disk.Blocks) * disk.Bsize, nil
}

// Lock locks a file until it is closed. It fails at once if another process has
// the lock.
func Lock(file *os.File) error {
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return nil
}

// Uncache asks for a file to leave the system's cache, so that it is read from
// the disk. It is only a request: pages that are not on the disk yet stay.
func Uncache(file *os.File) {
	_ = unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED) // the file is read from the cache, then
}

// Writable reports why this user cannot list a folder, or make files in it.
func Writable(folder string) error { return unix.Access(folder, unix.R_OK|unix.W_OK|unix.X_OK) }

// Exchange gives two files, or two folders, each other's names in one step.
func Exchange(one, other string) error {
	err := unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: one, New: other, Err: err}
	}
	return nil
}
