package ironicdb_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb/ironicdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func read(t *testing.T, address string) (*contents.Rows, error) {
	t.Helper()
	db := ledgertest.Must(placementdb.Parse(address))
	return ironicdb.Read(t.Context(), db, nil)
}

// sameWorld compares what was read with the world of ironicdbtest.
func sameWorld(t *testing.T, rows *contents.Rows) {
	t.Helper()
	got := *rows
	for i := range got.Nodes { // an empty text and none mean the same
		if got.Nodes[i].Details["conductor_group"] == "" {
			delete(got.Nodes[i].Details, "conductor_group")
		}
	}
	got.Unkept, got.Others = nil, nil
	ledgertest.Same(t, "testdata/world.txt", placementdbtest.Dump(t, &got))
}

// others is the number of rows of the tables that are not kept.
func others(rows *contents.Rows, table contents.Table) (n uint64) {
	for _, other := range rows.Others {
		if other.Table == table {
			n = other.Rows
		}
	}
	return n
}

// TestSQLite reads everything, names the columns for which a ledger has no place, and
// counts the rows of other tables.
func TestSQLite(t *testing.T) {
	t.Parallel()
	path := ironicdbtest.SQLite(t, "ALTER TABLE nodes ADD COLUMN from_the_future TEXT")
	rows, err := read(t, "sqlite:"+path)
	ledgertest.OK(t, err)
	if rows.Kind != "ironic" || rows.Source != "sqlite:"+path || rows.Schema != ironicdbtest.Version || others(rows, "ports") != 1 {
		t.Errorf("%+v", rows)
	}
	lost := strings.Join(rows.Unkept, "\n")
	launchtest.Says(t, lost, "nodes: version, target_power_state", "from_the_future, which this Allot does not know",
		"allocations: version")
	sameWorld(t, rows)
}

// TestOlderSchema lacks what releases after Stein have added.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	var drop []string
	for _, column := range []string{"lessee", "retired", "retired_reason", "network_data", "shard", "boot_mode", "secure_boot"} {
		drop = append(drop, "ALTER TABLE nodes DROP COLUMN "+column)
	}
	rows, err := read(t, "sqlite:"+ironicdbtest.SQLite(t, drop...))
	if err != nil || rows.Nodes[0].Lessee != "" || rows.Nodes[0].Details["retired"] != nil || rows.Nodes[0].Name != "node-1" {
		t.Errorf("%v %+v", err, rows)
	}
}

// TestBadDatabases: each is refused, with a sentence that says what it is.
func TestBadDatabases(t *testing.T) {
	t.Parallel()
	ledgertest.Answers(t, "testdata/bad.txt", func(statement, want string) string {
		_, err := read(t, "sqlite:"+ironicdbtest.SQLite(t, statement))
		return ledgertest.Has(fmt.Sprint(err), want)
	})
}

// TestServers reads the same from servers as from a file, as of one moment.
func TestServers(t *testing.T) {
	placementdbtest.OnServers(t, func(t *testing.T, server *placementdbtest.Server) {
		server.Build(t, "ironic", ironicdbtest.Statements)
		rows, err := read(t, server.Connection("ironic"))
		ledgertest.OK(t, err)
		sameWorld(t, rows)
	})
}

// TestRealIronic reads the tables that OpenStack's Ironic makes: all its columns are
// known.
func TestRealIronic(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ironic.db")
	ironicdbtest.Sync(t, "sqlite:///"+path)
	placementdbtest.FillFile(t, path, placementdbtest.Split(ironicdbtest.World)...)
	rows, err := read(t, "sqlite:"+path)
	ledgertest.OK(t, err)
	if lost := strings.Join(rows.Unkept, "\n"); strings.Contains(lost, "does not know") || others(rows, "ports") != 1 {
		t.Errorf("%s %+v", lost, rows.Others)
	}
	sameWorld(t, rows)
}
