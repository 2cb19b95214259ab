package projector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// archived is a log in memory that stands for an archive, which ends somewhere.
type archived struct {
	ledger.Log

	end  uint64
	away error
}

func (a *archived) String() string { return "memory:" }

func (a *archived) PartEnd(_ context.Context, sequence uint64) (uint64, error) {
	if a.away != nil || sequence > a.end {
		return 0, a.away
	}
	return a.end, nil
}

func (a *archived) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if a.away != nil {
		return a.away
	}
	return a.Log.Read(ctx, from, to, yield)
}

// longLog writes a log with commits of one record, of several and of very many, and
// with entries between them that are none, and folds it into read models. It returns
// the times of the commits.
func longLog(t *testing.T, commits int, log *memlog.Log, into ...*Projector) (times []time.Time) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(commits)))
	state, builder := ledger.NewState(), ledger.NewCommitBuilder()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := func() (id ledger.UUID) {
		for i := range id {
			id[i] = byte(random.Uint32())
		}
		id[6], id[8] = 0x40, 0x80
		return id
	}
	put := func(sequence uint64, entry []byte) {
		t.Helper()
		done := make(chan error, 1)
		log.Append(sequence, bytes.Clone(entry), func(err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	first, err := commands.NewAddStandardNames(id())
	if err != nil {
		t.Fatal(err)
	}
	for i := range commits {
		sequence := state.Head().Sequence + 1
		for i > 0 && random.IntN(8) == 0 {
			put(sequence, []byte("a stranger's"))
			sequence++
		}
		records := 1
		if i > 0 {
			records = []int{1, 1, 3, 300}[min(random.IntN(20), 19)/6]
		}
		state.Begin()
		builder.BeginAt(sequence, state.Head().Digest)
		for range records {
			var c commands.Command = first
			if i > 0 {
				place := id()
				c = &commands.CreateProvider{Provider: place, Name: place.String()}
			}
			if random.IntN(3) > 0 {
				now = now.Add(time.Duration(random.IntN(2000)) * time.Millisecond)
			}
			events, rejection := c.Decide(state)
			if rejection != nil {
				t.Fatal(rejection)
			}
			r := ledger.Record{
				CommandID: id(), Command: c.CommandName(), Time: now.UnixNano(), Actor: fmt.Sprint("actor ", random.IntN(3)),
				RequestID: "req-" + id().String(), Events: events,
			}
			if sequence > 5 && random.IntN(4) == 0 {
				r.Cause = &ledger.Address{Sequence: 1 + random.Uint64N(4)}
			}
			if err := state.Apply(sequence, &r); err != nil {
				t.Fatal(err)
			}
			if _, _, err := builder.Add(r, 1<<30); err != nil {
				t.Fatal(err)
			}
		}
		commit, encoded, err := builder.Seal()
		if err != nil {
			t.Fatal(err)
		}
		put(sequence, encoded)
		state.Advance(commit.Head())
		for _, p := range into {
			if err := p.Fold(commit, state.Changes()); err != nil {
				t.Fatal(err)
			}
		}
		times = append(times, now)
	}
	return times
}

func opened(t *testing.T, dir string) *Projector {
	t.Helper()
	p, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // it may be damaged
	return p
}

// cooled has commits leave up to a sequence.
func cooled(t *testing.T, p *Projector, log ledger.Log, upTo uint64) {
	t.Helper()
	if err := trimmer(t, p, &archived{Log: log, end: upTo}).Work(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func trimmer(t *testing.T, p *Projector, logs ...ArchivedLog) *HistoryTrimmer {
	t.Helper()
	worker, err := p.NewHistoryTrimmer(HotHistory{
		Age: time.Nanosecond, Archives: logs, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return worker
}

// answers asks for everything that commits have a part in, at each sequence and at
// times between them.
func answers(p *Projector, times []time.Time) (list []string) {
	tell := func(what string, sequence uint64, answer any, err error) {
		list = append(list, fmt.Sprintf("%s %d: %v %v", what, sequence, answer, err))
	}
	last := p.Checkpoint().Sequence
	for sequence := range last + 2 {
		head, at, found, err := p.View().CommitMark(sequence)
		tell("mark", sequence, fmt.Sprint(head, at, found), err)
		records, err := p.View().RecordsOf(sequence)
		tell("records", sequence, ledgerTexts(records), err)
		for _, index := range []int{0, 1, 299, 300} {
			address := ledger.Address{Sequence: sequence, Index: index}
			record, found, err := p.View().Record(address)
			tell("record", sequence, fmt.Sprint(ledgerTexts([]*ledger.Record{record}), found), err)
			leaf, found, err := p.View().Leaf(address)
			tell("leaf", sequence, fmt.Sprint(leaf, found), err)
		}
		view, err := p.ViewAt(sequence)
		if err != nil {
			tell("view", sequence, view.sequence, err)
			continue
		}
		signed, err := view.Checkpoint()
		tell("checkpoint", sequence, signed, err)
		if err == nil {
			leaf := int64(sequence*7919) % signed.Size
			path, err := view.ProveInclusion(leaf)
			tell("inclusion", sequence, path, err)
			growth, err := view.ProveGrowth(leaf + 1)
			tell("growth", sequence, growth, err)
		}
		if sequence%16 == 0 {
			sum, err := view.Digest(context.Background())
			tell("digest", sequence, sum, err)
		}
	}
	for _, at := range times {
		for _, shift := range []time.Duration{-time.Nanosecond, 0, 1} {
			view, err := p.ViewAtTime(at.Add(shift), at.Add(time.Hour))
			tell("at", view.Sequence(), at, err)
		}
	}
	sum, err := p.Digest()
	tell("digest", last, sum, err)
	return list
}

func ledgerTexts(records []*ledger.Record) string {
	var text strings.Builder
	for _, r := range records {
		if r != nil {
			fmt.Fprintf(&text, "%+v cause %v; ", *r, r.Cause)
		}
	}
	return text.String()
}

// same compares answers, which are alike but for those of one of them.
func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d answers, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: %.300s\nwant %.300s", what, got[i], want[i])
			return
		}
	}
}

// TestColdCommits: whatever has left the read models, each question at each moment
// has the answer that it had before, also after a start.
func TestColdCommits(t *testing.T) {
	t.Parallel()
	long := 40
	if ledgertest.Raced {
		long = 20
	}
	for _, commits := range []int{2, 3, long} {
		log, dir := &memlog.Log{}, t.TempDir()
		whole, p := opened(t, t.TempDir()), opened(t, dir)
		times := longLog(t, commits, log, whole, p)
		want := answers(whole, times)
		p.ReadFrom(log)
		last := p.Checkpoint().Sequence
		for _, upTo := range []uint64{1, 2, last / 2, last/2 + 1, last + 1} {
			before := p.models.Load().coldUpTo().head.Sequence
			cooled(t, p, log, upTo)
			now := p.models.Load().coldUpTo().head.Sequence
			if now < before || now > max(before, upTo) || now >= last {
				t.Errorf("%d of %d commits may leave, and they left up to %d", upTo, last, now)
			}
			same(t, fmt.Sprintf("%d commits, cold up to %d", commits, now), answers(p, times), want)
			if upTo == 2 || upTo == last/2+1 {
				continue // as after the horizons before
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			p = opened(t, dir)
			p.ReadFrom(log)
			if p.Checkpoint().Sequence != last {
				t.Fatalf("a start takes the read models for damaged that are cold up to %d", now)
			}
			same(t, fmt.Sprintf("%d commits, cold up to %d, after a start", commits, now), answers(p, times), want)
		}
		if left := p.models.Load().coldUpTo().head.Sequence; commits > 2 && left+8 < last {
			t.Errorf("of %d commits those up to %d left", last, left)
		}
		rows := 0
		it, err := p.models.Load().cursor([]byte{tableCommit}, []byte{tableCommit + 1})
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			rows++
		}
		if err := finish(it, nil); err != nil || rows != 1 {
			t.Errorf("%d commits are in the read models, want the newest: %v", rows, err)
		}
		records, err := p.View().Records()
		if kept := records - p.models.Load().cold.leaves; err != nil || kept > 2*300+tileLeaves {
			t.Errorf("%d leaves of %d are in the read models: %v", kept, records, err)
		}
	}
}

// TestColdDamage: a mark that is lost or wrong, or a log with other commits, is told,
// and never answered from.
func TestColdDamage(t *testing.T) {
	t.Parallel()
	cold := func(t *testing.T) (p *Projector, log *memlog.Log, marks []uint64) {
		log = &memlog.Log{}
		p = opened(t, t.TempDir())
		longLog(t, 150, log, p)
		p.ReadFrom(log)
		cooled(t, p, log, 1000)
		m := p.models.Load()
		it, err := m.cursor([]byte{tableMark}, []byte{tableMark + 1})
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			k, err := readMark(it)
			if err != nil {
				t.Fatal(err)
			}
			marks = append(marks, k.head.Sequence)
		}
		if err := finish(it, nil); err != nil || len(marks) < 4 {
			t.Fatalf("%d marks: %v", len(marks), err)
		}
		return p, log, marks
	}
	t.Run("lost", func(t *testing.T) {
		for _, which := range []int{1, 2} {
			p, _, marks := cold(t)
			m := p.models.Load()
			if err := m.db.Delete(markKey(marks[which]), pebble.Sync); err != nil {
				t.Fatal(err)
			}
			if err := m.checkSeam(1 << 20); !errors.Is(err, ErrDamaged) {
				t.Errorf("without the mark of %d a start finds: %v", marks[which], err)
			}
			if _, err := p.View().RecordsOf(marks[which]); !errors.Is(err, ErrRebuilding) {
				t.Errorf("without the mark of %d: %v", marks[which], err)
			}
		}
	})
	t.Run("wrong", func(t *testing.T) {
		p, _, marks := cold(t)
		m := p.models.Load()
		before, wrong, err := m.marksAround(marks[2])
		if err != nil || before.head.Sequence != marks[1] {
			t.Fatal(before, err)
		}
		wrong.head.Digest[3] ^= 1
		if err := m.db.Set(markKey(marks[2]), wrong.value(), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if records, err := p.View().RecordsOf(marks[2] - 1); !errors.Is(err, ledger.ErrChain) || records != nil {
			t.Errorf("with another digest than the log's: %d records, %v", len(records), err)
		}
	})
	t.Run("another log", func(t *testing.T) {
		p, _, marks := cold(t)
		other := &memlog.Log{}
		longLog(t, 180, other)
		p.ReadFrom(other)
		if records, err := p.View().RecordsOf(marks[2] - 1); err == nil || records != nil {
			t.Errorf("from another log: %d records, %v", len(records), err)
		}
		if _, err := p.Digest(); err == nil {
			t.Error("a digest was made from another log")
		}
		if err := p.Ready(); err != nil {
			t.Errorf("another log condemned the read models: %v", err)
		}
	})
	t.Run("no log", func(t *testing.T) {
		p, log, marks := cold(t)
		p.origin.log.Store(nil)
		if _, err := p.View().RecordsOf(marks[2]); !errors.Is(err, ErrLogUnknown) {
			t.Errorf("without a log: %v", err)
		}
		away := &archived{Log: log, away: fmt.Errorf("%w: nobody is there", ledger.ErrUnavailable)}
		p.ReadFrom(away)
		for _, ask := range []func() error{
			func() error { _, err := p.View().RecordsOf(marks[2] - 1); return err },
			func() error { _, _, err := p.View().Record(ledger.Address{Sequence: marks[3] - 1}); return err },
			func() error { _, err := View{p.models.Load(), marks[2] - 1}.Records(); return err },
			func() error { _, err := p.Digest(); return err },
		} {
			if err := ask(); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("while the log is away: %v", err)
			}
		}
		if _, _, found, err := p.View().CommitMark(1); err != nil || !found {
			t.Errorf("the first commit's mark needs the log: %v", err)
		}
		if err := p.Ready(); err != nil {
			t.Errorf("a log that is away condemned the read models: %v", err)
		}
		away.away = nil
		p.origin.cancel()
		if _, err := p.View().RecordsOf(marks[2] - 1); !errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("while it is closed: %v", err)
		}
		p.origin.ctx = t.Context()
		if records, err := p.View().RecordsOf(marks[2]); err != nil || len(records) == 0 {
			t.Errorf("when it is back: %d records, %v", len(records), err)
		}
	})
}

// flippedLog is a log that a disk has changed: a bit of an entry is another one.
type flippedLog struct {
	ledger.Log

	sequence uint64
	byte     int
}

// Read implements ledger.Log.
func (l flippedLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return l.Log.Read(ctx, from, to, func(e ledger.Entry) error {
		if e.Sequence == l.sequence {
			e.Data = bytes.Clone(e.Data)
			e.Data[l.byte] ^= 1 << (l.byte % 8)
		}
		return yield(e)
	})
}

// TestColdFlips changes each byte of commits that have left, one inside a stretch and one
// at its end: whoever asks for them, or for what is read with them, is told, and nobody
// gets another answer.
func TestColdFlips(t *testing.T) {
	t.Parallel()
	log, p := &memlog.Log{}, opened(t, t.TempDir())
	longLog(t, 60, log, p)
	entries := make(map[uint64][]byte)
	var small []uint64
	err := log.Read(t.Context(), 2, 60, func(e ledger.Entry) error {
		if n, err := ledger.CommitRecords(e.Data); err == nil && n == 1 {
			entries[e.Sequence], small = bytes.Clone(e.Data), append(small, e.Sequence)
		}
		return nil
	})
	if err != nil || len(small) < 6 {
		t.Fatalf("%d commits of one record: %v", len(small), err)
	}
	inside, end := small[2], small[5]
	cooled(t, p, log, end)
	m := p.models.Load()
	for _, sequence := range []uint64{inside, end} {
		before, next, err := m.marksAround(sequence)
		if err != nil || (next.head.Sequence == sequence) != (sequence == end) {
			t.Fatalf("commit %d is between the marks %d and %d: %v", sequence, before.head.Sequence, next.head.Sequence, err)
		}
		ask := []func() error{
			func() error { _, _, err := p.View().Record(ledger.Address{Sequence: sequence}); return err },
			func() error { _, err := p.View().RecordsOf(next.head.Sequence); return err },
			func() error { _, err := m.coldLeaves(next.with-1, next.with); return err },
		}
		for i := range entries[sequence] {
			p.ReadFrom(flippedLog{log, sequence, i})
			p.origin.kept.Purge()
			if err := ask[i%len(ask)](); err == nil {
				t.Fatalf("question %d was answered with byte %d of commit %d changed", i%len(ask), i, sequence)
			}
		}
		p.ReadFrom(log)
		for i, question := range ask {
			if err := question(); err != nil {
				t.Errorf("question %d, with nothing changed: %v", i, err)
			}
		}
	}
	if err := p.Ready(); err != nil {
		t.Errorf("a damaged log condemned the read models: %v", err)
	}
}

// TestNothingCools: what an archive does not have, or has otherwise, stays, and so
// does what is young, and the newest commit.
func TestNothingCools(t *testing.T) {
	t.Parallel()
	log, other := &memlog.Log{}, &memlog.Log{}
	p := opened(t, t.TempDir())
	times := longLog(t, 60, log, p)
	longLog(t, 61, other)
	p.ReadFrom(log)
	last := p.Checkpoint().Sequence
	good := func() *archived { return &archived{Log: log, end: last} }
	away := errors.New("nobody is there")
	for _, c := range []struct {
		name      string
		logs      []ArchivedLog
		age       time.Duration
		otherwise bool // the read models say something else about a commit
		want      error
	}{
		{name: "one archive has nothing", logs: []ArchivedLog{good(), &archived{Log: log}}},
		{name: "one archive is away", logs: []ArchivedLog{good(), &archived{Log: log, away: away}}, want: away},
		{name: "one archive is another ledger's", logs: []ArchivedLog{good(), &archived{Log: other, end: last}}, want: ErrArchiveDiffers},
		{name: "one archive ends early", logs: []ArchivedLog{good(), &archived{Log: cutLog{log, 10}, end: last}}, want: ledger.ErrLogBehind},
		{name: "the read models differ", logs: []ArchivedLog{good()}, otherwise: true, want: ErrArchiveDiffers},
		{name: "all is young", logs: []ArchivedLog{good()}, age: 2 * time.Since(times[0])},
	} {
		t.Run(c.name, func(t *testing.T) {
			worker := trimmer(t, p, c.logs...)
			if c.age > 0 {
				worker.cfg.Age = c.age
			}
			m := p.models.Load()
			if c.otherwise {
				defer flipped(t, m, commitKey(1))()
			}
			if err := worker.Work(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if cold := m.coldUpTo(); cold != (mark{}) {
				t.Errorf("commits up to %d have left", cold.head.Sequence)
			}
		})
	}
	for _, cfg := range []HotHistory{
		{Age: time.Hour}, {Archives: []ArchivedLog{good()}}, {Age: -1, Archives: []ArchivedLog{good()}},
	} {
		if _, err := p.NewHistoryTrimmer(cfg); !errors.Is(err, ErrKeepsAll) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	cooled(t, p, log, last) // the control: these commits can leave
	if cold := p.models.Load().coldUpTo(); cold.head.Sequence == 0 || cold.head.Sequence >= last {
		t.Errorf("commits up to %d of %d have left", cold.head.Sequence, last)
	}
}

// flipped flips a bit of a value in a store, until what it returns is called.
func flipped(t *testing.T, m *models, key []byte) (back func()) {
	t.Helper()
	set := func(value []byte) {
		t.Helper()
		if err := m.db.Set(key, value, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	var value []byte
	found, err := m.get(key, func(v []byte) error { value = bytes.Clone(v); return nil })
	if !found || err != nil {
		t.Fatal(found, err)
	}
	other := bytes.Clone(value)
	other[len(other)-1] ^= 1
	set(other)
	return func() { set(value) }
}

// cutLog is a log that says that it ends early.
type cutLog struct {
	ledger.Log

	last uint64
}

func (l cutLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if err := l.Log.Read(ctx, from, min(to, l.last), yield); err != nil || to <= l.last {
		return err
	}
	return ledger.ErrLogBehind
}

// TestReadWhileCooled: readers find everything while it leaves.
func TestReadWhileCooled(t *testing.T) {
	t.Parallel()
	log := &memlog.Log{}
	whole, p := opened(t, t.TempDir()), opened(t, t.TempDir())
	times := longLog(t, 100, log, whole, p)
	p.ReadFrom(log)
	want := answers(whole, times)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				same(t, "meanwhile", answers(p, times), want)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for upTo := uint64(1); upTo < p.Checkpoint().Sequence; upTo++ {
		cooled(t, p, log, upTo)
	}
	close(stop)
	readers.Wait()
}

// TestColdPowerCut: a power cut, whatever it takes away of what was not synced,
// leaves read models that the log completes.
func TestColdPowerCut(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	log, dir, disk := &memlog.Log{}, t.TempDir(), vfs.NewCrashableMem()
	if err := disk.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	open := func(files vfs.FS) *Projector {
		t.Helper()
		p, err := openOn(files, dir, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		p.ReadFrom(log)
		return p
	}
	whole, p := opened(t, t.TempDir()), open(disk)
	defer func() { _ = p.Close() }() // its disk is gone
	times := longLog(t, 40, log, whole, p)
	want := answers(whole, times)
	last := p.Checkpoint().Sequence
	kept := make(map[bool]int) // by whether a cut took back that commits had left
	apart := uint64(4)
	if ledgertest.Raced {
		apart = 16
	}
	for upTo := uint64(1); upTo <= last; upTo += apart {
		cooled(t, p, log, upTo)
		if random.IntN(3) == 0 {
			if err := p.models.Load().flush(); err != nil {
				t.Fatal(err)
			}
		}
		for _, percent := range []int{0, 50 + random.IntN(2)*50} {
			q := open(disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: random}))
			kept[q.models.Load().coldUpTo() == p.models.Load().coldUpTo()]++
			state := ledger.NewState()
			err := ledger.ReadCommits(t.Context(), log, ledger.Head{}, last, func(c *ledger.Commit) error {
				changes, err := state.Fold(c)
				if err != nil {
					return err
				}
				return q.Fold(c, changes)
			})
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("cold up to %d, %d %% of what was not synced is kept", upTo, percent), answers(q, times), want)
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if kept[true] == 0 || kept[false] == 0 {
		t.Errorf("of the cuts %d took something back, and %d nothing", kept[false], kept[true])
	}
}
