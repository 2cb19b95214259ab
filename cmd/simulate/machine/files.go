package machine

import (
	"encoding/binary"
	"path"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

// kind is what a file descriptor stands for.
type kind int

const (
	input kind = iota
	output
	regular
	folder
	listening
	socket
)

// file is an open file.
type file struct {
	kind    kind
	signals []byte // of standard input
	path    string
	node    *disk.Node
	at      int64
	append  bool
	synced  bool     // each write lasts when it returns
	names   []string // of a folder, as of when it was read from its beginning
	port    *listener
	end     *end
}

// Flags of files, as WASI has them.
const (
	flagAppend   = 1
	flagNonblock = 4
	flagSync     = 2 | 16
	openCreate   = 1
	openFolder   = 2
	openNew      = 4
	openEmpty    = 8
)

func (r *running) file(fd uint32) *file {
	if int(fd) >= len(r.files) {
		return nil
	}
	return r.files[fd]
}

// open gives a file the lowest number that is free.
func (r *running) open(f *file) uint32 {
	for fd := 4; fd < len(r.files); fd++ {
		if r.files[fd] == nil {
			r.files[fd] = f
			return uint32(fd)
		}
	}
	r.files = append(r.files, f)
	return uint32(len(r.files) - 1)
}

func (f *file) close(now int64) {
	switch f.kind {
	case listening:
		f.port.close()
	case socket:
		f.end.close(now)
	}
}

// can reports whether a file can be read, or written, without waiting.
func (f *file) can(read bool) bool {
	switch f.kind {
	case listening:
		return len(f.port.waiting) > 0
	case socket:
		if read {
			return f.end.readable()
		}
		return f.end.writable()
	case input:
		return len(f.signals) > 0
	}
	return true
}

// on carries out a call with the file of its first argument.
func (c *calling) on(kind kind, do func(f *file) disk.Errno) disk.Errno {
	f := c.file(c.u32(0))
	if f == nil || kind >= 0 && f.kind != kind {
		return disk.BadFile
	}
	return do(f)
}

const anyKind kind = -1

func fdClose(c *calling) disk.Errno {
	return c.on(anyKind, func(f *file) disk.Errno {
		c.spend(callCost)
		f.close(c.now)
		c.files[c.u32(0)] = nil
		return disk.OK
	})
}

func fdStat(c *calling) disk.Errno {
	return c.on(anyKind, func(f *file) disk.Errno {
		stat := c.bytes(c.u32(1), 24)
		clear(stat)
		stat[0] = map[kind]byte{input: 2, output: 2, regular: 4, folder: 3, listening: 6, socket: 6}[f.kind]
		if f.kind == listening || f.kind == socket || f.kind == input {
			stat[2] = flagNonblock
		} else if f.append {
			stat[2] = flagAppend
		}
		for i := 8; i < 24; i++ {
			stat[i] = 0xff
		}
		return disk.OK
	})
}

func fdSetFlags(c *calling) disk.Errno {
	return c.on(anyKind, func(f *file) disk.Errno {
		f.append = c.u32(1)&flagAppend != 0
		return disk.OK
	})
}

// putStat writes what is known of a node.
func (c *calling) putStat(at uint32, n *disk.Node) disk.Errno {
	stat := c.bytes(at, 64)
	clear(stat)
	binary.LittleEndian.PutUint64(stat, 1)
	binary.LittleEndian.PutUint64(stat[8:], n.ID)
	stat[16] = 4
	if n.IsDir() {
		stat[16] = 3
	}
	binary.LittleEndian.PutUint64(stat[24:], uint64(n.Links()))
	binary.LittleEndian.PutUint64(stat[32:], uint64(n.Size()))
	for _, field := range []int{40, 48, 56} {
		binary.LittleEndian.PutUint64(stat[field:], uint64(n.Modified))
	}
	return disk.OK
}

func fdFileStat(c *calling) disk.Errno {
	c.spend(callCost)
	return c.on(anyKind, func(f *file) disk.Errno {
		if f.node == nil {
			clear(c.bytes(c.u32(1), 64))
			return disk.OK
		}
		return c.putStat(c.u32(1), f.node)
	})
}

func fdSetSize(c *calling) disk.Errno {
	c.spend(writeCost)
	return c.on(regular, func(f *file) disk.Errno {
		return c.machine.Disk.Truncate(f.node, c.i64(1), c.machine.wall(c.now))
	})
}

// vectors calls for each piece of memory of a list, until one is not filled.
func (c *calling) vectors(list, count, result int, each func(data []byte) (int, disk.Errno)) disk.Errno {
	total := 0
	for i := range c.u32(count) {
		vector := c.bytes(c.u32(list)+8*i, 8)
		data := c.bytes(binary.LittleEndian.Uint32(vector), binary.LittleEndian.Uint32(vector[4:]))
		n, failed := each(data)
		total += n
		if failed != disk.OK && total == 0 {
			return failed
		}
		if n < len(data) {
			break
		}
	}
	c.put32(result, uint32(total))
	return disk.OK
}

func fdPread(c *calling) disk.Errno {
	c.spend(callCost)
	return c.on(regular, func(f *file) disk.Errno {
		at := c.i64(3)
		return c.vectors(1, 2, 4, func(data []byte) (int, disk.Errno) {
			n, failed := c.machine.Disk.ReadAt(f.node, data, at)
			at += int64(n)
			return n, failed
		})
	})
}

func fdPwrite(c *calling) disk.Errno {
	c.spend(writeCost)
	return c.on(regular, func(f *file) disk.Errno {
		at := c.i64(3)
		return c.vectors(1, 2, 4, func(data []byte) (int, disk.Errno) {
			n, failed := c.write(f, data, at)
			at += int64(n)
			return n, failed
		})
	})
}

func fdRead(c *calling) disk.Errno {
	c.spend(callCost)
	return c.on(anyKind, func(f *file) disk.Errno {
		return c.vectors(1, 2, 3, func(data []byte) (int, disk.Errno) {
			switch f.kind {
			case socket:
				return f.end.read(data)
			case regular:
				n, failed := c.machine.Disk.ReadAt(f.node, data, f.at)
				f.at += int64(n)
				return n, failed
			case input:
				if len(f.signals) == 0 {
					return 0, again
				}
				n := copy(data, f.signals)
				f.signals = f.signals[n:]
				return n, disk.OK
			}
			return 0, disk.BadFile
		})
	})
}

func fdWrite(c *calling) disk.Errno {
	c.spend(writeCost)
	return c.on(anyKind, func(f *file) disk.Errno {
		return c.vectors(1, 2, 3, func(data []byte) (int, disk.Errno) {
			switch f.kind {
			case socket:
				c.world.noteBytes(data)
				return f.end.write(c.now, data)
			case regular:
				if f.append {
					f.at = int64(f.node.Size())
				}
				n, failed := c.write(f, data, f.at)
				f.at += int64(n)
				return n, failed
			case output:
				c.machine.log(data)
				return len(data), disk.OK
			}
			return 0, disk.BadFile
		})
	})
}

func fdSeek(c *calling) disk.Errno {
	return c.on(anyKind, func(f *file) disk.Errno {
		if f.node == nil {
			return disk.Invalid
		}
		switch at := c.i64(1); c.u32(2) {
		case 0:
			f.at = at
		case 1:
			f.at += at
		case 2:
			f.at = int64(f.node.Size()) + at
		}
		if f.kind == folder {
			f.names = nil
		}
		c.put64(3, uint64(f.at))
		return disk.OK
	})
}

func fdSync(c *calling) disk.Errno {
	return c.on(anyKind, func(f *file) disk.Errno {
		if f.node == nil {
			return disk.Invalid
		}
		return c.sync(f)
	})
}

// sync makes a file last, which takes its time.
func (c *calling) sync(f *file) disk.Errno {
	usual := int64(c.machine.syncs)
	c.spend(usual/2 + c.machine.random.Int64N(usual) + int64(c.machine.Disk.Faults.Slow))
	c.pass()
	return c.machine.Disk.Sync(f.node)
}

// write writes to a file.
func (c *calling) write(f *file, data []byte, at int64) (int, disk.Errno) {
	c.world.noteBytes(data)
	n, failed := c.machine.Disk.WriteAt(f.node, data, at, c.machine.wall(c.now))
	if failed == disk.OK && f.synced {
		failed = c.sync(f)
	}
	if failed != disk.OK {
		n = 0
	}
	return n, failed
}

func fdReaddir(c *calling) disk.Errno {
	c.spend(callCost)
	return c.on(folder, func(f *file) disk.Errno {
		buffer, cookie := c.bytes(c.u32(1), c.u32(2)), c.i64(3)
		if cookie == 0 || f.names == nil {
			f.names = f.node.Names()
		}
		used := 0
		for i := cookie; i < int64(len(f.names)) && used < len(buffer); i++ {
			entry := f.node.Entry(f.names[i])
			if entry == nil {
				continue // it is gone
			}
			var head [24]byte
			binary.LittleEndian.PutUint64(head[:], uint64(i+1))
			binary.LittleEndian.PutUint64(head[8:], entry.ID)
			binary.LittleEndian.PutUint32(head[16:], uint32(len(f.names[i])))
			head[20] = 4
			if entry.IsDir() {
				head[20] = 3
			}
			used += copy(buffer[used:], head[:])
			used += copy(buffer[used:], f.names[i])
		}
		c.put32(4, uint32(used))
		return disk.OK
	})
}

func fdPrestat(c *calling) disk.Errno {
	if c.u32(0) != 3 {
		return disk.BadFile
	}
	c.put64(1, 1<<32) // a folder, with a name of one byte
	return disk.OK
}

func fdPrestatName(c *calling) disk.Errno {
	return c.on(folder, func(*file) disk.Errno {
		copy(c.bytes(c.u32(1), c.u32(2)), "/")
		return disk.OK
	})
}

// path returns the path that three arguments name: a folder, and a path in it.
func (c *calling) path(fd, at, size int) (string, disk.Errno) {
	f := c.file(c.u32(fd))
	if f == nil || f.kind != folder {
		return "", disk.BadFile
	}
	return path.Join(f.path, c.text(at, size)), disk.OK
}

func pathMkdir(c *calling) disk.Errno {
	c.spend(writeCost)
	at, failed := c.path(0, 1, 2)
	if failed == disk.OK {
		_, failed = c.machine.Disk.Make(at, true, c.machine.wall(c.now))
	}
	return failed
}

func (c *calling) remove(folder bool) disk.Errno {
	c.spend(writeCost)
	at, failed := c.path(0, 1, 2)
	if failed == disk.OK {
		failed = c.machine.Disk.Remove(at, folder)
	}
	return failed
}

func pathStat(c *calling) disk.Errno {
	c.spend(callCost)
	at, failed := c.path(0, 2, 3)
	if failed != disk.OK {
		return failed
	}
	n, failed := c.machine.Disk.Find(at)
	if failed != disk.OK {
		return failed
	}
	return c.putStat(c.u32(4), n)
}

func pathSetTimes(c *calling) disk.Errno {
	at, failed := c.path(0, 2, 3)
	if failed != disk.OK {
		return failed
	}
	n, failed := c.machine.Disk.Find(at)
	if failed == disk.OK && c.u32(6)&4 != 0 {
		n.Modified = c.i64(5)
	}
	return failed
}

func pathLink(c *calling) disk.Errno {
	c.spend(writeCost)
	from, failed := c.path(0, 2, 3)
	if failed != disk.OK {
		return failed
	}
	to, failed := c.path(4, 5, 6)
	if failed != disk.OK {
		return failed
	}
	return c.machine.Disk.Link(from, to)
}

func pathRename(c *calling) disk.Errno {
	c.spend(writeCost)
	from, failed := c.path(0, 1, 2)
	if failed != disk.OK {
		return failed
	}
	to, failed := c.path(3, 4, 5)
	if failed != disk.OK {
		return failed
	}
	return c.machine.Disk.Rename(from, to)
}

func pathOpen(c *calling) disk.Errno {
	c.spend(callCost)
	at, failed := c.path(0, 2, 3)
	if failed != disk.OK {
		return failed
	}
	how, now := c.u32(4), c.machine.wall(c.now)
	n, failed := c.machine.Disk.Find(at)
	switch {
	case failed == disk.NoEntry && how&openCreate != 0:
		n, failed = c.machine.Disk.Make(at, false, now)
	case failed == disk.OK && how&openNew != 0:
		failed = disk.Exist
	case failed == disk.OK && how&openFolder != 0 && !n.IsDir():
		failed = disk.NotDir
	case failed == disk.OK && how&openEmpty != 0:
		failed = c.machine.Disk.Truncate(n, 0, now)
	}
	if failed != disk.OK {
		return failed
	}
	f := &file{kind: regular, path: at, node: n, append: c.u32(7)&flagAppend != 0, synced: c.u32(7)&flagSync != 0}
	if n.IsDir() {
		f.kind = folder
	}
	c.put32(8, c.open(f))
	return disk.OK
}

// room tells how much room a disk has.
func room(c *calling) disk.Errno {
	if _, failed := c.machine.Disk.Find(c.text(0, 1)); failed != disk.OK {
		return failed
	}
	c.put64(2, uint64(c.machine.Disk.Free()))
	c.put64(3, uint64(c.machine.Disk.Faults.Size))
	return disk.OK
}
