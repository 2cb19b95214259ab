package store

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger/durable"
)

// overlay is the file system of read models on a disk that was full when they were opened. It
// reads what the disk holds, and keeps in memory what Pebble writes and forgets: the disk stays
// as it is, and the server answers reads. There is little to keep, because a server on a full
// disk takes no commands: what the write-ahead log held, and the commits that were not folded.
type overlay struct {
	vfs.FS
	memory *vfs.MemFS
	most   int64        // bytes that are written into memory
	left   atomic.Int64 // bytes of them that may still be written

	mu   sync.Mutex
	gone map[string]bool // files of the disk that Pebble has removed; guarded by mu
}

// Beside returns a file system for a store on a disk that is full: it reads what the disk holds in the
// store's folder, and writes at most so many bytes into
// memory.
func Beside(files Files, dir string, most int64) (Files, error) {
	o := &overlay{most: most, FS: files, memory: vfs.NewMem(), gone: make(map[string]bool)}
	o.left.Store(most)
	return o, o.memory.MkdirAll(dir, 0o700)
}

// onDisk reports whether a name means a file of the disk.
func (o *overlay) onDisk(name string) bool {
	if _, err := o.memory.Stat(name); err == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.gone[name]
}

func (o *overlay) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone[name] = true
}

// of is where a file is that is to be read.
func (o *overlay) of(name string) vfs.FS {
	if o.onDisk(name) {
		return o.FS
	}
	return o.memory
}

// Unwrap implements vfs.FS.
func (o *overlay) Unwrap() vfs.FS { return o.FS }

// Create implements vfs.FS.
func (o *overlay) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.memory.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &overlayFile{f, o}, nil
}

// Open implements vfs.FS.
func (o *overlay) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	return o.of(name).Open(name, options...)
}

// OpenReadWrite implements vfs.FS. Pebble does so with files only that it begins.
func (o *overlay) OpenReadWrite(name string, c vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return o.Create(name, c)
}

// OpenDir implements vfs.FS.
func (o *overlay) OpenDir(name string) (vfs.File, error) { return o.memory.OpenDir(name) }

// ReuseForWrite implements vfs.FS, by a new file.
func (o *overlay) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.Remove(from); err != nil {
		return nil, err
	}
	return o.Create(to, c)
}

// Link implements vfs.FS. Copies of read models are made of links; there is no room for one.
func (o *overlay) Link(_, to string) error { return noRoom(to) }

// Remove implements vfs.FS.
func (o *overlay) Remove(name string) error {
	if _, err := o.Stat(name); err != nil {
		return err
	}
	if !o.onDisk(name) {
		if err := o.memory.Remove(name); err != nil {
			return err
		}
	}
	o.forget(name)
	return nil
}

// RemoveAll implements vfs.FS. Pebble calls it for what is no folder of read models.
func (o *overlay) RemoveAll(name string) error { return noRoom(name) }

// Rename implements vfs.FS. Pebble renames what it has just written.
func (o *overlay) Rename(from, to string) error {
	if o.onDisk(from) {
		return noRoom(to)
	}
	return o.memory.Rename(from, to)
}

// MkdirAll implements vfs.FS.
func (o *overlay) MkdirAll(dir string, mode os.FileMode) error { return o.memory.MkdirAll(dir, mode) }

// Stat implements vfs.FS.
func (o *overlay) Stat(name string) (vfs.FileInfo, error) { return o.of(name).Stat(name) }

// Lock implements vfs.FS. A lock that is not there yet may find no room.
func (o *overlay) Lock(name string) (io.Closer, error) {
	lock, err := o.FS.Lock(name)
	if durable.NoRoom(err) {
		return o.memory.Lock(name)
	}
	return lock, err
}

// List implements vfs.FS.
func (o *overlay) List(dir string) ([]string, error) {
	names, err := o.FS.List(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !o.onDisk(o.PathJoin(dir, name)) })
	written, err := o.memory.List(dir)
	return append(names, written...), err
}

func noRoom(name string) error { return &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC} }

// overlayFile is a file in memory.
type overlayFile struct {
	vfs.File
	of *overlay
}

// Write implements io.Writer.
func (f *overlayFile) Write(p []byte) (int, error) {
	if f.of.left.Add(-int64(len(p))) < 0 {
		return 0, fmt.Errorf("the disk is full, and what the read models lack takes more than %d bytes of memory: %w",
			f.of.most, syscall.ENOSPC)
	}
	return f.File.Write(p)
}
