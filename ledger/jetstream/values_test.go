package jetstream_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestValues: a value can be changed once by a caller that has seen its revision,
// and is listed by its prefix as long as it exists.
func TestValues(t *testing.T) {
	t.Parallel()
	nc := dial(t, plainServer(t).ClientURL())
	ctx := context.Background()
	open := func() *jetstream.Values {
		return ledgertest.Must(jetstream.OpenValues(ctx, nc, jetstream.ValuesConfig{Timeout: 5 * time.Second}))
	}
	mine, theirs := open(), open() // the second finds the bucket
	if value, revision, err := mine.Get(ctx, "lease"); value != nil || revision != 0 || err != nil {
		t.Errorf("nothing yet: %q, %d, %v", value, revision, err)
	}
	first, err := mine.Set(ctx, "lease", 0, []byte("mine"))
	if err != nil || first == 0 {
		t.Fatalf("the first: %d, %v", first, err)
	}
	if _, err := theirs.Set(ctx, "lease", 0, []byte("theirs")); !errors.Is(err, jetstream.ErrRevision) {
		t.Errorf("the first again: %v", err)
	}
	second, err := theirs.Set(ctx, "lease", first, []byte("theirs"))
	if err != nil || second <= first {
		t.Errorf("the second: %d, %v", second, err)
	}
	if _, err := mine.Set(ctx, "lease", first, []byte("mine")); !errors.Is(err, jetstream.ErrRevision) {
		t.Errorf("with an old revision: %v", err)
	}
	if value, revision, err := mine.Get(ctx, "lease"); string(value) != "theirs" || revision != second || err != nil {
		t.Errorf("%q, %d, %v", value, revision, err)
	}
	for key, value := range map[string]string{"member.a": "1", "member.b": "2", "members": "no", "other.a": "3"} {
		ledgertest.OK(t, mine.Put(ctx, key, []byte(value)))
	}
	ledgertest.OK(t, theirs.Delete(ctx, "member.b"))
	got, err := mine.List(ctx, "member.")
	if diff := cmp.Diff(map[string][]byte{"a": []byte("1")}, got); err != nil || diff != "" {
		t.Errorf("the list: %v\n%s", err, diff)
	}
	if peers, err := mine.Peers(ctx); peers.Leader == "" || err != nil {
		t.Errorf("one server alone leads: %+v, %v", peers, err)
	}
	if err := mine.MoveLeader(ctx, "elsewhere"); err == nil || !strings.Contains(err.Error(), "does not step down") {
		t.Errorf("one server alone steps down: %v", err)
	}
}

// TestTail: the entries of a replica are read without the leader, up to the last that the replica knows.
func TestTail(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 2000)
	log := r.open(time.Second)
	r.set(func() {
		r.replica = 1500
		r.get = func(*nats.Msg) bool { t.Error("the leader is asked"); return true }
	})
	tail := func(from uint64) (next uint64, err error) {
		next = from
		err = log.Tail(t.Context(), from, ledgertest.InOrder(&next, isData))
		return next, err
	}
	for from, want := range map[uint64]uint64{1: 1501, 700: 1501, 1500: 1501, 1501: 1501, 1900: 1900} {
		if next, err := tail(from); next != want || err != nil {
			t.Errorf("from %d it ends before %d, not %d, %v", from, next, want, err)
		}
	}
	for answer, away := range map[string]bool{"204": false, "408": false, "": true} {
		r.set(func() {
			r.direct = func(msg *nats.Msg) bool {
				if answer != "" {
					r.status(msg, answer, "")
				}
				return true
			}
		})
		_, err := tail(5)
		if errors.Is(err, ledger.ErrUnavailable) != away || (err == nil) != (answer == "204") {
			t.Errorf("answered %q: %v", answer, err)
		}
	}
}
