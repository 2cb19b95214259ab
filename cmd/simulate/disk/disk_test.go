package disk

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// world is a disk, and what a program does with it.
type world struct {
	*Disk
	t      *testing.T
	random *rand.Rand
}

func newWorld(t *testing.T, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 1))
	return &world{New(1<<20, random), t, random}
}

func (w *world) ok(failed Errno) {
	w.t.Helper()
	if failed != OK {
		w.t.Fatalf("error %d", failed)
	}
}

func (w *world) make(path string, folder bool) *Node {
	w.t.Helper()
	n, failed := w.Make(path, folder, 0)
	w.ok(failed)
	return n
}

func (w *world) write(n *Node, at int, text string) {
	w.t.Helper()
	if wrote, failed := w.WriteAt(n, []byte(text), int64(at), 0); failed != OK || wrote != len(text) {
		w.t.Fatalf("wrote %d of %d: error %d", wrote, len(text), failed)
	}
}

// synced makes a file, and syncs what it holds.
func (w *world) synced(path, text string) {
	w.t.Helper()
	file := w.make(path, false)
	w.write(file, 0, text)
	w.ok(w.Sync(file))
}

func (w *world) has(path string) (string, bool) {
	n, failed := w.Find(path)
	if failed != OK {
		return "", false
	}
	return string(n.Contents()), true
}

// after plays something with many seeds, and returns what a power cut left of a file
// and how often.
func after(t *testing.T, path string, ordered bool, play func(w *world)) map[string]int {
	left := map[string]int{}
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		play(w)
		w.Cut(w.random, ordered)
		text, there := w.has(path)
		if !there {
			text = "none"
		}
		left[text]++
	}
	return left
}

// TestWhatACutLeaves: exactly these contents of a file are left, some of them by each of many cuts.
func TestWhatACutLeaves(t *testing.T) {
	rename := func(w *world) {
		for _, name := range []string{"old", "new"} {
			w.synced("/"+name, name)
		}
		w.ok(w.Rename("/old", "/a"))
		w.ok(w.Sync(w.Root))
		w.ok(w.Rename("/new", "/a"))
	}
	for name, c := range map[string]struct {
		path    string
		ordered bool
		want    []string // sorted
		play    func(w *world)
	}{
		"what was synced lasts": {"/f/a", false, []string{"synced"}, func(w *world) {
			folder := w.make("/f", true)
			w.synced("/f/a", "synced")
			w.ok(w.Sync(folder))
			w.ok(w.Sync(w.Root))
		}},
		"a folder that was not synced": {"/a", false, []string{"none", "x"}, func(w *world) { w.synced("/a", "x") }},
		"a rename":                     {"/a", false, []string{"new", "old"}, rename},
		"a rename, in order":           {"/a", true, []string{"new", "old"}, rename},
		"a journal keeps the name of a synced file": {"/a", false, []string{"x"}, func(w *world) {
			w.Journal = true
			w.synced("/a", "x")
		}},
		"a failed sync is not made up for": {"/a", false, []string{"", "x"}, func(w *world) {
			file := w.make("/a", false)
			w.ok(w.Sync(w.Root))
			w.write(file, 0, "x")
			w.Faults.Syncs = 1
			if failed := w.Sync(file); failed != IO {
				t.Fatalf("error %d", failed)
			}
			w.Faults.Syncs = 0
			w.ok(w.Sync(file))
		}},
	} {
		if left := after(t, c.path, c.ordered, c.play); !slices.Equal(slices.Sorted(maps.Keys(left)), c.want) {
			t.Errorf("%s: left: %v", name, left)
		}
	}
}

func TestUnsyncedMayBeLostOrTorn(t *testing.T) {
	left := after(t, "/a", false, func(w *world) {
		w.synced("/a", "old")
		w.ok(w.Sync(w.Root))
		file, _ := w.Find("/a")
		w.write(file, 1, "NEW")
	})
	for _, text := range []string{"old", "oNEW", "oNd", "old\x00", "oNE"} {
		if left[text] == 0 {
			t.Errorf("never %q: %v", text, left)
		}
	}
	for text := range left {
		for i := range len(text) {
			if !strings.ContainsRune("old\x00"[i:i+1]+"oNEW"[i:i+1], rune(text[i])) {
				t.Errorf("%q has what was never written", text)
			}
		}
	}
}

func TestRenameOfWhatWasNotSynced(t *testing.T) {
	left := after(t, "/a", true, func(w *world) {
		file := w.make("/b", false)
		w.write(file, 0, strings.Repeat("x", 600))
		w.ok(w.Rename("/b", "/a"))
		w.ok(w.Sync(w.Root))
	})
	if left[""] == 0 || left[strings.Repeat("x", 600)] == 0 || left["none"] != 0 {
		t.Errorf("left: %d different ones, empty %d times", len(left), left[""])
	}
}

func TestOrderedFoldersKeepTheOrder(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		w.make("/first", true)
		w.make("/second", true)
		w.Cut(w.random, true)
		_, first := w.has("/first")
		if _, second := w.has("/second"); second && !first {
			t.Fatalf("seed %d: the second change is left without the first", seed)
		}
	}
}

func TestFullDisk(t *testing.T) {
	w := newWorld(t, 1)
	w.Faults.Size = 10
	file, at := w.make("/a", false), int64(0)
	for _, want := range []struct {
		wrote  int
		failed Errno
	}{{8, OK}, {2, OK}, {0, NoSpace}} {
		if n, failed := w.WriteAt(file, make([]byte, 8), at, 0); n != want.wrote || failed != want.failed {
			t.Fatalf("at %d it wrote %d: error %d", at, n, failed)
		}
		at += int64(want.wrote)
	}
	w.ok(w.Remove("/a", false))
	if w.Free() != 10 {
		t.Errorf("%d bytes are free", w.Free())
	}
}

func TestSameSeedLeavesTheSame(t *testing.T) {
	leave := func(seed uint64) string {
		w := newWorld(t, seed)
		for i := range 50 {
			file := w.make("/"+string(rune('a'+i%26))+strings.Repeat("x", i/26), false)
			w.write(file, 0, strings.Repeat("data", 100))
			w.ok(w.Truncate(file, int64(i*10), 0))
			if w.random.IntN(3) == 0 {
				w.ok(w.Sync(file))
				w.ok(w.Sync(w.Root))
			}
		}
		w.Cut(w.random, false)
		var all bytes.Buffer
		w.Walk(func(path string, n *Node) { all.WriteString(path); all.Write(n.Contents()) })
		return all.String()
	}
	if first, second := leave(1), leave(1); first != second {
		t.Error("the same seed leaves something else")
	}
	if leave(1) == leave(2) {
		t.Error("another seed leaves the same")
	}
}
