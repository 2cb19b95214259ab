package placementdb_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func read(t *testing.T, address string) (*contents.Rows, error) {
	t.Helper()
	db, err := placementdb.Parse(address)
	if err != nil {
		return nil, err
	}
	return db.Read(t.Context(), nil)
}

// sameWorld compares what was read with the world.
func sameWorld(t *testing.T, rows *contents.Rows, name string) {
	t.Helper()
	if rows.Source != name || rows.ReadAt == 0 {
		t.Errorf("read from %q at %d", rows.Source, rows.ReadAt)
	}
	if rows.Kind != "placement" || rows.Schema != "a082b8bb98d0" {
		t.Errorf("it is %s of the schema %s", rows.Kind, rows.Schema)
	}
	ledgertest.Same(t, "testdata/world.txt", placementdbtest.Dump(t, rows))
}

// TestSQLite reads everything, by all forms of the address.
func TestSQLite(t *testing.T) {
	t.Parallel()
	path := placementdbtest.SQLite(t)
	for _, address := range []string{"sqlite:" + path, "sqlite:///" + path, "sqlite+pysqlite:///" + path + "?timeout=5"} {
		rows, err := read(t, address)
		ledgertest.OK(t, err)
		sameWorld(t, rows, "sqlite:"+path)
	}
}

// TestOlderSchema has no consumer types.
func TestOlderSchema(t *testing.T) {
	t.Parallel()
	path := placementdbtest.SQLite(t, "UPDATE alembic_version SET version_num = 'b5c396305c25'",
		"DROP TABLE consumer_types", "ALTER TABLE consumers DROP COLUMN consumer_type_id")
	rows, err := read(t, "sqlite:"+path)
	if err != nil || rows.Types != nil || rows.Consumers[0].Type.Set {
		t.Errorf("%v %+v", err, rows)
	}
}

// TestBadDatabases: each is refused, with a sentence that says what it is.
func TestBadDatabases(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	launchtest.Write(t, text, strings.Repeat("no database ", 100))
	for _, row := range []struct{ address, why string }{
		{"sqlite:" + filepath.Join(t.TempDir(), "none"), "no such file"},
		{"sqlite:" + text, "not a database"},
		{"sqlite:", "names no file"},
		{"oracle://host/db", "begins neither with"},
		{"mysql://host", "needs a host and the name"},
		{"mysql://user:pass%zzword@host/db", "is not a URL"},
		{"mysql://host/db?compress=1", `the option "compress"`},
		{"mysql://host/db?ssl_ca=" + text, "has no certificate"},
	} {
		_, err := read(t, row.address)
		if err == nil || !strings.Contains(err.Error(), row.why) || strings.Contains(err.Error(), "pass%zzword") {
			t.Errorf("%s: %v; want %q", row.address, err, row.why)
		}
	}
	ledgertest.Answers(t, "testdata/bad.txt", func(statements, want string) string {
		_, err := read(t, "sqlite:"+placementdbtest.SQLite(t, strings.Split(statements, "; ")...))
		return ledgertest.Has(fmt.Sprint(err), want)
	})
}
