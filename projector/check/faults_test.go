package check_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots"
)

// open opens read models.
func open(t *testing.T, dir string) *projector.Projector {
	t.Helper()
	views := ledgertest.Must(projector.Open(dir, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { ledgertest.OK(t, views.Close()) })
	return views
}

// unreadable is a log that cannot be read.
type unreadable struct {
	ledger.Log
	err error
}

func (u unreadable) Read(context.Context, uint64, uint64, func(ledger.Entry) error) error {
	return u.err
}

// TestScrubber reads files again and again. Damage is reported once in a round,
// and a damaged snapshot is removed, so the next round finds nothing.
func TestScrubber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	views := open(t, filepath.Join(w.dir, "readmodel"))
	for n := 6; n < 8; n++ {
		ledgertest.OK(t, w.snaps.Save(ledgertest.State(t, n)))
	}
	dir := filepath.Join(w.dir, "snapshots")
	paths, err := snapshots.Files(dir)
	if err != nil || len(paths) != 3 {
		t.Fatal(paths, err)
	}
	ledgertest.Flip(t, paths[1])
	logs := new(ledgertest.Output)
	start := func(folder string, pause time.Duration) *check.Scrubber {
		scrubber := check.StartScrubber(check.ScrubberConfig{
			Views: views, Snapshots: folder, BytesPerSecond: 1 << 30, Every: pause, Now: time.Now,
			Logger: slog.New(slog.NewTextHandler(logs, nil)),
		})
		t.Cleanup(scrubber.Stop)
		return scrubber
	}
	once := start(dir, time.Hour)
	ledgertest.WaitFor(t, "a finished round", func() bool { return once.Status().Rounds == 1 })
	status := once.Status()
	if status.Good() || status.Found != 1 || len(status.Damage) != 1 ||
		!strings.Contains(status.Damage[0], filepath.Base(paths[1])) ||
		status.Bytes == 0 || status.Total < status.Bytes ||
		status.Ended.Before(status.Begun) {
		t.Errorf("the first round: %+v", status)
	}
	if !strings.Contains(logs.String(), "damage on the disk") {
		t.Errorf("%s", logs)
	}
	if left, err := snapshots.Files(dir); err != nil || !slices.Equal(left, []string{paths[0], paths[2]}) {
		t.Errorf("%v are left, %v", left, err)
	}
	again := start(dir, time.Millisecond)
	ledgertest.WaitFor(t, "more rounds", func() bool { return again.Status().Rounds > 2 })
	if status := again.Status(); !status.Good() || len(status.Damage) > 0 {
		t.Errorf("the next rounds: %+v", status)
	}
	lost := start(paths[0], time.Hour) // a file, where the folder should be
	ledgertest.WaitFor(t, "a finished round", func() bool { return lost.Status().Rounds == 1 })
	if status := lost.Status(); status.Good() || !strings.HasPrefix(status.Damage[0], "snapshots: ") {
		t.Errorf("what cannot be read: %+v", status)
	}
}

// TestVerifyInTrouble: an obstacle to the verification of a log is an error, and
// a fault of the log is a finding, whatever it is compared with.
func TestVerifyInTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file, damaged := filepath.Join(w.dir, "file"), t.TempDir() // with a snapshot whose head cannot be trusted
	ledgertest.OK(t, os.WriteFile(file, nil, 0o600),
		os.WriteFile(filepath.Join(damaged, "00000000000000000005.snapshot"), []byte("ALLOTSN1"), 0o600))
	good := memlog.Of(w.encoded)
	gap := unreadable{good, ledger.ErrLogGap}
	stop := errors.New("stopped")
	for name, c := range map[string]struct {
		log      ledger.Log
		evidence check.Evidence
		why      error // nil, and no finding: it is good
		finding  string
		cause    error
	}{
		"nothing to compare with": {good, check.Evidence{}, nil, "", nil},
		"folders that are not there": {good, check.Evidence{
			Snapshots: filepath.Join(w.dir, "none"), ReadModels: filepath.Join(w.dir, "none"),
		}, nil, "", nil},
		"checkpoints without a key":  {good, check.Evidence{Checkpoints: []proof.Kept{{Path: "x"}}}, nil, "", nil},
		"the log has a gap":          {gap, check.Evidence{}, nil, "log: not good at sequence 1", ledger.ErrLogGap},
		"the log cannot be read":     {unreadable{good, stop}, check.Evidence{}, stop, "", nil},
		"snapshots cannot be listed": {good, check.Evidence{Snapshots: file}, os.ErrInvalid, "", nil},
		"no read models":             {good, check.Evidence{ReadModels: file}, nil, "read models: not good: ", nil},
		"read models cannot be made": {good, check.Evidence{
			ReadModels: filepath.Join(w.dir, "readmodel"), Temporary: file,
		}, os.ErrInvalid, "", nil},
		"a damaged snapshot": {good, check.Evidence{Snapshots: damaged}, nil, "snapshot ", snapshots.ErrDamaged},
	} {
		c.evidence.Temporary = cmp.Or(c.evidence.Temporary, t.TempDir())
		report, err := check.VerifyLog(t.Context(), c.log, worldCommits, c.evidence)
		if c.why != nil {
			if err == nil || !errors.Is(c.why, os.ErrInvalid) && !errors.Is(err, c.why) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		ledgertest.OK(t, err)
		found := report.Err()
		if (found == nil) != (c.finding == "") || found != nil && !strings.Contains(found.Error(), c.finding) ||
			c.cause != nil && !errors.Is(found, c.cause) {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// TestVerifyReadModelsThatDiffer: read models at rest are compared with the log, byte by byte, beside snapshots and
// checkpoints that are good.
func TestVerifyReadModelsThatDiffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, good := range map[string]bool{"good": true, "bad": false} {
		dir, state := filepath.Join(t.TempDir(), "readmodel"), ledger.NewState()
		views := open(t, dir)
		for _, c := range w.commits {
			changes, err := state.Fold(c)
			if !good && c.Sequence == 7 {
				other := *changes.Consumers[0].After
				other.UpdatedAt++
				changes.Consumers = []ledger.Change[ledger.Consumer]{{Before: changes.Consumers[0].Before, After: &other}}
			}
			ledgertest.OK(t, err, views.Fold(c, changes))
		}
		ledgertest.OK(t, views.Sync())
		var last [2]uint64
		copied := filepath.Join(t.TempDir(), "copy") // which is not open
		ledgertest.OK(t, os.CopyFS(copied, os.DirFS(dir)))
		report, err := check.VerifyLog(t.Context(), memlog.Of(w.encoded), worldCommits, check.Evidence{
			ReadModels: copied, Snapshots: filepath.Join(w.dir, "snapshots"), Checkpoints: w.checkpoints, Keys: w.keys,
			Temporary: t.TempDir(),
			Progress:  func(done, total uint64) { last = [2]uint64{done, total} },
		})
		if err != nil || (report.Err() == nil) != good || last != [2]uint64{worldCommits, worldCommits} ||
			report.Sequence != worldCommits || report.Snapshots != 1 || report.Checkpoints != 2 {
			t.Errorf("%s: %+v, %v, told %v", name, report, err, last)
		}
		if !good && !strings.Contains(report.Err().Error(), "read models: not good at sequence 24: their digest is") {
			t.Errorf("%s: %v", name, report.Err())
		}
	}
}

// TestScrubberOfAReplica: while another server fills the log's files, or has
// not stored yet what was folded, nothing is damaged; what two looks find is.
func TestScrubberOfAReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	views := open(t, filepath.Join(w.dir, "readmodel"))
	store := filepath.Join(w.dir, "log")
	ns, nc := logtest.StartNATS(t, embedded.Config{StoreDir: store})
	log := ledgertest.Must(ns.OpenLog(t.Context(), nc, jetstream.Config{MayCreate: true, AckTimeout: ledgertest.Hang}))
	for i, data := range w.encoded {
		ledgertest.OK(t, ledgertest.Append(log, uint64(i+1), data))
	}
	nc.Close()
	ns.Shutdown()
	files := embedded.Files(store)
	path := filepath.Join(files.Dir(), "msgs", "1.blk")
	whole := ledgertest.ReadFile(t, path)
	write := func(content []byte) {
		ledgertest.OK(t, os.WriteFile(path, content, 0o600))
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	torn := whole[:len(whole)-10]
	for name, c := range map[string]struct {
		content []byte
		// whole is what the server says at the n-th look.
		whole func(look int32) bool
		good  bool
	}{
		"good":                       {whole, func(int32) bool { return true }, true},
		"damaged":                    {flipped, func(int32) bool { return true }, false},
		"cut off":                    {torn, func(int32) bool { return true }, false},
		"is being filled":            {torn, func(look int32) bool { return look > 1 }, true},
		"is filled again meanwhile":  {torn, func(look int32) bool { return look != 3 }, true},
		"a commit is on its way yet": {torn, func(int32) bool { return true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			write(c.content)
			var looks atomic.Int32
			scrubber := check.StartScrubber(check.ScrubberConfig{
				Log: &files, Views: views, Snapshots: filepath.Join(w.dir, "none"), BytesPerSecond: 1 << 30, Every: time.Hour,
				Now: time.Now, Logger: slog.New(slog.DiscardHandler),
				Whole: func() bool {
					n := looks.Add(1)
					if c.good && (n == 3 || !c.whole(n)) {
						write(whole) // after the first look at the file, or while it is waited for
					}
					return c.whole(n)
				},
			})
			defer scrubber.Stop()
			ledgertest.WaitFor(t, "a finished round", func() bool { return scrubber.Status().Rounds == 1 })
			if status := scrubber.Status(); status.Good() != c.good {
				t.Errorf("%+v", status)
			}
		})
	}
}
