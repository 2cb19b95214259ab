package projector_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/past"
)

// When the ids of commands were made that a record has, by how much it was after them.
var idDelays = map[string][]time.Duration{
	"fresh":        {0, time.Millisecond, 40 * time.Millisecond, time.Second},
	"late":         {8 * time.Second, 10 * time.Second, 12 * time.Second},
	"very late":    {time.Hour, 20 * 365 * 24 * time.Hour},
	"early":        {-time.Millisecond, -2 * time.Second, -30 * time.Second, -time.Hour},
	"with no time": {0},
}

var idKinds = []string{"fresh", "fresh", "fresh", "late", "very late", "early", "with no time"}

// madeID returns an id of version 7 that was made at a time, or one that has no time.
func madeID(at int64, n int, timeless bool) (id ledger.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(at/int64(time.Millisecond))<<16)
	id[6], id[8] = 0x70, 0x80
	if timeless {
		id[6] = 0x40
	}
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// sentCommand is a command of a commit.
type sentCommand struct {
	kind   string
	id     ledger.UUID
	result ledger.CommandResult
}

// randomCommands returns commits of commands whose ids were made at all sorts of times.
func randomCommands(t *rapid.T) (commits []*ledger.Commit, sent []sentCommand) {
	var head ledger.Head
	builder := ledger.NewCommitBuilder()
	at := int64(1_700_000_000_000_000_000)
	for range rapid.IntRange(4, 16).Draw(t, "commits") {
		at += int64(rapid.SampledFrom([]time.Duration{
			0, 300 * time.Microsecond, time.Millisecond, 3 * time.Second, 9 * time.Second, 20 * time.Second, time.Hour,
		}).Draw(t, "later"))
		builder.Begin(head)
		for range rapid.IntRange(1, 4).Draw(t, "records") {
			n := len(sent) + 1
			kind := rapid.SampledFrom(idKinds).Draw(t, "kind of id")
			delay := rapid.SampledFrom(idDelays[kind]).Draw(t, "delay")
			one := sentCommand{kind: kind, id: madeID(at-int64(delay), n, kind == "with no time")}
			one.result.Address = ledger.Address{Sequence: builder.Sequence(), Index: builder.Len()}
			binary.BigEndian.PutUint32(one.result.Fingerprint[:], uint32(n))
			record := ledger.Record{
				CommandID: one.id, Fingerprint: one.result.Fingerprint, Command: "Test", Time: at, Actor: "admin",
				Events: []ledger.Event{ledger.TraitCreated{Name: fmt.Sprint("CUSTOM_", n)}},
			}
			if _, fits, err := builder.Add(record, 1<<20); err != nil || !fits {
				t.Fatal(fits, err)
			}
			sent = append(sent, one)
		}
		commit, _, err := builder.Seal()
		if err != nil {
			t.Fatal(err)
		}
		commits, head = append(commits, commit), commit.Head()
	}
	return commits, sent
}

// TestCommandsLeave: whenever command ids have left the read models, each is known with its
// record, and no other one; also after a start, and while commits come. Without an archive
// those are known that stay, new ones are known to be new, and nothing wrong is answered.
func TestCommandsLeave(t *testing.T) {
	t.Parallel()
	left := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		commits, sent := randomCommands(rt)
		newest := sent[len(sent)-1].result.Address.Sequence
		whole := foldedIn(t, t.TempDir(), commits)
		want, err := whole.Digest()
		if err := errors.Join(err, whole.Close()); err != nil { // each takes megabytes
			rt.Fatal(err)
		}
		dir, archive := t.TempDir(), t.TempDir()
		folded := rapid.IntRange(2, len(commits)).Draw(rt, "folded at first")
		p := foldedIn(t, dir, commits[:folded])
		rt.Cleanup(func() { _ = p.Close() }) // it may be closed
		p.ReadPastFrom(pastIn(t, archive, past.Options{}))
		reopen := func() {
			if err := p.Close(); err != nil {
				rt.Fatal(err)
			}
			p = foldedIn(t, dir, commits[:folded])
			p.ReadPastFrom(pastIn(t, archive, past.Options{}))
		}
		for horizon := uint64(0); ; {
			checkCommands(rt, p, sent, commits[folded-1].Sequence)
			if horizon+1 >= newest {
				break
			}
			folded = len(commits)
			if rapid.Bool().Draw(rt, "start again") {
				reopen()
			}
			foldInto(t, p, commits)
			var ends []uint64
			for range rapid.IntRange(1, 3).Draw(rt, "epochs at a time") {
				if horizon+1 < newest {
					horizon = rapid.Uint64Range(horizon+1, newest-1).Draw(rt, "end")
					ends = append(ends, horizon)
				}
			}
			if err := p.EndEpochs(t.Context(), ends...); err != nil {
				rt.Fatal(err)
			}
		}
		if got, err := p.Digest(); err != nil || got != want {
			rt.Fatalf("the digest is %s (%v), want %s", got, err, want)
		}
		reopen()
		checkCommands(rt, p, sent, newest)
		p.ReadPastFrom(nil)
		for _, one := range sent {
			result, found, err := p.Command(one.id)
			switch {
			case errors.Is(err, projector.ErrPastUnknown):
				left[one.kind]++
				if hot, found, err := p.HotCommand(one.id); found || err != nil || p.CommandsLeft(one.id) == 0 {
					rt.Fatalf("%s has left, and the read models have %v, %v", one.id, hot, err)
				}
			case err != nil || !found || result != one.result:
				rt.Fatalf("%s without an archive: %v, %v, %v", one.id, result, found, err)
			}
		}
		last := commits[len(commits)-1].Records[0].Time
		for n, delay := range []time.Duration{0, -time.Minute, -time.Hour} {
			if id := madeID(last-int64(delay)+int64(time.Millisecond), 1e6+n, false); p.CommandsLeft(id) != 0 {
				rt.Fatalf("a new command would ask an archive for what has left up to %d", p.CommandsLeft(id))
			}
		}
		if err := p.Close(); err != nil {
			rt.Fatal(err)
		}
	})
	for kind, leaves := range map[string]bool{
		"fresh": true, "late": true, "early": true, "with no time": false,
	} {
		if left[kind] > 0 != leaves {
			t.Errorf("ids that are %s: %d have left", kind, left[kind])
		}
	}
}

// checkCommands looks for all commands that were sent up to a sequence, for those that come
// later, and for others.
func checkCommands(t *rapid.T, p *projector.Projector, sent []sentCommand, upTo uint64) {
	t.Helper()
	for n, one := range sent {
		result, found, err := p.Command(one.id)
		if err != nil || found != (one.result.Address.Sequence <= upTo) || found && result != one.result {
			t.Fatalf("%s (%s), horizon %d: %v, %v, %v, want %v", one.id, one.kind, p.HotFrom(), result, found, err, one.result)
		}
		other := one.id
		binary.BigEndian.PutUint32(other[12:], uint32(1e6+n))
		if result, found, err := p.Command(other); err != nil || found {
			t.Fatalf("%s, which nobody has sent: %v, %v, %v", other, result, found, err)
		}
	}
}

// BenchmarkCommand looks for command ids: new ones, old ones of which an epoch has the
// record, and as old ones that nobody has sent.
func BenchmarkCommand(b *testing.B) {
	const commands = 20_000
	var head ledger.Head
	var commits []*ledger.Commit
	builder := ledger.NewCommitBuilder()
	at := int64(1_700_000_000_000_000_000)
	for n := 0; n < commands; {
		builder.Begin(head)
		for range 100 {
			n++
			record := ledger.Record{
				CommandID: madeID(at, n, false), Command: "Test", Time: at, Actor: "admin",
				Events: []ledger.Event{ledger.TraitCreated{Name: fmt.Sprint("CUSTOM_", n)}},
			}
			if _, fits, err := builder.Add(record, 1<<20); err != nil || !fits {
				b.Fatal(fits, err)
			}
		}
		commit, _, err := builder.Seal()
		if err != nil {
			b.Fatal(err)
		}
		commits, head, at = append(commits, commit), commit.Head(), at+int64(10*time.Millisecond)
	}
	p := foldedIn(b, b.TempDir(), commits)
	p.ReadPastFrom(pastIn(b, b.TempDir(), past.Options{Bytes: 1 << 30}))
	if err := p.EndEpochs(b.Context(), head.Sequence-1); err != nil {
		b.Fatal(err)
	}
	made := func(n int) int64 { return commits[n/100].Records[0].Time }
	for name, id := range map[string]func(n int) ledger.UUID{
		"new":                  func(n int) ledger.UUID { return madeID(at, n, false) },
		"old":                  func(n int) ledger.UUID { return madeID(made(n%(commands-100)), 1+n%(commands-100), false) },
		"as old, never folded": func(n int) ledger.UUID { return madeID(made(n%(commands-100)), commands+n, false) },
	} {
		b.Run(name, func(b *testing.B) {
			for n := range b.N {
				if _, found, err := p.Command(id(n)); err != nil || found != (name == "old") {
					b.Fatal(found, err)
				}
			}
		})
	}
}
