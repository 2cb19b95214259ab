package disk

import (
	"bytes"
	"math/rand/v2"
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

func TestSyncedLasts(t *testing.T) {
	left := after(t, "/f/a", false, func(w *world) {
		folder := w.make("/f", true)
		file := w.make("/f/a", false)
		w.write(file, 0, "synced")
		w.ok(w.Sync(file))
		w.ok(w.Sync(folder))
		w.ok(w.Sync(w.Root))
	})
	if left["synced"] != 300 {
		t.Errorf("left: %v", left)
	}
}

func TestUnsyncedMayBeLostOrTorn(t *testing.T) {
	left := after(t, "/a", false, func(w *world) {
		file := w.make("/a", false)
		w.write(file, 0, "old")
		w.ok(w.Sync(file))
		w.ok(w.Sync(w.Root))
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

func TestFolderThatIsNotSynced(t *testing.T) {
	left := after(t, "/a", false, func(w *world) {
		file := w.make("/a", false)
		w.write(file, 0, "x")
		w.ok(w.Sync(file))
	})
	if left["none"] == 0 || left["x"] == 0 || len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}

func TestRenameLeavesOneOfBoth(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		left := after(t, "/a", ordered, func(w *world) {
			for _, name := range []string{"old", "new"} {
				file := w.make("/"+name, false)
				w.write(file, 0, name)
				w.ok(w.Sync(file))
			}
			w.ok(w.Rename("/old", "/a"))
			w.ok(w.Sync(w.Root))
			w.ok(w.Rename("/new", "/a"))
		})
		if left["old"] == 0 || left["new"] == 0 || len(left) != 2 {
			t.Errorf("ordered %v: left: %v", ordered, left)
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

func TestJournalKeepsTheNameOfASyncedFile(t *testing.T) {
	left := after(t, "/a", false, func(w *world) {
		w.Journal = true
		file := w.make("/a", false)
		w.write(file, 0, "x")
		w.ok(w.Sync(file))
	})
	if left["x"] != 300 {
		t.Errorf("left: %v", left)
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

func TestFailedSyncIsNotMadeUpFor(t *testing.T) {
	left := after(t, "/a", false, func(w *world) {
		file := w.make("/a", false)
		w.ok(w.Sync(w.Root))
		w.write(file, 0, "x")
		w.Faults.Syncs = 1
		if failed := w.Sync(file); failed != IO {
			t.Fatalf("error %d", failed)
		}
		w.Faults.Syncs = 0
		w.ok(w.Sync(file))
	})
	if left[""] == 0 || left["x"] == 0 {
		t.Errorf("left: %v", left)
	}
}

func TestFullDisk(t *testing.T) {
	w := newWorld(t, 1)
	w.Faults.Size = 10
	file := w.make("/a", false)
	if n, failed := w.WriteAt(file, make([]byte, 8), 0, 0); n != 8 || failed != OK {
		t.Fatalf("wrote %d: error %d", n, failed)
	}
	if n, failed := w.WriteAt(file, make([]byte, 8), 8, 0); n != 2 || failed != OK {
		t.Fatalf("wrote %d: error %d", n, failed)
	}
	if n, failed := w.WriteAt(file, make([]byte, 8), 10, 0); n != 0 || failed != NoSpace {
		t.Fatalf("wrote %d: error %d", n, failed)
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
