package system

import (
	"os"
	"syscall"
	"time"
)

//go:wasmimport machine since_boot
func sinceBoot() int64

//go:wasmimport machine room
func room(folder string, free, size *int64) uint32

// SinceBoot is the time since the simulated machine was booted.
func SinceBoot() time.Duration { return time.Duration(sinceBoot()) }

// Room returns the free bytes, and the size in bytes, of the simulated disk.
func Room(folder string) (free, size int64, err error) {
	if failed := room(folder, &free, &size); failed != 0 {
		return 0, 0, &os.PathError{Op: "statfs", Path: folder, Err: syscall.Errno(failed)}
	}
	return free, size, nil
}

// Lock does nothing: a simulated machine runs one process.
func Lock(*os.File) error { return nil }

// Writable reports that a folder can be used.
func Writable(string) error { return nil }

// Uncache does nothing: a simulated disk has no cache that hides it.
func Uncache(*os.File) {}

// Exchange fails: wasip1 cannot exchange names.
func Exchange(one, other string) error {
	return &os.LinkError{Op: "exchange", Old: one, New: other, Err: syscall.ENOTSUP}
}
