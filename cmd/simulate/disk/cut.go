package disk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// page is what an operating system writes to a disk at a time, in an order of its
// own.
const page = 4096

// Cut is what a power cut leaves: what was synced, and any part of the rest. If
// folders keep the order of their changes, as with most file systems, those are
// kept up to some moment; else any of them are.
func (d *Disk) Cut(random *rand.Rand, ordered bool) {
	ordered = ordered || d.Journal
	kept, share := random.IntN(len(d.moves)+1), random.Float64()
	for i, m := range d.moves {
		if ordered && i < kept || !ordered && random.Float64() < share {
			m.last()
		}
	}
	d.moves = nil
	d.used = 0
	nodes := map[*Node]int{}
	d.restore(d.Root, nodes)
	files := make([]*Node, 0, len(nodes))
	for n, links := range nodes {
		n.links = links
		if !n.IsDir() {
			files = append(files, n)
		}
	}
	slices.SortFunc(files, func(a, b *Node) int { return int(a.ID) - int(b.ID) })
	for _, n := range files {
		n.cut(random)
		d.used += int64(len(n.data))
	}
}

// last makes a change of folders last, so far as it has not yet.
func (m *move) last() {
	for i, s := range m.steps {
		switch {
		case m.done[i]: // a later sync of the folder had its way
		case s.node == nil:
			delete(s.folder.lasting, s.name)
		default:
			s.folder.lasting[s.name] = s.node
		}
	}
}

// restore gives folders what is left in them, and counts names.
func (d *Disk) restore(n *Node, nodes map[*Node]int) {
	nodes[n]++
	if nodes[n] > 1 || !n.IsDir() {
		return
	}
	n.entries = maps.Clone(n.lasting)
	for _, name := range n.Names() {
		d.restore(n.entries[name], nodes)
	}
}

// cut leaves each page of a file as it was at some moment since it was last synced,
// and the size as at another. One page may be torn: it was being written.
func (n *Node) cut(random *rand.Rand) {
	if len(n.changes) == 0 {
		return
	}
	for _, c := range slices.Backward(n.changes) {
		n.fit(c.size)
		copy(n.data[min(c.at, c.size):], c.before)
	}
	base, size := n.data, len(n.data)
	limit := size
	for _, c := range n.changes {
		limit = max(limit, c.size, c.at+len(c.after))
	}
	moment := random.IntN(len(n.changes) + 1)
	for i, c := range n.changes {
		if c.lasts(i, moment) {
			size = c.end(size)
		}
	}
	old := append(slices.Clone(base), make([]byte, limit-len(base))...)
	n.data = slices.Clone(old)
	torn := random.IntN(max(1, (limit+page-1)/page))
	for at := 0; at < limit; at += page {
		to := min(at+page, limit)
		if !n.touches(at, to) {
			continue
		}
		moment := random.IntN(len(n.changes) + 1)
		n.redo(old, at, to, moment)
		if at/page == torn && random.IntN(2) == 0 {
			n.redo(old, at, at+random.IntN(to-at), random.IntN(len(n.changes)+1))
		}
	}
	n.data = n.data[:size:size]
	n.changes = nil
}

// lasts reports whether a change, the i-th, is there at a moment.
func (c *change) lasts(i, moment int) bool { return c.synced || i < moment && !c.doomed }

// end is a file's size after a change.
func (c *change) end(size int) int {
	if c.after == nil {
		return c.to
	}
	return max(size, c.at+len(c.after))
}

// touches reports whether a part of a file was changed.
func (n *Node) touches(from, to int) bool {
	return slices.ContainsFunc(n.changes, func(c change) bool {
		return c.at < to && (c.after == nil || c.at+len(c.after) > from)
	})
}

// redo makes a part of a file what it was at a moment.
func (n *Node) redo(old []byte, from, to, moment int) {
	part := n.data[from:to]
	copy(part, old[from:to])
	for i, c := range n.changes {
		switch {
		case !c.lasts(i, moment):
		case c.after == nil:
			clear(part[min(max(c.at-from, 0), len(part)):])
		case c.at < to && c.at+len(c.after) > from:
			copy(part[max(c.at-from, 0):], c.after[max(from-c.at, 0):])
		}
	}
}

// fit gives a file a size, with zeros at its end if it grows.
func (n *Node) fit(size int) {
	if old := len(n.data); size > old {
		n.data = slices.Grow(n.data, size-old)[:size]
		clear(n.data[old:])
	}
	n.data = n.data[:size]
}

// Flip changes one bit of a file, as a disk does that rots, and returns where; false
// if no file has a byte. The bit is in one of so many equal parts of all files together.
func (d *Disk) Flip(
	random *rand.Rand, part, parts int, within func(path string) bool,
) (path string, at int, found bool) {
	type file struct {
		path string
		node *Node
	}
	var files []file
	total := 0
	d.Walk(func(path string, n *Node) {
		if !n.IsDir() && within(path) && len(n.data) > 0 {
			files = append(files, file{path, n})
			total += len(n.data)
		}
	})
	from, until := total*part/parts, total*(part+1)/parts
	if from == until {
		return "", 0, false
	}
	at = from + random.IntN(until-from)
	for _, f := range files {
		if at < len(f.node.data) {
			f.node.data[at] ^= 1 << random.IntN(8)
			return f.path, at, true
		}
		at -= len(f.node.data)
	}
	return "", 0, false
}

// Copy copies a file, or a folder with all that is in it, from another disk.
func (d *Disk) Copy(from *Disk, path, to string) Errno {
	n, failed := from.Find(path)
	if failed != OK {
		return failed
	}
	made, failed := d.Make(to, n.IsDir(), n.Modified)
	if failed != OK {
		return failed
	}
	if !n.IsDir() {
		_, failed = d.WriteAt(made, n.data, 0, n.Modified)
		return failed
	}
	for _, name := range n.Names() {
		if failed = d.Copy(from, path+"/"+name, to+"/"+name); failed != OK {
			return failed
		}
	}
	return OK
}

// Unsynced names the files and names that a power cut may leave otherwise than they
// are.
func (d *Disk) Unsynced() (list []string) {
	folders := map[*Node]string{}
	d.Walk(func(path string, n *Node) {
		folders[n] = path
		if len(n.changes) > 0 {
			list = append(list, fmt.Sprintf("%s (%d changes)", path, len(n.changes)))
		}
	})
	for _, m := range d.moves {
		for i, s := range m.steps {
			if path, there := folders[s.folder]; there && !m.done[i] {
				list = append(list, fmt.Sprintf("the name %s/%s", path, s.name))
			}
		}
	}
	return list
}

// Walk visits all files and folders, in the order of their paths.
func (d *Disk) Walk(visit func(path string, n *Node)) { walk("", d.Root, visit) }

func walk(path string, n *Node, visit func(path string, n *Node)) {
	visit(path, n)
	for _, name := range n.Names() {
		walk(path+"/"+name, n.entries[name], visit)
	}
}

// Contents returns what is in a file.
func (n *Node) Contents() []byte { return n.data }
