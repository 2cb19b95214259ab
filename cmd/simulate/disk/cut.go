package disk

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// sector is what a disk writes whole or not at all; many do not keep to it, so a
// write is torn at any byte, too.
const sector = 512

// Cut is what a power cut leaves: what was synced, and any part of the rest. If
// folders keep the order of their changes, as with most file systems, those are
// kept up to some moment; else any of them are.
func (d *Disk) Cut(random *rand.Rand, ordered bool) {
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

// cut takes back what was written to a file, and does some of it again.
func (n *Node) cut(random *rand.Rand) {
	for _, c := range slices.Backward(n.changes) {
		n.fit(c.size)
		copy(n.data[min(c.at, c.size):], c.before)
	}
	share := random.Float64()
	for _, c := range n.changes {
		switch {
		case c.synced:
			n.redo(c, 0, len(c.after))
		case c.doomed || random.Float64() >= share:
		case c.after == nil || random.IntN(3) == 0:
			n.redo(c, 0, len(c.after))
		case random.IntN(2) == 0:
			n.redo(c, 0, random.IntN(len(c.after)))
		default:
			for at := 0; at < len(c.after); at += sector {
				if random.IntN(2) == 0 {
					n.redo(c, at, min(at+sector, len(c.after)))
				}
			}
		}
	}
	n.changes = nil
}

// redo does a part of a change.
func (n *Node) redo(c change, from, to int) {
	if c.after == nil {
		n.fit(c.to)
		return
	}
	if from < to {
		n.fit(max(len(n.data), c.at+to))
		copy(n.data[c.at+from:], c.after[from:to])
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
// if no file has a byte.
func (d *Disk) Flip(random *rand.Rand, within func(path string) bool) (path string, at int, found bool) {
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
	if total == 0 {
		return "", 0, false
	}
	at = random.IntN(total)
	for _, f := range files {
		if at < len(f.node.data) {
			f.node.data[at] ^= 1 << random.IntN(8)
			return f.path, at, true
		}
		at -= len(f.node.data)
	}
	return "", 0, false
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
