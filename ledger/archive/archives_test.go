package archive_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/ledger/proof"
)

// world is a log with what archives it.
type world struct {
	t      *testing.T
	log    *memlog.Log
	heads  []ledger.Head
	id     ledger.UUID
	signer note.Signer
	keys   note.Verifiers
	bounds archive.Bounds
}

// longAge is an age that no part of a test reaches.
const longAge = 1000 * time.Hour

func newWorld(t *testing.T, commits int) *world {
	w := &world{t: t, log: &memlog.Log{}, bounds: archive.Bounds{Records: 10, Bytes: 1 << 30, Age: longAge}}
	w.signer, w.keys = ledgertest.Key(t)
	state := ledger.NewState()
	for _, c := range ledgertest.Commits(t, commits) {
		if _, err := state.Fold(c); err != nil {
			t.Fatal(err)
		}
		w.append(c)
	}
	w.id = state.LedgerID()
	return w
}

func (w *world) append(c *ledger.Commit) {
	w.t.Helper()
	encoded, err := ledger.EncodeCommit(c)
	ledgertest.OK(w.t, err)
	w.put(c.Sequence, encoded)
	w.heads = append(w.heads, ledger.Head{Sequence: c.Sequence, Digest: ledger.DigestOf(encoded)})
}

func (w *world) put(sequence uint64, data []byte) {
	w.t.Helper()
	ledgertest.OK(w.t, ledgertest.Append(w.log, sequence, data))
}

// now is a time at which no part is old, as the commits of tests are from 2024 on.
func (w *world) config(targets ...*archive.Archive) archive.Config {
	return archive.Config{
		Archives: targets, Ledger: w.id, Log: w.log, Bounds: w.bounds, Folder: w.t.TempDir(),
		Head:  func() ledger.Head { return w.heads[len(w.heads)-1] },
		Sign:  func(c *proof.Checkpoint) ([]byte, error) { return c.Sign(w.signer) },
		Every: time.Millisecond, Now: func() time.Time { return time.Unix(0, 0) }, Logger: slog.New(slog.DiscardHandler),
	}
}

// archive runs an Archiver until all archives have verified a sequence.
func (w *world) archive(cfg archive.Config, upTo uint64) []archive.Status {
	w.t.Helper()
	a := archive.Start(cfg)
	defer a.Stop()
	var all []archive.Status
	ledgertest.WaitFor(w.t, fmt.Sprintf("an archive up to %d", upTo), func() bool {
		all = a.Status()
		return !slices.ContainsFunc(all, func(s archive.Status) bool { return s.Verified.Sequence < upTo })
	}, func() any { return all })
	return all
}

// inFolder returns an archive in a folder, and the folder.
func inFolder(t *testing.T) (*archive.Archive, string) {
	t.Helper()
	dir := t.TempDir()
	return open(t, "file://"+dir), dir
}

func open(t *testing.T, url string) *archive.Archive {
	t.Helper()
	store, err := bucket.Open(url)
	ledgertest.OK(t, err)
	return archive.Open(store)
}

// files returns the contents of a folder, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".unfinished-") {
			return err // a file that is being written is no object, and goes at any time
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[name] = string(text)
		return err
	})
	ledgertest.OK(t, err)
	return found
}

func (w *world) verify(a *archive.Archive, from *archive.Verification) (*archive.Verification, error) {
	return a.Verify(w.t.Context(), archive.VerifyOptions{From: from, Keys: w.keys, Folder: w.t.TempDir()})
}

// TestArchived: what is sealed is in all archives, byte for byte the same, and
// verifies with the key alone, at once and part by part.
func TestArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	one, dirOne := inFolder(t)
	two, dirTwo := inFolder(t)
	all := w.archive(w.config(one, two), 120)
	for _, s := range all {
		if s.Fault != "" || s.Failures > 0 || s.Parts != 12 {
			t.Errorf("%+v", s)
		}
	}
	last := all[0].Verified
	if last != w.heads[last.Sequence-1] {
		t.Errorf("%v is no head of the log", last)
	}
	first, second := files(t, dirOne), files(t, dirTwo)
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs between two archives", name)
		}
	}
	known, err := w.verify(open(t, "file://"+dirOne), nil)
	if err != nil || known.Head != last || known.Ledger != w.id || known.Parts != all[0].Parts ||
		known.Checkpoints != known.Parts {
		t.Errorf("%+v, %v", known, err)
	}
	var halfway *archive.Verification
	stop := errors.New("stop")
	_, err = one.Verify(t.Context(), archive.VerifyOptions{
		Keys: w.keys, Folder: t.TempDir(), Known: func(v *archive.Verification) error {
			if halfway = v; v.Parts == 7 {
				return stop
			}
			return nil
		},
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	after, err := w.verify(one, halfway)
	if err != nil || after.Head != known.Head || after.Parts != known.Parts || after.Tree.Root() != known.Tree.Root() {
		t.Errorf("%+v, %v", after, err)
	}
}

// TestForgedEntries: entries that name the right commit before them and cannot be
// decoded, which an operator had passed over, stop no archive: they are written with the
// commit after them, verified and read back.
func TestForgedEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 15)
	for _, commits := range []int{8, 1, 12} {
		before := w.heads[len(w.heads)-1]
		for range 2 {
			w.skip(before)
		}
		for range commits {
			c := ledgertest.Commits(t, 2)[1] // The first one begins a ledger.
			last, err := w.log.Last(t.Context())
			ledgertest.OK(t, err)
			c.Sequence, c.Prev = last+1, w.heads[len(w.heads)-1].Digest
			w.append(c)
		}
	}
	last := w.heads[len(w.heads)-1]
	target, dir := inFolder(t)
	w.archive(w.config(target), last.Sequence-10)
	if known, err := w.verify(open(t, "file://"+dir), nil); err != nil || known.Sequence < last.Sequence-10 {
		t.Errorf("%+v, %v", known, err)
	}
	var found, foreign int
	log := archive.NewLog([]*archive.Archive{target}, t.TempDir(), 1)
	to, err := log.Last(t.Context())
	if err == nil {
		err = log.Read(t.Context(), 1, to, func(e ledger.Entry) error {
			if _, err := ledger.DecodeCommit(e.Data); err != nil {
				foreign++
			}
			found++
			return nil
		})
	}
	if err != nil || found != int(to) || foreign != 6 {
		t.Errorf("%d entries of %d were read, %d of them foreign: %v", found, to, foreign, err)
	}
}

// skip appends what looks like the commit after one, and cannot be decoded.
func (w *world) skip(before ledger.Head) {
	w.t.Helper()
	last, err := w.log.Last(w.t.Context())
	ledgertest.OK(w.t, err)
	c := ledgertest.Commits(w.t, 2)[1]
	c.Sequence, c.Prev = last+1, before.Digest
	data, err := ledger.EncodeCommit(c)
	ledgertest.OK(w.t, err)
	w.put(c.Sequence, data[:len(data)-1])
}

// TestWrittenOnce: Archivers that follow one another, or run at the same time,
// write each part once, wherever each of them stands.
func TestWrittenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	target, dir := inFolder(t)
	url := "file://" + dir
	half := w.config(target)
	half.Head = func() ledger.Head { return w.heads[25] }
	w.archive(half, 20)
	before := files(t, dir)
	rivals := make([]*archive.Archiver, 3)
	for i := range rivals {
		rivals[i] = archive.Start(w.config(open(t, url)))
	}
	w.archive(w.config(open(t, url)), 60)
	for _, rival := range rivals {
		rival.Stop()
	}
	after := files(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed", name)
		}
	}
	if known, err := w.verify(open(t, url), nil); err != nil || known.Parts != len(after)-1 {
		t.Errorf("%d objects, and %+v: %v", len(after), known, err)
	}
}

// TestOthersPart: a part that a backup has written, with other bounds, while an
// Archiver runs, is taken: no commit is in the archive twice.
func TestOthersPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	_, dir := inFolder(t)
	url := "file://" + dir
	var head atomic.Uint64
	head.Store(30)
	cfg := w.config(open(t, url))
	cfg.Head = func() ledger.Head { return w.heads[head.Load()-1] }
	a := archive.Start(cfg)
	defer a.Stop()
	reach := func(sequence uint64) {
		t.Helper()
		ledgertest.WaitFor(t, "the archive", func() bool { return a.Status()[0].Verified.Sequence >= sequence },
			func() any { return a.Status() })
	}
	reach(30)
	other := w.config(open(t, url))
	other.Head = func() ledger.Head { return w.heads[34] }
	if all, err := archive.Backup(t.Context(), other); err != nil || all[0].Verified.Sequence != 35 {
		t.Fatalf("%+v, %v", all, err)
	}
	head.Store(60)
	reach(55)
	a.Stop()
	commits := 0
	for name := range files(t, filepath.Join(dir, "parts")) {
		var first, last int
		if _, err := fmt.Sscanf(name, "%d-%d-", &first, &last); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		commits += last - first + 1
	}
	if known, err := w.verify(open(t, url), nil); err != nil || known.Sequence != uint64(commits) || commits != 55 {
		t.Errorf("%d commits in all parts, and %+v: %v", commits, known, err)
	}
}

// TestFalseTree: a part that says of the Merkle tree what is not so is damaged,
// though all its commits are good.
func TestFalseTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	_, dir := inFolder(t)
	var out bytes.Buffer
	part, err := logfile.NewPart(&out, logfile.Header{Ledger: w.id, First: 1})
	ledgertest.OK(t, err)
	ledgertest.OK(t, w.log.Read(t.Context(), 1, 10, func(e ledger.Entry) error { return part.AddLinked(e) }))
	tree, err := proof.TreeOf(8, []ledger.Digest{{1}})
	if err == nil {
		err = part.End(nil, tree)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "parts"), 0o750)
	}
	ledgertest.OK(t, err)
	name := archive.Name{First: 1, Last: w.heads[9]}
	write(t, filepath.Join(dir, name.String()), out.String())
	_, err = open(t, "file://"+dir).Verify(t.Context(), archive.VerifyOptions{Folder: t.TempDir()})
	if !errors.Is(err, archive.ErrPart) || !strings.Contains(err.Error(), "the tree has 8 records") {
		t.Errorf("%v", err)
	}
}

// TestBounds: a part ends by records, by bytes, and by age; by age also while
// nothing is written.
func TestBounds(t *testing.T) {
	t.Parallel()
	for name, bounds := range map[string]archive.Bounds{
		"records": {Records: 25, Bytes: 1 << 30, Age: longAge},
		"bytes":   {Records: 1 << 30, Bytes: 5000, Age: longAge},
	} {
		w := newWorld(t, 200)
		w.bounds = bounds
		target, _ := inFolder(t)
		if s := w.archive(w.config(target), 100)[0]; s.Parts < 2 || s.Verified.Sequence == 200 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	w := newWorld(t, 50)
	w.bounds = archive.Bounds{Records: 1 << 30, Bytes: 1 << 30, Age: time.Minute}
	target, _ := inFolder(t)
	cfg := w.config(target)
	cfg.Now = time.Now
	if s := w.archive(cfg, 50)[0]; s.Commits != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDamageIsNamed: whatever is wrong with an archive, verification says what
// and where, and never calls it good.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	target, dir := inFolder(t)
	w.archive(w.config(target), 100)
	list := slices.Sorted(func(yield func(string) bool) {
		for name := range files(t, dir) {
			if strings.HasPrefix(name, "parts/") && !yield(name) {
				return
			}
		}
	})
	if len(list) < 6 {
		t.Fatalf("only %d parts", len(list))
	}
	for name, c := range map[string]struct {
		damage func(dir string)
		want   error
		says   string
	}{
		"a byte flipped":     {func(dir string) { flip(t, filepath.Join(dir, list[3]), -1) }, archive.ErrPart, list[3]},
		"the middle flipped": {func(dir string) { flip(t, filepath.Join(dir, list[3]), 0) }, archive.ErrPart, list[3]},
		"another part's bytes": {func(dir string) { copyFile(t, filepath.Join(dir, list[2]), filepath.Join(dir, list[3])) },
			archive.ErrPart, list[3]},
		"cut":      {func(dir string) { cut(t, filepath.Join(dir, list[3])) }, archive.ErrPart, list[3]},
		"lost":     {func(dir string) { remove(t, filepath.Join(dir, list[3])) }, archive.ErrMissing, "has nothing of the sequences"},
		"all lost": {func(dir string) { remove(t, filepath.Join(dir, "parts")) }, archive.ErrEmpty, dirOf},
		"the mark of another": {func(dir string) {
			write(t, filepath.Join(dir, "ledger.json"), `{"format":1,"ledger":"00000000-0000-0000-0000-000000000001"}`)
		}, archive.ErrOther, "is of the ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			other := t.TempDir()
			ledgertest.OK(t, os.CopyFS(other, os.DirFS(dir)))
			if _, err := w.verify(open(t, "file://"+other), nil); err != nil {
				t.Fatalf("before the damage: %v", err)
			}
			c.damage(other)
			known, err := w.verify(open(t, "file://"+other), nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), strings.ReplaceAll(c.says, dirOf, other)) {
				t.Errorf("%v; want %v with %q", err, c.want, c.says)
			}
			if err == nil || known.Parts >= len(list) {
				t.Errorf("%d parts are good", known.Parts)
			}
		})
	}
}

// dirOf stands for the folder in what an error says.
const dirOf = "DIR"

// TestMended: an archive that lost a part, or has a damaged one at its end, gets
// it again from the log. Nothing that is there is touched.
func TestMended(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path []string){
		"lost in the middle":  func(path []string) { remove(t, path[3]); remove(t, path[4]) },
		"lost at the start":   func(path []string) { remove(t, path[0]) },
		"the last is flipped": func(path []string) { flip(t, path[len(path)-1], 0) },
		"the mark is lost":    func(path []string) { remove(t, filepath.Join(filepath.Dir(path[0]), "../ledger.json")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 60)
			_, dir := inFolder(t)
			url := "file://" + dir
			w.archive(w.config(open(t, url)), 60)
			paths := partsIn(t, dir)
			damage(paths)
			before := files(t, dir)
			// With other bounds, too, what is missing fits in the gap.
			w.bounds.Records = 7
			w.archive(w.config(open(t, url)), 57) // 58 to 60 fill no part
			after := files(t, dir)
			for name, text := range before {
				if after[name] != text {
					t.Errorf("%s was changed", name)
				}
			}
			if known, err := w.verify(open(t, url), nil); err != nil || known.Sequence < 57 {
				t.Errorf("%+v, %v", known, err)
			}
		})
	}
}

// partsIn are the files of an archive's parts, in their order.
func partsIn(t *testing.T, dir string) (paths []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(files(t, filepath.Join(dir, "parts")))) {
		paths = append(paths, filepath.Join(dir, "parts", name))
	}
	return paths
}

// TestRead: the log is read from archives as it was written, in whatever ranges,
// with room for one part only, and from a second archive where the first one is
// damaged or lacks something.
func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	one, dir := inFolder(t)
	two, _ := inFolder(t)
	w.archive(w.config(one, two), 120)
	paths := partsIn(t, dir)
	flip(t, paths[2], 0)
	remove(t, paths[5])
	log := archive.NewLog([]*archive.Archive{open(t, "file://"+dir), two}, t.TempDir(), 1)
	if last, err := log.Last(t.Context()); err != nil || last != 120 {
		t.Errorf("%d, %v", last, err)
	}
	for _, r := range [][2]uint64{{1, 120}, {1, 1}, {120, 120}, {10, 11}, {25, 25}, {29, 64}, {51, 60}} {
		next := r[0]
		err := log.Read(t.Context(), r[0], r[1], func(e ledger.Entry) error {
			if e.Sequence != next || ledger.DigestOf(e.Data) != w.heads[next-1].Digest {
				return fmt.Errorf("%d is not %d", e.Sequence, next)
			}
			next++
			return nil
		})
		if err != nil || next != r[1]+1 {
			t.Errorf("%v: up to %d, %v", r, next-1, err)
		}
	}
	if err := log.Read(t.Context(), 121, 121, func(ledger.Entry) error { return nil }); !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("behind the end: %v", err)
	}
	damaged := archive.NewLog([]*archive.Archive{open(t, "file://"+dir)}, t.TempDir(), 1<<30)
	var bad *chain.BadEntryError
	err := damaged.Read(t.Context(), 1, 120, func(ledger.Entry) error { return nil })
	if !errors.As(err, &bad) || bad.Sequence != 21 {
		t.Errorf("damaged, without a second archive: %v", err)
	}
}

// TestMend: parts that are damaged in the middle are written again beside the
// damaged ones, from the log or from another archive, and nothing is touched. A
// log that is another one mends nothing.
func TestMend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	one, dir := inFolder(t)
	two, _ := inFolder(t)
	w.archive(w.config(one, two), 120)
	paths := partsIn(t, dir)
	for round, log := range []ledger.Log{w.log, archive.NewLog([]*archive.Archive{two}, t.TempDir(), 1<<30)} {
		for _, i := range []int{2, 3, 11} {
			flip(t, paths[i], 0)
			flip(t, paths[i], -40-round) // else a second flip would undo the first
		}
		if round > 0 {
			for name := range files(t, filepath.Join(dir, "parts")) {
				if strings.Contains(name, ".1.allot") {
					cut(t, filepath.Join(dir, "parts", name))
				}
			}
		}
		before := files(t, dir)
		other := w.config()
		other.Log = another{w.log}
		if _, err := archive.Rewrite(t.Context(), open(t, "file://"+dir), other); err == nil {
			t.Error("another log has mended something")
		}
		cfg := w.config()
		cfg.Log = log
		done, err := archive.Rewrite(t.Context(), open(t, "file://"+dir), cfg)
		if err != nil || len(done.Written) != 3 || done.Good != 9 {
			t.Fatalf("round %d: %+v, %v", round, done, err)
		}
		after := files(t, dir)
		for name, text := range before {
			if after[name] != text {
				t.Errorf("%s was changed", name)
			}
		}
		if known, err := w.verify(open(t, "file://"+dir), nil); err != nil || known.Sequence != 120 {
			t.Errorf("%+v, %v", known, err)
		}
	}
}

// TestRefusals: an archive that is not this ledger's takes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	_, dir := inFolder(t)
	url := "file://" + dir
	w.archive(w.config(open(t, url)), 60)
	before := files(t, dir)
	for name, c := range map[string]struct {
		change func(*archive.Config)
		says   string
	}{
		"another ledger": {func(cfg *archive.Config) { cfg.Ledger = ledger.UUID{9} }, "of the ledger"},
		"a shorter log":  {func(cfg *archive.Config) { cfg.Head = func() ledger.Head { return w.heads[10] } }, "was set back"},
		"another log":    {func(cfg *archive.Config) { cfg.Log = another{w.log} }, "has the digest"},
	} {
		cfg := w.config(open(t, url))
		c.change(&cfg)
		a := archive.Start(cfg)
		ledgertest.WaitFor(t, "a fault: "+name, func() bool { return a.Status()[0].Fault != "" })
		s := a.Status()[0]
		a.Stop()
		if !strings.Contains(s.Fault, c.says) || s.Failures == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if fmt.Sprint(files(t, dir)) != fmt.Sprint(before) {
			t.Errorf("%s: the archive was changed", name)
		}
	}
}

// another is a log with other bytes at the same sequences.
type another struct{ ledger.Log }

func (a another) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return a.Log.Read(ctx, from, to, func(e ledger.Entry) error {
		e.Data = append(slices.Clone(e.Data), 0)
		return yield(e)
	})
}

// TestSigned: only the right key opens an archive, and the end needs a signature.
func TestSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	_, dir := inFolder(t)
	url := "file://" + dir
	w.archive(w.config(open(t, url)), 30)
	_, others, err := note.GenerateKey(rand.Reader, "other")
	ledgertest.OK(t, err)
	verifier, err := note.NewVerifier(others)
	ledgertest.OK(t, err)
	if _, err := open(t, url).Verify(t.Context(), archive.VerifyOptions{
		Keys: note.VerifierList(verifier), Folder: t.TempDir(),
	}); !errors.Is(err, proof.ErrCheckpoint) {
		t.Errorf("another key: %v", err)
	}
	unsigned, dir := inFolder(t)
	cfg := w.config(unsigned)
	cfg.Sign = nil
	w.archive(cfg, 30)
	if _, err := w.verify(open(t, "file://"+dir), nil); !errors.Is(err, archive.ErrUnsigned) {
		t.Errorf("no signature: %v", err)
	}
	kept := proof.Checkpoint{Ledger: w.id, Size: 3, Root: ledger.Digest{1}, Head: w.heads[2]}
	if _, err := open(t, url).Verify(t.Context(), archive.VerifyOptions{
		Keys: w.keys, Kept: []proof.Checkpoint{kept}, Folder: t.TempDir(),
	}); !errors.Is(err, archive.ErrFork) {
		t.Errorf("a checkpoint of another log: %v", err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	text, err := os.ReadFile(path)
	ledgertest.OK(t, err)
	if at == 0 {
		at = len(text) / 2
	} else {
		at = len(text) + at
	}
	text[at] ^= 1
	write(t, path, string(text))
}

func cut(t *testing.T, path string) {
	t.Helper()
	ledgertest.OK(t, os.Chmod(path, 0o600), os.Truncate(path, 100))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	ledgertest.OK(t, err)
	write(t, to, string(text))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	ledgertest.OK(t, os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600))
}

func remove(t *testing.T, path string) {
	t.Helper()
	ledgertest.OK(t, os.RemoveAll(path))
}
