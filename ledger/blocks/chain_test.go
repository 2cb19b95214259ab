package blocks_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// rolledServer starts a server on a store whose log may be rolled.
func rolledServer(t *testing.T, store string) (log *embedded.Log, stop func()) {
	t.Helper()
	ns, err := embedded.Start(context.Background(), embedded.Config{StoreDir: store, LazySync: true})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := ns.Connect()
	if err != nil {
		t.Fatal(err)
	}
	log, err = ns.OpenLog(context.Background(), nc, jetstream.Config{MayCreate: true, MayRoll: true})
	if err != nil {
		t.Fatal(err)
	}
	return log, func() {
		nc.Close()
		ns.Shutdown()
	}
}

// chained makes a log in four streams, of which the oldest was dropped and the
// newest is empty: 121 to 240, 241 to 360, and 361 on. A hundredth commit fills a
// quarter of a block.
func chained(t *testing.T) (store string, heads []ledger.Head) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "log")
	log, stop := rolledServer(t, store)
	var head ledger.Head
	for range 3 {
		heads = append(heads, appendCommits(t, log, head, 120)...)
		head = heads[len(heads)-1]
		if err := log.Roll(t.Context(), head); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Drop(t.Context(), 120); err != nil {
		t.Fatal(err)
	}
	stop()
	return store, heads
}

// streamFolder returns the folder of a stream in a store.
func streamFolder(store, stream string) string {
	return filepath.Join(store, "jetstream", "$G", "streams", stream)
}

const second, third, fourth = "ALLOT-00000000000000000121", "ALLOT-00000000000000000241", "ALLOT-00000000000000000361"

// TestChainIsRead: the files of a chain of streams are judged, read and gone on
// with as those of one stream, and the index of each is as the server writes it.
func TestChainIsRead(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]int{"the newest stream is empty": 0, "it is not": 5} {
		t.Run(name, func(t *testing.T) {
			store, heads := chained(t)
			if more > 0 {
				log, stop := rolledServer(t, store)
				heads = append(heads, appendCommits(t, log, heads[len(heads)-1], more)...)
				stop()
			}
			files := embedded.Files(store)
			theirs := indexes(t, store, more > 0)
			verdict, err := files.Judge(t.Context(), blocks.JudgeOptions{Seen: []blocks.Seen{
				{Head: heads[3], Where: "an old snapshot"}, {Head: heads[119], Where: "the end of what has left"},
				{Head: heads[len(heads)-1], Where: "the read models"},
			}})
			if err != nil || verdict.Last != heads[len(heads)-1] || verdict.Before != heads[119] ||
				verdict.Commits != uint64(len(heads)-120) {
				t.Fatalf("%+v, %v", verdict, err)
			}
			for _, stream := range []string{second, third, fourth} {
				if err := os.Remove(filepath.Join(streamFolder(store, stream), "msgs", "index.db")); err != nil {
					t.Fatal(err)
				}
			}
			if err := files.Settle(verdict.Report); err != nil {
				t.Fatal(err)
			}
			for stream, ours := range indexes(t, store, more > 0) {
				if !bytes.Equal(ours, theirs[stream]) {
					t.Errorf("the index of %s differs:\n%x\n%x", stream, ours, theirs[stream])
				}
			}
			chainReads(t, files, heads)
			chainScrubbed(t, files, heads)
			log, stop := rolledServer(t, store)
			defer stop()
			heads = append(heads, appendCommits(t, log, heads[len(heads)-1], 3)...)
			reads(t, log, 121, heads)
		})
	}
}

// indexes returns the indexes of the streams that have commits.
func indexes(t *testing.T, store string, newest bool) map[string][]byte {
	t.Helper()
	found := make(map[string][]byte)
	for _, stream := range []string{second, third, fourth} {
		if stream == fourth && !newest {
			continue
		}
		data, err := os.ReadFile(filepath.Join(streamFolder(store, stream), "msgs", "index.db"))
		if err != nil {
			t.Fatal(err)
		}
		found[stream] = data
	}
	return found
}

func chainReads(t *testing.T, files blocks.Folder, heads []ledger.Head) {
	t.Helper()
	log, err := files.Open()
	if err != nil {
		t.Fatal(err)
	}
	if last, err := log.Last(t.Context()); err != nil || last != uint64(len(heads)) || log.First() != 121 {
		t.Errorf("%d to %d, %v", log.First(), last, err)
	}
	for _, from := range []uint64{121, 122, 239, 240, 241, 242, 360} {
		reads(t, log, from, heads)
	}
	err = log.Read(t.Context(), 120, 125, func(ledger.Entry) error { return nil })
	if !errors.Is(err, ledger.ErrLogGap) {
		t.Errorf("what has left: %v", err)
	}
	var whole int
	damage, err := files.Salvage(t.Context(), func(ledger.Entry) error { whole++; return nil })
	if err != nil || len(damage) > 0 || whole != len(heads)-120 {
		t.Errorf("salvaged %d: %v, %v", whole, damage, err)
	}
}

// reads checks that a log has the commits of these heads from a sequence on.
func reads(t *testing.T, log ledger.Log, from uint64, heads []ledger.Head) {
	t.Helper()
	next := from
	err := log.Read(t.Context(), from, uint64(len(heads)), func(e ledger.Entry) error {
		if e.Sequence != next || ledger.DigestOf(e.Data) != heads[next-1].Digest {
			t.Errorf("entry %d is not the commit %d", e.Sequence, next)
		}
		next++
		return nil
	})
	if err != nil || next != uint64(len(heads))+1 {
		t.Errorf("read %d to %d: %v", from, next-1, err)
	}
}

func chainScrubbed(t *testing.T, files blocks.Folder, heads []ledger.Head) {
	t.Helper()
	err := files.Scrub(t.Context(), rate.NewLimiter(rate.Inf, blocks.PaceBytes),
		func() uint64 { return uint64(len(heads)) },
		func(d *blocks.DamageError) { t.Errorf("damage: %v", d) }, func(int64) {})
	if err != nil {
		t.Error(err)
	}
}

// TestChainFaults: a chain that lacks a stream, or of which one is damaged, is
// refused, and nothing is changed.
func TestChainFaults(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		spoil func(t *testing.T, store string)
		want  error
	}{
		"a stream in the middle is missing": {func(t *testing.T, store string) {
			remove(t, streamFolder(store, third))
		}, blocks.ErrDamaged},
		"the oldest is missing": {func(t *testing.T, store string) {
			remove(t, streamFolder(store, second))
			remove(t, streamFolder(store, third))
		}, nil}, // of what is left nothing is known to be wrong: see the heads that were seen
		"the configuration of a sealed one is missing": {func(t *testing.T, store string) {
			remove(t, filepath.Join(streamFolder(store, third), "meta.inf"))
		}, blocks.ErrDamaged},
		"that of the newest is missing, and it has commits": {func(t *testing.T, store string) {
			log, stop := rolledServer(t, store)
			head := ledger.Head{Sequence: 360}
			if err := log.Read(t.Context(), 360, 360, func(e ledger.Entry) error {
				head.Digest = ledger.DigestOf(e.Data)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			appendCommits(t, log, head, 2)
			stop()
			remove(t, filepath.Join(streamFolder(store, fourth), "meta.inf"))
		}, blocks.ErrDamaged},
		"a sealed one ends with an unfinished write": {func(t *testing.T, store string) {
			list, err := filepath.Glob(filepath.Join(streamFolder(store, third), "msgs", "*.blk"))
			if err != nil || len(list) == 0 {
				t.Fatal(list, err)
			}
			info, err := os.Stat(list[len(list)-1])
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(list[len(list)-1], info.Size()-5); err != nil {
				t.Fatal(err)
			}
		}, blocks.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			store, heads := chained(t)
			one.spoil(t, store)
			before := contents(t, store)
			files := embedded.Files(store)
			if _, err := files.Judge(t.Context(), blocks.JudgeOptions{}); !errors.Is(err, one.want) {
				t.Errorf("judged %v, want %v", err, one.want)
			}
			if one.want == nil {
				_, err := files.Judge(t.Context(), blocks.JudgeOptions{Seen: []blocks.Seen{{Head: ledger.Head{
					Sequence: 360, Digest: heads[0].Digest,
				}, Where: "a mark"}}})
				if !errors.Is(err, blocks.ErrAnother) {
					t.Errorf("another end of what has left: %v", err)
				}
			}
			if after := contents(t, store); len(after) != len(before) {
				t.Errorf("%d files became %d", len(before), len(after))
			} else {
				for path, text := range before {
					if after[path] != text {
						t.Errorf("%s was changed", path)
					}
				}
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if entry != nil && entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir // the server is still removing a stream that was dropped
		}
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestHalfMadeStreamIsMadeAgain: a server that ends while it makes the next stream,
// wherever it ends, leaves no damage, and the next server goes on.
func TestHalfMadeStreamIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{
		"its folder only":            {"meta.inf", "meta.sum", "msgs", "obs"},
		"no configuration":           {"meta.inf", "meta.sum"},
		"no checksum of it":          {"meta.sum"},
		"no block":                   {"msgs"},
		"neither checksum nor block": {"meta.sum", "msgs"},
	} {
		t.Run(name, func(t *testing.T) {
			store, heads := chained(t)
			for _, file := range lost {
				remove(t, filepath.Join(streamFolder(store, fourth), file))
			}
			goesOn(t, store, heads)
		})
	}
	t.Run("a block cut off", func(t *testing.T) {
		store, heads := chained(t)
		list, err := filepath.Glob(filepath.Join(streamFolder(store, fourth), "msgs", "*.blk"))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		if err := os.Truncate(list[0], 7); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(streamFolder(store, fourth), "msgs", "index.db"))
		goesOn(t, store, heads)
	})
}

// TestHalfMadeLogIsMadeAgain: a server that ends while it makes the first stream leaves
// no damage, and the next one begins the log. With a commit in it, it is damage.
func TestHalfMadeLogIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{
		"its folder only":            {"meta.inf", "meta.sum", "msgs", "obs"},
		"no configuration":           {"meta.inf", "meta.sum"},
		"no checksum of it":          {"meta.sum"},
		"no block":                   {"msgs", "meta.inf"},
		"neither checksum nor block": {"meta.sum", "msgs"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, commits := range []int{0, 1} {
				store := t.TempDir()
				log, stop := rolledServer(t, store)
				seen := appendCommits(t, log, ledger.Head{}, commits)
				stop()
				whole := true
				for _, file := range lost {
					remove(t, filepath.Join(streamFolder(store, jetstream.DefaultStream), file))
					whole = whole && file != "msgs"
				}
				verdict, err := embedded.Files(store).Judge(t.Context(), blocks.JudgeOptions{})
				if commits > 0 && whole {
					if !errors.Is(err, blocks.ErrDamaged) {
						t.Errorf("with %d commits: %+v, %v", commits, verdict, err)
					}
					continue
				}
				if err != nil || verdict.Report != nil {
					t.Fatalf("%+v, %v", verdict, err)
				}
				for _, head := range seen {
					goneAfter(t, store, head)
				}
				log, stop = rolledServer(t, store)
				reads(t, log, 1, appendCommits(t, log, ledger.Head{}, 3))
				stop()
			}
		})
	}
}

// goneAfter checks that a store in which a commit was seen once is not taken for one that
// never had a log, and that nothing of it is changed.
func goneAfter(t *testing.T, store string, seen ledger.Head) {
	t.Helper()
	mark := blocks.HighWaterPath(store)
	if err := blocks.WriteHighWater(mark, seen); err != nil {
		t.Fatal(err)
	}
	if ns, err := embedded.Start(t.Context(), embedded.Config{StoreDir: store}); !errors.Is(err, blocks.ErrGone) {
		t.Errorf("%v, %v", ns, err)
	}
	if _, err := os.Stat(streamFolder(store, jetstream.DefaultStream)); err != nil {
		t.Error(err)
	}
	remove(t, mark)
}

// goesOn checks that a server takes a store as it is, and that it goes on, also
// after it was started again.
func goesOn(t *testing.T, store string, heads []ledger.Head) {
	t.Helper()
	verdict, err := embedded.Files(store).Judge(t.Context(), blocks.JudgeOptions{})
	if err != nil || verdict.Report == nil || verdict.Last != heads[len(heads)-1] {
		t.Fatalf("%+v, %v", verdict, err)
	}
	for range 2 {
		log, stop := rolledServer(t, store)
		heads = append(heads, appendCommits(t, log, heads[len(heads)-1], 3)...)
		reads(t, log, log.First(), heads)
		stop()
	}
	log, stop := rolledServer(t, store)
	defer stop()
	if err := log.Roll(t.Context(), heads[len(heads)-1]); err != nil {
		t.Fatal(err)
	}
	heads = append(heads, appendCommits(t, log, heads[len(heads)-1], 1)...)
	reads(t, log, log.First(), heads)
}

// TestHalfSealed: a server replaces the configuration of a stream that it seals, and
// then the checksum. One that ends between the two leaves no damage, if it was told
// before; otherwise a wrong checksum is what it is.
func TestHalfSealed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, store string){
		"": func(*testing.T, string) {},
		"nothing was told before": func(t *testing.T, store string) {
			remove(t, filepath.Join(store, "sealing"))
		},
		"the note is about another stream": func(t *testing.T, store string) {
			rewrite(t, filepath.Join(store, "sealing"), fourth, third)
		},
		"the configuration is not that of a sealed stream": func(t *testing.T, store string) {
			rewrite(t, filepath.Join(streamFolder(store, fourth), "meta.inf"), `"sealed":true`, `"sealed":false`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, heads := chained(t)
			log, stop := rolledServer(t, store)
			heads = append(heads, appendCommits(t, log, heads[len(heads)-1], 5)...)
			files, sum := embedded.Files(store), filepath.Join(streamFolder(store, fourth), "meta.sum")
			if err := files.BeginSeal(); err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(sum)
			if err != nil {
				t.Fatal(err)
			}
			if err := log.Log.Roll(t.Context(), heads[len(heads)-1]); err != nil {
				t.Fatal(err)
			}
			stop()
			remove(t, streamFolder(store, "ALLOT-00000000000000000366"))
			if err := os.WriteFile(sum, before, 0o600); err != nil {
				t.Fatal(err)
			}
			spoil(t, store)
			_, err = files.Judge(t.Context(), blocks.JudgeOptions{})
			if name != "" {
				if !errors.Is(err, blocks.ErrDamaged) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			goesOn(t, store, heads)
			if _, err := os.Stat(filepath.Join(store, "sealing")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the note is still there: %v", err)
			}
		})
	}
}

// TestHalfDeleted: a server deletes a stream's configuration first. One that ends
// then leaves no damage, if the stream had leave to go.
func TestHalfDeleted(t *testing.T) {
	t.Parallel()
	store, heads := chained(t)
	files := embedded.Files(store)
	remove(t, filepath.Join(streamFolder(store, second), "meta.inf"))
	note := filepath.Join(store, "leaving")
	if _, err := files.Judge(t.Context(), blocks.JudgeOptions{}); !errors.Is(err, blocks.ErrDamaged) {
		t.Errorf("without leave: %v", err)
	}
	if err := files.BeginDrop(241); err != nil {
		t.Fatal(err)
	}
	if err := files.BeginDrop(121); err != nil { // leave is never taken back
		t.Fatal(err)
	}
	if text, err := os.ReadFile(note); err != nil || !strings.Contains(string(text), "241") {
		t.Errorf("%s, %v", text, err)
	}
	verdict, err := files.Judge(t.Context(), blocks.JudgeOptions{})
	if err != nil || verdict.Before != heads[239] {
		t.Fatalf("%+v, %v", verdict, err)
	}
	goesOn(t, store, heads)
	if _, err := os.Stat(streamFolder(store, second)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is left of a deleted stream stays on the disk: %v", err)
	}
	remove(t, filepath.Join(streamFolder(store, third), "meta.inf"))
	if _, err := files.Judge(t.Context(), blocks.JudgeOptions{}); !errors.Is(err, blocks.ErrDamaged) {
		t.Errorf("a stream that had no leave: %v", err)
	}
}

// TestReadWhileDropped: whoever reads the newest commits, or checks the files, while
// streams are sealed and deleted notices nothing.
func TestReadWhileDropped(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "log")
	log, stop := rolledServer(t, store)
	defer stop()
	var head ledger.Head
	var newest atomic.Uint64
	add := func() {
		heads := appendCommits(t, log, head, 3)
		head = heads[len(heads)-1]
		newest.Store(head.Sequence)
	}
	add()
	var readers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer readers.Wait()
	defer cancel()
	files := embedded.Files(store)
	for _, read := range []func() error{
		func() error {
			at := newest.Load()
			err := log.Read(ctx, at, at, func(ledger.Entry) error { return nil })
			if errors.Is(err, ledger.ErrLogGap) && at < log.First() {
				return nil // it has left since
			}
			return err
		},
		func() error {
			return files.Scrub(ctx, rate.NewLimiter(rate.Inf, blocks.PaceBytes), newest.Load,
				func(d *blocks.DamageError) { t.Errorf("damage: %v", d) }, func(int64) {})
		},
		func() error {
			last, err := log.Last(ctx)
			if err == nil && last < newest.Load()-3 {
				err = errors.New("the log is shorter than it was")
			}
			return err
		},
	} {
		readers.Go(func() {
			for ctx.Err() == nil {
				if err := read(); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 60 {
		if err := log.Roll(t.Context(), head); err != nil {
			t.Fatal(err)
		}
		add()
		if err := log.Drop(t.Context(), log.Sealed()[0]); err != nil {
			t.Fatal(err)
		}
	}
}

func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), from) {
		t.Fatalf("%s: %v", text, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLeavesTheFiles: a reader of the files that has them open is told that a
// stream has left, in the words by which others go on elsewhere.
func TestLeavesTheFiles(t *testing.T) {
	t.Parallel()
	store, heads := chained(t)
	log, stop := rolledServer(t, store)
	defer stop()
	reading, err := embedded.Files(store).Open()
	if err != nil {
		t.Fatal(err)
	}
	reads(t, reading, 121, heads)
	if err := log.Drop(t.Context(), 240); err != nil {
		t.Fatal(err)
	}
	for _, from := range []uint64{121, 240} {
		err := reading.Read(t.Context(), from, 360, func(ledger.Entry) error { return nil })
		if !errors.Is(err, ledger.ErrLogGap) || reading.First() != 241 {
			t.Errorf("from %d: %v, and it begins with %d", from, err, reading.First())
		}
	}
	reads(t, reading, 241, heads)
}
