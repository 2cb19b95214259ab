package archive_test

import (
	"bytes"
	"context"
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
		ledgertest.Must(state.Fold(c))
		w.append(c)
	}
	w.id = state.LedgerID()
	return w
}

func (w *world) append(c *ledger.Commit) {
	w.t.Helper()
	encoded := ledgertest.Encoded(w.t, c)
	ledgertest.OK(w.t, ledgertest.Append(w.log, c.Sequence, encoded))
	w.heads = append(w.heads, ledger.Head{Sequence: c.Sequence, Digest: ledger.DigestOf(encoded)})
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

// archived archives a sequence and those before it in a folder.
func (w *world) archived(dir string, upTo uint64) {
	w.t.Helper()
	w.archive(w.config(in(w.t, dir)), upTo)
}

// in opens the archive in a folder.
func in(t *testing.T, dir string) *archive.Archive {
	t.Helper()
	return ledgertest.Must(archive.OpenURL("file://" + dir))
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

// holds makes sure that an archive is good, and reaches a sequence.
func (w *world) holds(a *archive.Archive, upTo uint64) {
	w.t.Helper()
	if known, err := w.verify(a, nil); err != nil || known.Sequence != upTo {
		w.t.Errorf("want %d, not %+v, %v", upTo, known, err)
	}
}

// keeps makes sure that the files of a folder are what they were.
func keeps(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := files(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s in %s is not what it was", name, dir)
		}
	}
}

// TestArchived: what is sealed is in all archives, byte for byte the same, and
// verifies with the key alone, at once and part by part.
func TestArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	dirOne, dirTwo := t.TempDir(), t.TempDir()
	one := in(t, dirOne)
	all := w.archive(w.config(one, in(t, dirTwo)), 120)
	for _, s := range all {
		if s.Fault != "" || s.Failures > 0 || s.Parts != 12 {
			t.Errorf("%+v", s)
		}
	}
	last := all[0].Verified
	if last != w.heads[last.Sequence-1] {
		t.Errorf("%v is no head of the log", last)
	}
	keeps(t, dirTwo, files(t, dirOne))
	known, err := w.verify(in(t, dirOne), nil)
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

// TestForgedEntries: entries that name the right commit before them and cannot be decoded, which an operator had
// passed over, stop no archive: they are written with the commit after them, verified and read back.
func TestForgedEntries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 15)
	for _, commits := range []int{8, 1, 12} {
		before := w.heads[len(w.heads)-1]
		for range 2 {
			c := w.next(before)
			data := ledgertest.Encoded(t, c)
			ledgertest.OK(t, ledgertest.Append(w.log, c.Sequence, data[:len(data)-1]))
		}
		for range commits {
			w.append(w.next(w.heads[len(w.heads)-1]))
		}
	}
	last := w.heads[len(w.heads)-1]
	target := in(t, t.TempDir())
	w.archive(w.config(target), last.Sequence-10)
	if known, err := w.verify(target, nil); err != nil || known.Sequence < last.Sequence-10 {
		t.Errorf("%+v, %v", known, err)
	}
	var found, foreign int
	log := archive.NewLog([]*archive.Archive{target}, t.TempDir(), 1)
	to, err := log.Last(t.Context())
	ledgertest.OK(t, err)
	err = log.Read(t.Context(), 1, to, func(e ledger.Entry) error {
		if _, err := ledger.DecodeCommit(e.Data); err != nil {
			foreign++
		}
		found++
		return nil
	})
	if err != nil || found != int(to) || foreign != 6 {
		t.Errorf("%d entries of %d were read, %d of them foreign: %v", found, to, foreign, err)
	}
}

// next is a commit for the end of the log that names another one as the one before it.
func (w *world) next(before ledger.Head) *ledger.Commit {
	w.t.Helper()
	last := ledgertest.Must(w.log.Last(w.t.Context()))
	c := ledgertest.Commits(w.t, 2)[1] // The first one begins a ledger.
	c.Sequence, c.Prev = last+1, before.Digest
	return c
}

// TestOthersPart: a part that a backup has written, with other bounds, while an
// Archiver runs, is taken: no commit is in the archive twice.
func TestOthersPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	dir := t.TempDir()
	var head atomic.Uint64
	head.Store(30)
	cfg := w.config(in(t, dir))
	cfg.Head = func() ledger.Head { return w.heads[head.Load()-1] }
	a := archive.Start(cfg)
	defer a.Stop()
	reach := func(sequence uint64) {
		t.Helper()
		ledgertest.WaitFor(t, "the archive", func() bool { return a.Status()[0].Verified.Sequence >= sequence },
			func() any { return a.Status() })
	}
	reach(30)
	other := w.config(in(t, dir))
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
	w.holds(in(t, dir), 55)
	if commits != 55 {
		t.Errorf("%d commits in all parts", commits)
	}
}

// TestFalseTree: a part that says of the Merkle tree what is not so is damaged, though all its commits are good.
func TestFalseTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	var out bytes.Buffer
	part := ledgertest.Must(logfile.NewWriter(&out, logfile.Header{Ledger: w.id, First: 1}, logfile.Part))
	ledgertest.OK(t, w.log.Read(t.Context(), 1, 10, func(e ledger.Entry) error { return part.AddLinked(e) }))
	tree, err := proof.TreeOf(8, []ledger.Digest{{1}})
	ledgertest.OK(t, err)
	dir := t.TempDir()
	ledgertest.OK(t, part.End(nil, tree), os.Mkdir(filepath.Join(dir, "parts"), 0o750))
	name := archive.Name{First: 1, Last: w.heads[9]}
	write(t, filepath.Join(dir, name.String()), out.String())
	_, err = in(t, dir).Verify(t.Context(), archive.VerifyOptions{Folder: t.TempDir()})
	if !errors.Is(err, archive.ErrPart) || !strings.Contains(err.Error(), "the tree has 8 records") {
		t.Errorf("%v", err)
	}
}

// TestBounds: a part ends by records, as in all other tests, by bytes, and by age; by age also while nothing is
// written.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	w.bounds = archive.Bounds{Records: 1 << 30, Bytes: 5000, Age: longAge}
	if s := w.archive(w.config(in(t, t.TempDir())), 100)[0]; s.Parts < 2 || s.Verified.Sequence == 200 {
		t.Errorf("%+v", s)
	}
	w = newWorld(t, 50)
	w.bounds = archive.Bounds{Records: 1 << 30, Bytes: 1 << 30, Age: time.Minute}
	cfg := w.config(in(t, t.TempDir()))
	cfg.Now = time.Now
	if s := w.archive(cfg, 50)[0]; s.Commits != 0 {
		t.Errorf("%+v", s)
	}
}

// TestDamageIsNamed: whatever is wrong with an archive, verification says what and where, and never calls it good.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	dir := t.TempDir()
	w.archived(dir, 100)
	list := partsIn(t, dir)
	if len(list) < 6 {
		t.Fatalf("only %d parts", len(list))
	}
	third, part := filepath.Join("parts", filepath.Base(list[3])), string(ledgertest.ReadFile(t, list[2]))
	for name, c := range map[string]struct {
		damage func(dir string)
		want   error
		says   string
	}{
		"a byte flipped":       {func(dir string) { flip(t, filepath.Join(dir, third), -1) }, archive.ErrPart, third},
		"the middle flipped":   {func(dir string) { flip(t, filepath.Join(dir, third), 0) }, archive.ErrPart, third},
		"another part's bytes": {func(dir string) { write(t, filepath.Join(dir, third), part) }, archive.ErrPart, third},
		"cut":                  {func(dir string) { cut(t, filepath.Join(dir, third)) }, archive.ErrPart, third},
		"lost": {
			func(dir string) { remove(t, filepath.Join(dir, third)) }, archive.ErrMissing, "has nothing of the sequences",
		},
		"all lost": {func(dir string) { remove(t, filepath.Join(dir, "parts")) }, archive.ErrEmpty, dirOf},
		"the mark of another": {func(dir string) {
			write(t, filepath.Join(dir, "ledger.json"), `{"format":1,"ledger":"00000000-0000-0000-0000-000000000001"}`)
		}, archive.ErrOther, "is of the ledger"},
	} {
		t.Run(name, func(t *testing.T) {
			other := t.TempDir()
			ledgertest.OK(t, os.CopyFS(other, os.DirFS(dir)))
			c.damage(other)
			known, err := w.verify(in(t, other), nil)
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
			dir := t.TempDir()
			w.archived(dir, 60)
			damage(partsIn(t, dir))
			before := files(t, dir)
			// With other bounds, too, what is missing fits in the gap.
			w.bounds.Records = 7
			w.archived(dir, 57) // 58 to 60 fill no part
			keeps(t, dir, before)
			if known, err := w.verify(in(t, dir), nil); err != nil || known.Sequence < 57 {
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

// TestRead: the log is read from archives as it was written, in whatever ranges, with room for one part only, and
// from a second archive where the first one is damaged or lacks something.
func TestRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	dir, two := t.TempDir(), in(t, t.TempDir())
	w.archive(w.config(in(t, dir), two), 120)
	paths := partsIn(t, dir)
	flip(t, paths[2], 0)
	remove(t, paths[5])
	log := archive.NewLog([]*archive.Archive{in(t, dir), two}, t.TempDir(), 1)
	if last, err := log.Last(t.Context()); err != nil || last != 120 {
		t.Errorf("%d, %v", last, err)
	}
	for _, r := range [][2]uint64{{1, 120}, {1, 1}, {120, 120}, {10, 11}, {25, 25}, {29, 64}, {51, 60}} {
		next := r[0]
		err := log.Read(t.Context(), r[0], r[1], ledgertest.InOrder(&next, func(e ledger.Entry) bool {
			return ledger.DigestOf(e.Data) == w.heads[e.Sequence-1].Digest
		}))
		if err != nil || next != r[1]+1 {
			t.Errorf("%v: up to %d, %v", r, next-1, err)
		}
	}
	if err := log.Read(t.Context(), 121, 121, func(ledger.Entry) error { return nil }); !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("behind the end: %v", err)
	}
	damaged := archive.NewLog([]*archive.Archive{in(t, dir)}, t.TempDir(), 1<<30)
	var bad *chain.BadEntryError
	err := damaged.Read(t.Context(), 1, 120, func(ledger.Entry) error { return nil })
	if !errors.As(err, &bad) || bad.Sequence != 21 {
		t.Errorf("damaged, without a second archive: %v", err)
	}
}

// TestMend: parts that are damaged in the middle are written again beside the damaged ones, from the log or from
// another archive, and nothing is touched. A log that is another one mends nothing.
func TestMend(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	dir, two := t.TempDir(), in(t, t.TempDir())
	w.archive(w.config(in(t, dir), two), 120)
	paths := partsIn(t, dir)
	for round, log := range []ledger.Log{w.log, archive.NewLog([]*archive.Archive{two}, t.TempDir(), 1<<30)} {
		for _, i := range []int{2, 3, 11} {
			flip(t, paths[i], 0)
			flip(t, paths[i], -40-round) // else a second flip would undo the first
		}
		if round > 0 {
			for _, path := range partsIn(t, dir) {
				if strings.Contains(path, ".1.allot") {
					cut(t, path)
				}
			}
		}
		before := files(t, dir)
		other := w.config()
		other.Log = another{w.log}
		if _, err := archive.Rewrite(t.Context(), in(t, dir), other); err == nil {
			t.Error("another log has mended something")
		}
		cfg := w.config()
		cfg.Log = log
		done, err := archive.Rewrite(t.Context(), in(t, dir), cfg)
		if err != nil || len(done.Written) != 3 || done.Good != 9 {
			t.Fatalf("round %d: %+v, %v", round, done, err)
		}
		keeps(t, dir, before)
		w.holds(in(t, dir), 120)
	}
}

// TestRefusals: an archive that is not this ledger's takes nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	dir := t.TempDir()
	w.archived(dir, 60)
	before := files(t, dir)
	for name, c := range map[string]struct {
		change func(*archive.Config)
		says   string
	}{
		"another ledger": {func(cfg *archive.Config) { cfg.Ledger = ledger.UUID{9} }, "of the ledger"},
		"a shorter log":  {func(cfg *archive.Config) { cfg.Head = func() ledger.Head { return w.heads[10] } }, "was set back"},
		"another log":    {func(cfg *archive.Config) { cfg.Log = another{w.log} }, "has the digest"},
	} {
		cfg := w.config(in(t, dir))
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
	signed, unsigned := in(t, t.TempDir()), in(t, t.TempDir())
	w.archive(w.config(signed), 30)
	cfg := w.config(unsigned)
	cfg.Sign = nil
	w.archive(cfg, 30)
	_, others := ledgertest.Key(t)
	kept := []proof.Checkpoint{{Ledger: w.id, Size: 3, Root: ledger.Digest{1}, Head: w.heads[2]}}
	for name, c := range map[string]struct {
		of   *archive.Archive
		with archive.VerifyOptions
		want error
	}{
		"another key":                 {signed, archive.VerifyOptions{Keys: others}, proof.ErrCheckpoint},
		"no signature":                {unsigned, archive.VerifyOptions{Keys: w.keys}, archive.ErrUnsigned},
		"a checkpoint of another log": {signed, archive.VerifyOptions{Keys: w.keys, Kept: kept}, archive.ErrFork},
	} {
		c.with.Folder = t.TempDir()
		if _, err := c.of.Verify(t.Context(), c.with); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	text := ledgertest.ReadFile(t, path)
	if at == 0 {
		at = -len(text) / 2
	}
	text[len(text)+at] ^= 1
	write(t, path, string(text))
}

func cut(t *testing.T, path string) {
	t.Helper()
	ledgertest.OK(t, os.Chmod(path, 0o600), os.Truncate(path, 100))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	ledgertest.OK(t, os.RemoveAll(path), os.WriteFile(path, []byte(text), 0o600))
}

func remove(t *testing.T, path string) {
	t.Helper()
	ledgertest.OK(t, os.RemoveAll(path))
}
