// Package disk is the simulated disk of a machine: files in memory, of which it
// knows what was synced. A power cut keeps that, and any part of the rest.
package disk

import (
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"
)

// Errno is an error of WASI.
type Errno uint32

// The errors of a file system.
const (
	OK        Errno = 0
	BadFile   Errno = 8
	Exist     Errno = 20
	Invalid   Errno = 28
	IO        Errno = 29
	IsDir     Errno = 31
	NoEntry   Errno = 44
	NoSpace   Errno = 51
	NotDir    Errno = 54
	NotEmpty  Errno = 55
	Forbidden Errno = 63
)

// Node is a file or a folder.
type Node struct {
	ID       uint64
	Modified int64 // in nanoseconds
	links    int
	entries  map[string]*Node // of a folder
	lasting  map[string]*Node // what a power cut leaves of a folder, at least
	data     []byte
	changes  []change // since the last sync that did not fail
}

// change is a write, or a change of the size, that may not be on the disk yet.
type change struct {
	at, size int    // where it was written; the file's size before
	before   []byte // what stood there
	after    []byte // what was written; nil if the size was changed
	to       int    // the new size then
	synced   bool
	doomed   bool // a sync of it failed, so none brings it to the disk any more
}

// move is a change of folders that may not be on the disk yet: names that are
// given, or taken away, together.
type move struct {
	steps []step
	done  []bool // which of them a sync of their folder made last
}

type step struct {
	folder *Node
	name   string
	node   *Node // nil: the name is gone
}

// Disk is a disk.
type Disk struct {
	Root   *Node
	Faults Faults
	// Journal is whether each sync makes all earlier changes of folders last, as those
	// of ext4, XFS and btrfs do for what it concerns. POSIX promises less.
	Journal bool
	random  *rand.Rand
	ids     uint64
	used    int64
	moves   []*move
}

// Faults are what is wrong with a disk at present.
type Faults struct {
	Size   int64         // in bytes
	Slow   time.Duration // what each sync takes besides
	Reads  float64       // how probable it is that a read fails
	Writes float64       // and a write
	Syncs  float64       // and a sync
}

// New returns an empty disk.
func New(size int64, random *rand.Rand) *Disk {
	d := &Disk{Faults: Faults{Size: size}, random: random}
	d.Root = d.node(true)
	d.Root.links = 1
	return d
}

func (d *Disk) node(folder bool) *Node {
	d.ids++
	n := &Node{ID: d.ids}
	if folder {
		n.entries, n.lasting = map[string]*Node{}, map[string]*Node{}
	}
	return n
}

// IsDir reports whether the node is a folder.
func (n *Node) IsDir() bool { return n.entries != nil }

// Size returns the size of a file.
func (n *Node) Size() int { return len(n.data) }

// Links returns how many names the node has.
func (n *Node) Links() int { return n.links }

// Names returns the names in a folder, in order.
func (n *Node) Names() []string { return slices.Sorted(maps.Keys(n.entries)) }

// Entry returns what has a name in a folder.
func (n *Node) Entry(name string) *Node { return n.entries[name] }

// Free returns how many bytes are free.
func (d *Disk) Free() int64 { return max(0, d.Faults.Size-d.used) }

// Find returns what is at a path.
func (d *Disk) Find(at string) (*Node, Errno) {
	n := d.Root
	for name := range strings.SplitSeq(path.Clean("/" + at)[1:], "/") {
		if name == "" {
			continue
		}
		if !n.IsDir() {
			return nil, NotDir
		}
		if n = n.entries[name]; n == nil {
			return nil, NoEntry
		}
	}
	return n, OK
}

// parent returns the folder of a path, and the name in it.
func (d *Disk) parent(at string) (*Node, string, Errno) {
	at = path.Clean("/" + at)
	folder, err := d.Find(path.Dir(at))
	if err == OK && !folder.IsDir() {
		err = NotDir
	}
	return folder, path.Base(at), err
}

// change carries out steps that are one change.
func (d *Disk) change(steps ...step) {
	for _, s := range steps {
		if old := s.folder.entries[s.name]; old != nil {
			d.unlink(old)
		}
		if s.node == nil {
			delete(s.folder.entries, s.name)
		} else {
			s.folder.entries[s.name] = s.node
			s.node.links++
		}
	}
	d.moves = append(d.moves, &move{steps: steps, done: make([]bool, len(steps))})
}

func (d *Disk) unlink(n *Node) {
	if n.links--; n.links == 0 {
		d.used -= int64(len(n.data))
	}
}

// Make makes a file or a folder.
func (d *Disk) Make(at string, folder bool, now int64) (*Node, Errno) {
	above, name, err := d.parent(at)
	if err != OK {
		return nil, err
	}
	if above.entries[name] != nil {
		return nil, Exist
	}
	if d.Free() == 0 {
		return nil, NoSpace
	}
	n := d.node(folder)
	n.Modified = now
	d.change(step{above, name, n})
	return n, OK
}

// Remove removes a file, or an empty folder.
func (d *Disk) Remove(at string, folder bool) Errno {
	above, name, err := d.parent(at)
	if err != OK {
		return err
	}
	n := above.entries[name]
	switch {
	case n == nil:
		return NoEntry
	case folder && !n.IsDir():
		return NotDir
	case !folder && n.IsDir():
		return IsDir
	case folder && len(n.entries) > 0:
		return NotEmpty
	}
	d.change(step{above, name, nil})
	return OK
}

// RemoveAll removes a file or a folder with all that is in it.
func (d *Disk) RemoveAll(at string) Errno {
	n, err := d.Find(at)
	if err != OK || n == nil {
		return err
	}
	for _, name := range n.Names() {
		if err := d.RemoveAll(at + "/" + name); err != OK {
			return err
		}
	}
	return d.Remove(at, n.IsDir())
}

// Link gives a file one more name.
func (d *Disk) Link(from, to string) Errno {
	n, err := d.Find(from)
	if err != OK {
		return err
	}
	above, name, err := d.parent(to)
	if err != OK {
		return err
	}
	if n.IsDir() {
		return Forbidden
	}
	if above.entries[name] != nil {
		return Exist
	}
	d.change(step{above, name, n})
	return OK
}

// Rename gives a file, or a folder, another name.
func (d *Disk) Rename(from, to string) Errno {
	source, old, err := d.parent(from)
	if err != OK {
		return err
	}
	target, name, err := d.parent(to)
	if err != OK {
		return err
	}
	n, there := source.entries[old], target.entries[name]
	switch {
	case n == nil:
		return NoEntry
	case n == there:
		return OK
	case there != nil && n.IsDir() && !there.IsDir():
		return NotDir
	case there != nil && !n.IsDir() && there.IsDir():
		return IsDir
	case there != nil && there.IsDir() && len(there.entries) > 0:
		return NotEmpty
	case strings.HasPrefix(path.Clean("/"+to)+"/", path.Clean("/"+from)+"/"):
		return Invalid
	}
	n.links++ // it keeps one name while it changes it
	d.change(step{target, name, n}, step{source, old, nil})
	n.links--
	return OK
}

// ReadAt reads from a file.
func (d *Disk) ReadAt(n *Node, to []byte, at int64) (int, Errno) {
	if n.IsDir() {
		return 0, IsDir
	}
	if d.fails(d.Faults.Reads) {
		return 0, IO
	}
	if at >= int64(len(n.data)) {
		return 0, OK
	}
	return copy(to, n.data[at:]), OK
}

// fails decides whether something fails.
func (d *Disk) fails(how float64) bool { return how > 0 && d.random.Float64() < how }

// WriteAt writes to a file.
func (d *Disk) WriteAt(n *Node, data []byte, at, now int64) (int, Errno) {
	if n.IsDir() {
		return 0, IsDir
	}
	if d.fails(d.Faults.Writes) {
		return 0, IO
	}
	if more := at + int64(len(data)) - int64(len(n.data)); more > d.Free() {
		fits := int64(len(data)) - (more - d.Free())
		if fits <= 0 {
			return 0, NoSpace
		}
		data = data[:fits]
	}
	if len(data) == 0 {
		return 0, OK
	}
	size := len(n.data)
	n.Modified = now
	d.resize(n, max(size, int(at)+len(data)))
	c := change{at: int(at), size: size, after: slices.Clone(data)}
	if c.at < size {
		c.before = slices.Clone(n.data[c.at:min(size, c.at+len(data))])
	}
	copy(n.data[at:], data)
	n.changes = append(n.changes, c)
	return len(data), OK
}

// resize changes how long a file is.
func (d *Disk) resize(n *Node, size int) {
	if n.links > 0 {
		d.used += int64(size - len(n.data))
	}
	if size <= len(n.data) {
		n.data = n.data[:size]
		return
	}
	old := len(n.data)
	n.data = slices.Grow(n.data, size-old)[:size]
	clear(n.data[old:])
}

// Truncate changes the size of a file.
func (d *Disk) Truncate(n *Node, size, now int64) Errno {
	if n.IsDir() {
		return IsDir
	}
	if size-int64(len(n.data)) > d.Free() {
		return NoSpace
	}
	if int(size) == len(n.data) {
		return OK
	}
	c := change{at: int(size), size: len(n.data), to: int(size)}
	if c.at < c.size {
		c.before = slices.Clone(n.data[c.at:])
	}
	n.Modified = now
	d.resize(n, int(size))
	n.changes = append(n.changes, c)
	return OK
}

// Sync makes a file, or the names in a folder, last.
func (d *Disk) Sync(n *Node) Errno {
	if d.fails(d.Faults.Syncs) {
		for i := range n.changes {
			// As with Linux: what could not be written is taken for written.
			if c := &n.changes[i]; !c.synced && d.random.IntN(2) == 0 {
				c.doomed = true
			}
		}
		return IO
	}
	if d.Journal {
		for _, m := range d.moves {
			m.last()
		}
		d.moves = nil
	}
	if n.IsDir() {
		d.syncFolder(n)
		return OK
	}
	doomed := false
	for i := range n.changes {
		n.changes[i].synced = !n.changes[i].doomed
		doomed = doomed || n.changes[i].doomed
	}
	if !doomed {
		n.changes = nil
	}
	return OK
}

// syncFolder makes the names in a folder last.
func (d *Disk) syncFolder(n *Node) {
	n.lasting = maps.Clone(n.entries)
	kept := d.moves[:0]
	for _, m := range d.moves {
		all := true
		for i, s := range m.steps {
			m.done[i] = m.done[i] || s.folder == n
			all = all && m.done[i]
		}
		if !all {
			kept = append(kept, m)
		}
	}
	clear(d.moves[len(kept):])
	d.moves = kept
}

// SyncAll makes everything last.
func (d *Disk) SyncAll() {
	d.Walk(func(_ string, n *Node) { _ = d.Sync(n) })
}
