package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger/durable"
)

// disk is the file system that Pebble gets.
//
// Pebble ends the process after a write that failed. So disk hides the failure
// from it: it first condemns the read models, so that nothing that depends on the
// write is ever answered, and then tells Pebble that the write went well. From
// then on nothing that Pebble writes reaches the disk, which holds what a crash
// would have left.
//
// A full disk condemns nothing: writes wait until there is space. While Pebble opens, nothing
// waits: it opens once more in memory, and the disk holds what it held.
type disk struct {
	vfs.FS
	condemn func(error)
	stopped <-chan struct{}       // writes no longer wait for space
	full    atomic.Bool           // a write waits for space
	dead    atomic.Bool           // nothing is written any more
	refused atomic.Pointer[error] // the first failure before Serve that passes, or &served; nil: none yet

	mu   sync.Mutex
	lock io.Closer // lock of the folder; guarded by mu
}

func (d *disk) Unwrap() vfs.FS { return d.FS }

// spacePause is the pause between two tries on a full disk.
const spacePause = 200 * time.Millisecond

// change changes something on the disk, and returns what Pebble is told of it.
func (d *disk) change(do func() error) error {
	for !d.dead.Load() {
		err := do()
		switch {
		case err == nil:
			d.full.Store(false)
			return nil
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist):
			return err
		case passes(err) && d.refuse(err):
		case durable.NoRoom(err) && !d.inMemory() && d.wait():
			continue
		}
		d.kill(err)
	}
	return nil
}

// served is no refusal, and there is none after it: a full disk holds writes up from then on.
var served error

func (d *disk) serve() bool { return d.refused.CompareAndSwap(nil, &served) }

func (d *disk) serving() bool { return d.refused.Load() == &served }

// refuse keeps a failure for which the store cannot be opened now; false: it is served already.
func (d *disk) refuse(err error) bool { return d.refused.CompareAndSwap(nil, &err) || !d.serving() }

// refusal is why the store cannot be opened now; nil: nothing was refused before Serve.
func (d *disk) refusal() error {
	if reason := d.refused.Load(); reason != nil {
		return *reason
	}
	return nil
}

func (d *disk) inMemory() bool {
	_, yes := d.FS.(*overlay)
	return yes
}

// passes reports whether an error says nothing about what the disk holds: it is full, this
// process may not use it, or the machine has run out of something.
func passes(err error) bool {
	for _, one := range []error{
		os.ErrPermission, syscall.EAGAIN, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EROFS,
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return durable.NoRoom(err)
}

// wait waits a moment for space. It returns false if waiting no longer makes
// sense.
func (d *disk) wait() bool {
	d.full.Store(true)
	select {
	case <-time.After(spacePause):
		return true
	case <-d.stopped:
		return false
	}
}

// kill keeps all further writes from the disk.
func (d *disk) kill(reason error) {
	d.condemn(reason)
	d.dead.Store(true)
}

func (d *disk) file(open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := d.change(func() (err error) {
		f, err = open()
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case f == nil:
		return newNowhere()
	}
	return &diskFile{File: f, d: d}, nil
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.file(func() (vfs.File, error) { return d.FS.Create(name, c) })
	if flushed, ok := f.(*diskFile); ok && c == flushes {
		flushed.flush = new(background)
		flushed.flush.begin()
	}
	return f, err
}

// flushes is what Pebble calls files to which it writes what was in memory.
const flushes vfs.DiskWriteCategory = "pebble-memtable-flush"

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, options ...vfs.OpenOption) (vfs.File, error) {
	return d.file(func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, options...) })
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	return d.file(func() (vfs.File, error) { return d.FS.OpenDir(name) })
}

func (d *disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file(func() (vfs.File, error) { return d.FS.ReuseForWrite(from, to, c) })
}

func (d *disk) Link(from, to string) error {
	return d.change(func() error { return d.FS.Link(from, to) })
}

func (d *disk) Remove(name string) error {
	return d.change(func() error { return d.FS.Remove(name) })
}

func (d *disk) RemoveAll(name string) error {
	return d.change(func() error { return d.FS.RemoveAll(name) })
}

func (d *disk) Rename(from, to string) error {
	return d.change(func() error { return d.FS.Rename(from, to) })
}

func (d *disk) MkdirAll(dir string, mode os.FileMode) error {
	return d.change(func() error { return d.FS.MkdirAll(dir, mode) })
}

// Lock implements vfs.FS. The lock can be released without Pebble's help.
func (d *disk) Lock(name string) (io.Closer, error) {
	lock, err := d.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lock = lock
	return unlocker{d}, nil
}

type unlocker struct{ d *disk }

func (u unlocker) Close() error { return u.d.unlock() }

// unlock releases the folder's lock, once.
func (d *disk) unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	lock := d.lock
	d.lock = nil
	return lock.Close()
}

// diskFile is a file that is being written.
type diskFile struct {
	vfs.File
	d     *disk
	flush *background // or nil; a flush gives way at each block, as a compaction does
}

// Write implements io.Writer. A full disk may have taken the beginning of the
// data.
func (f *diskFile) Write(p []byte) (int, error) {
	if f.flush != nil {
		f.flush.giveWay()
	}
	written := 0
	err := f.d.change(func() error {
		n, err := f.File.Write(p[written:])
		written += n
		return err
	})
	if err != nil {
		return written, err
	}
	return len(p), nil
}

func (f *diskFile) WriteAt(p []byte, at int64) (int, error) {
	err := f.d.change(func() error {
		_, err := f.File.WriteAt(p, at)
		return err
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// Preallocate implements vfs.File. It only makes writes faster, so it may fail:
// if it finds no room, there may still be enough for the data.
func (f *diskFile) Preallocate(offset, length int64) error {
	return f.d.change(func() error {
		if err := f.File.Preallocate(offset, length); !durable.NoRoom(err) {
			return err
		}
		return nil
	})
}

func (f *diskFile) Sync() error { return f.d.change(f.File.Sync) }

func (f *diskFile) SyncData() error { return f.d.change(f.File.SyncData) }

func (f *diskFile) SyncTo(length int64) (full bool, err error) {
	err = f.d.change(func() (err error) {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Close implements io.Closer. A write that fails in Close is lost like any other.
func (f *diskFile) Close() error {
	err := f.File.Close()
	if err != nil && f.d.serving() {
		f.d.kill(err)
		return nil
	}
	return err
}

// nowhere is the file that takes writes after the read models were condemned. It holds nothing.
type nowhere struct{ vfs.File }

func newNowhere() (vfs.File, error) {
	empty, err := vfs.NewMem().Create("nowhere", vfs.WriteCategoryUnspecified)
	return nowhere{empty}, err
}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

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

func (o *overlay) Unwrap() vfs.FS { return o.FS }

func (o *overlay) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.memory.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &overlayFile{f, o}, nil
}

func (o *overlay) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	return o.of(name).Open(name, options...)
}

// OpenReadWrite implements vfs.FS. Pebble does so with files only that it begins.
func (o *overlay) OpenReadWrite(name string, c vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return o.Create(name, c)
}

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

func (o *overlay) MkdirAll(dir string, mode os.FileMode) error { return o.memory.MkdirAll(dir, mode) }

func (o *overlay) Stat(name string) (vfs.FileInfo, error) { return o.of(name).Stat(name) }

// Lock implements vfs.FS. A lock that is not there yet may find no room.
func (o *overlay) Lock(name string) (io.Closer, error) {
	lock, err := o.FS.Lock(name)
	if durable.NoRoom(err) {
		return o.memory.Lock(name)
	}
	return lock, err
}

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

func (f *overlayFile) Write(p []byte) (int, error) {
	if f.of.left.Add(-int64(len(p))) < 0 {
		return 0, fmt.Errorf("the disk is full, and what the read models lack takes more than %d bytes of memory: %w",
			f.of.most, syscall.ENOSPC)
	}
	return f.File.Write(p)
}
