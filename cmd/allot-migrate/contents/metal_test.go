package contents_test

import (
	"slices"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb/ironicdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

var taken, held = parsed(ironicdbtest.Taken), parsed(ironicdbtest.Held)

func parsed(text string) ledger.UUID {
	id, err := ledger.ParseUUID(text)
	if err != nil {
		panic(err)
	}
	return id
}

// metalWorld is an Ironic with a chassis, a node that an allocation has, and a free one, without a
// secret, changed by statements.
func metalWorld(t *testing.T, statements ...string) *contents.Rows {
	t.Helper()
	changed := append([]string{"UPDATE nodes SET driver_info = NULL", "DELETE FROM ports"}, statements...)
	db := ledgertest.Must(placementdb.Parse("sqlite:" + ironicdbtest.SQLite(t, changed...)))
	rows := ledgertest.Must(ironicdb.Read(t.Context(), db, nil))
	rows.ReadAt = readAt
	slices.Reverse(rows.NodeTraits)
	return rows
}

// TestAddToLedger: what one import made stays, and another adds to it.
func TestAddToLedger(t *testing.T) {
	t.Parallel()
	first, _, err := contents.Make(world(t))
	ledgertest.OK(t, err)
	s := fold(t, first)
	head, before := s.Head(), s.ProviderCount()
	second, _, err := contents.Make(metalWorld(t))
	ledgertest.OK(t, err)
	id := byte(0)
	begin := contents.Begin{NewID: func() ledger.UUID { id++; return ledgertest.ID(7, id) }, Time: readAt, Actor: "test", Limit: 8 << 20}
	var commits []*ledger.Commit
	err = second.Add(begin, s, func(e ledger.Entry) error {
		commit, err := ledger.DecodeCommit(e.Data)
		commits = append(commits, commit)
		return err
	})
	if err != nil || len(commits) != 1 || commits[0].Sequence != head.Sequence+1 || commits[0].Prev != head.Digest {
		t.Fatalf("%v: %d commits after %v", err, len(commits), head)
	}
	if n, ok := s.Node(taken); !ok || n.Allocation != held || s.ProviderCount() != before ||
		s.Head() != commits[0].Head() {
		t.Errorf("%+v, %d providers", n, s.ProviderCount())
	}
	for i, r := range commits[0].Records {
		if (r.Cause == nil) != (i == 0) || i > 0 && *r.Cause != (ledger.Address{Sequence: head.Sequence + 1}) {
			t.Errorf("record %d has the cause %v", i, r.Cause)
		}
	}
}
