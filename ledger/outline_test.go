package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// storedCommits are commits as they are stored, with events of every kind.
func storedCommits(t testing.TB) (list [][]byte) {
	t.Helper()
	for _, history := range ledgertest.Histories(t) {
		for _, c := range history.Commits {
			encoded, err := ledger.EncodeCommit(c)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, encoded)
		}
	}
	whole := &ledger.Commit{Sequence: 1, Records: []ledger.Record{{
		Actor: "admin", Cause: &ledger.Address{Sequence: 1}, Events: ledgertest.EveryEvent(),
	}}}
	whole.Records = append(whole.Records, ledger.Record{Events: whole.Records[0].Events[:1]})
	encoded, err := ledger.EncodeCommit(whole)
	if err != nil {
		t.Fatal(err)
	}
	return append(list, encoded)
}

// agree fails unless the outline of stored bytes is that of the commit, if they are one.
// It reports whether there is an outline.
func agree(t testing.TB, what string, data []byte) bool {
	t.Helper()
	outline, err := ledger.DecodeOutline(data)
	commit, commitErr := ledger.DecodeCommit(data)
	switch {
	case err != nil && !errors.Is(err, ledger.ErrCorrupt):
		t.Fatalf("%s: error of another kind: %v", what, err)
	case err != nil && commitErr == nil:
		t.Fatalf("%s: a commit without an outline: %v", what, err)
	case err == nil && outline.Digest != ledger.DigestOf(data):
		t.Fatalf("%s: the outline has the digest of other bytes", what)
	case err != nil || commitErr != nil:
		return err == nil
	}
	for i := range commit.Records {
		commit.Records[i].Events = nil
	}
	if outline.Head() != commit.Head() || outline.Prev != commit.Prev {
		t.Fatalf("%s: the outline is of %v after %s, the commit %v after %s",
			what, outline.Head(), outline.Prev, commit.Head(), commit.Prev)
	}
	if !reflect.DeepEqual(commit.Records, outline.Records) {
		t.Fatalf("%s: the records differ: %s", what, cmp.Diff(commit.Records, outline.Records))
	}
	if !slices.Equal(commit.Leaves, outline.Leaves()) {
		t.Fatalf("%s: the leaves differ: %s", what, cmp.Diff(commit.Leaves, outline.Leaves()))
	}
	return true
}

// TestOutlines: the outline of a commit has everything but the events. With any byte
// changed it is refused, or has another digest, and says nothing that the commit in these
// bytes, if there is one, would not say. Cut at any byte, it is refused.
func TestOutlines(t *testing.T) {
	t.Parallel()
	for n, whole := range storedCommits(t) {
		if !agree(t, fmt.Sprintf("commit %d", n), whole) {
			t.Errorf("commit %d has no outline", n)
		}
		for i := range whole {
			if agree(t, fmt.Sprintf("commit %d, cut at byte %d", n, i), whole[:i]) {
				t.Errorf("commit %d, cut at byte %d, has an outline", n, i)
			}
			changed := bytes.Clone(whole)
			changed[i] ^= 1 << (i % 8)
			agree(t, fmt.Sprintf("commit %d, with byte %d changed", n, i), changed)
		}
		if agree(t, fmt.Sprintf("commit %d, with a byte more", n), append(bytes.Clone(whole), 0)) {
			t.Errorf("commit %d, with a byte more, has an outline", n)
		}
	}
}

// TestPassedOver: what stands in the place of events must be whole values of types that
// events have, at least one of them, however deep. More is not asked.
func TestPassedOver(t *testing.T) {
	t.Parallel()
	events := []ledger.Event{ledger.ProviderCreated{Provider: ledgertest.ID(1, 1), Name: "a"}}
	whole, err := ledger.EncodeCommit(&ledger.Commit{Sequence: 1, Records: []ledger.Record{{Events: events}}})
	if err != nil {
		t.Fatal(err)
	}
	tail, err := ledger.EncodeEvents(events)
	if err != nil || !bytes.HasSuffix(whole, tail) {
		t.Fatalf("%x does not end with %x, %v", whole, tail, err)
	}
	const deep = 1 << 20
	list := func(elements ...string) string {
		text := string([]byte{0xdc, 0, byte(len(elements))})
		for _, e := range elements {
			text += e
		}
		return text
	}
	for _, c := range []struct {
		name, events string
		whole        bool
	}{
		{"the event", string(tail), true},
		{"an event of an unknown kind", "\x91\x92\xcd\xff\xff\x91\xa1x", true},
		{"values of each type", list("\x00", "\x7f", "\xe0", "\xff", "\xc0", "\xc2", "\xc3", "\xcc\x80", "\xcd\x80\x80",
			"\xce\x80\x80\x80\x80", "\xcf\x80\x80\x80\x80\x80\x80\x80\x80", "\xd0\x80", "\xd1\x80\x80", "\xd2\x80\x80\x80\x80",
			"\xd3\x80\x80\x80\x80\x80\x80\x80\x80", "\xca\x80\x80\x80\x80", "\xcb\x80\x80\x80\x80\x80\x80\x80\x80",
			"\xa0", "\xa2xx", "\xd9\x01x", "\xda\x00\x01x", "\xdb\x00\x00\x00\x01x",
			"\xc4\x01x", "\xc5\x00\x01x", "\xc6\x00\x00\x00\x01x", "\x90", "\x92\x00\x00", "\xdc\x00\x01\x00", "\xdd\x00\x00\x00\x01\x00",
		), true},
		{"a million lists inside each other", string(bytes.Repeat([]byte{0x91}, deep)) + "\x00", true},
		{"nothing", "", false},
		{"no events", "\x90", false},
		{"null", "\xc0", false},
		{"fewer events than it says", "\x92\x00", false},
		{"more events than it says", "\x91\x00\x00", false},
		{"4 billion events", "\xdd\xff\xff\xff\xff\x00", false},
		{"4 billion values", "\x91\xdd\xff\xff\xff\xff\x00", false},
		{"lists of 4 billion lists", "\x91" + string(bytes.Repeat([]byte("\xdd\xff\xff\xff\xff"), 1000)), false},
		{"a million lists without an end", string(bytes.Repeat([]byte{0x91}, deep)), false},
		{"lists of 15, each in the one before", string(bytes.Repeat([]byte{0x9f}, 1000)), false},
		{"a string beyond the end", "\x91\xa2x", false},
		{"a long string beyond the end", "\x91\xdb\xff\xff\xff\xffx", false},
		{"bytes beyond the end", "\x91\xc6\x7f\xff\xff\xffx", false},
		{"a length beyond the end", "\x91\xdb\x00\x00", false},
		{"a float beyond the end", "\x91\xcb\x00\x00", false},
		{"a map", "\x91\x81\x00\x00", false},
		{"a long map", "\x91\xde\x00\x01\x00\x00", false},
		{"extensions", "\x92\xd4\x00\x00\xd8\x00" + strings.Repeat("x", 16), true},
		{"an extension of two bytes", "\x91\xd5\x00\x00\x00", false},
		{"an extension beyond the end", "\x91\xd8\x00" + strings.Repeat("x", 15), false},
		{"a long extension", "\x91\xc7\x01\x00\x00", false},
		{"a type that does not exist", "\x91\xc1", false},
	} {
		data := append(bytes.Clone(whole[:len(whole)-len(tail)]), c.events...)
		if got := agree(t, c.name, data); got != c.whole {
			t.Errorf("%s: there is an outline: %v, want %v", c.name, got, c.whole)
		}
	}
}

// TestReadOutlines: outlines are read of the entries of which commits are read.
func TestReadOutlines(t *testing.T) {
	t.Parallel()
	whole := chained(t, 8)
	rapid.Check(t, func(rt *rapid.T) {
		entries := chained(t, 8, rapid.SliceOfN(rapid.Uint64Range(2, 12), 0, 4).Draw(rt, "skipped")...)
		for i, data := range entries {
			if data == nil {
				entries[i] = rapid.SampledFrom([][]byte{[]byte("hello"), {}, {0x94}, whole[2], whole[5]}).Draw(rt, "foreign")
			}
		}
		if rapid.Bool().Draw(rt, "one is lost") {
			entries[rapid.IntRange(0, len(entries)-1).Draw(rt, "which")] = []byte("lost")
		}
		log, to := logOf(t, entries), rapid.Uint64Range(1, uint64(len(entries))).Draw(rt, "to")
		want, wantErr := sequences(log, ledger.Head{}, to)
		var got []uint64
		err := ledger.ReadOutlines(context.Background(), log, ledger.Head{}, to, func(o *ledger.Outline) error {
			got = append(got, o.Sequence)
			return nil
		})
		if fmt.Sprint(got, err) != fmt.Sprint(want, wantErr) {
			rt.Errorf("outlines of %v, %v; commits %v, %v", got, err, want, wantErr)
		}
	})
}

func FuzzDecodeOutline(f *testing.F) {
	for _, encoded := range storedCommits(f) {
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, "these bytes", data) })
}
