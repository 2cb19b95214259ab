package placementdb_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestServers uses a server of each kind for all that a file does not show.
func TestServers(t *testing.T) {
	placementdbtest.OnServers(t, func(t *testing.T, server *placementdbtest.Server) {
		readsOneMoment(t, server)
		writes(t, server)
		if server.Scheme == "mysql" {
			onlyInnoDB(t, server)
		}
	})
}

// readsOneMoment reads everything as of one moment, though others write meanwhile, and
// shows no password in any error.
func readsOneMoment(t *testing.T, server *placementdbtest.Server) {
	t.Helper()
	db := server.Build(t, "placement", placementdbtest.Statements)
	server.Create(t, "empty")
	source := ledgertest.Must(placementdb.Parse(server.Connection("placement")))
	rows := ledgertest.Must(source.Read(t.Context(), nil))
	sameWorld(t, rows, server.Scheme+"://"+server.Host+"/placement")
	oneMoment(t, source, db)

	why := map[string][3]string{
		"postgresql": {"password authentication failed", "no tables at all", `database "none" does not exist`},
		"mysql":      {"Access denied for user 'placement'", "no tables at all", "Unknown database 'none'"},
	}[server.Scheme]
	escaped := url.QueryEscape(placementdbtest.Password)
	for i, from := range []string{
		strings.Replace(server.Connection("placement"), escaped, "wr0ng%2Fpass", 1), server.Address("empty"), server.Address("none"),
	} {
		_, err := read(t, from)
		launchtest.Says(t, fmt.Sprint(err), why[i])
		for _, secret := range []string{"wr0ng", placementdbtest.Password, escaped} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
}

// onlyInnoDB: tables that can change in the middle are refused, and texts that are not
// UTF-8 cannot be stored.
func onlyInnoDB(t *testing.T, server *placementdbtest.Server) {
	t.Helper()
	db := server.Build(t, "engines", placementdbtest.Statements)
	placementdbtest.Fill(t, db, "ALTER TABLE traits ENGINE = MyISAM")
	_, err := read(t, server.Address("engines"))
	launchtest.Says(t, fmt.Sprint(err), "traits is not of InnoDB")
	placementdbtest.Fill(t, db, "ALTER TABLE traits ENGINE = InnoDB",
		"UPDATE resource_providers SET name = 'Zürich 🦊' WHERE id = 1",
		"UPDATE inventories SET created_at = '2024-01-01 00:00:00.4'")
	rows, err := read(t, server.Address("engines"))
	if err != nil || rows.Providers[0].Name != "Zürich 🦊" {
		t.Error(err, rows)
	}
}

// oneMoment writes to the database in the middle of a read: the read shows
// nothing of it.
func oneMoment(t *testing.T, source *placementdb.Database, db *sql.DB) {
	t.Helper()
	// More rows than a report of progress, so that the writes come in between.
	var values []string
	for n := range 2900 {
		values = append(values, fmt.Sprintf("('2024-01-01 00:00:00', %d, '00000000-0000-4000-8000-%012d', 'n%d', 0, %d)",
			n+100, n, n, n+100))
	}
	placementdbtest.Fill(t, db, "INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id) VALUES "+
		strings.Join(values, ", "))
	var once bool
	rows, err := source.Read(t.Context(), func(_, _ uint64) {
		if once {
			return
		}
		once = true
		placementdbtest.Fill(t, db, "DELETE FROM allocations", "UPDATE consumers SET generation = 99", "DELETE FROM traits")
	})
	if err != nil || !once {
		t.Fatal(once, err)
	}
	if len(rows.Allocations) != 2 || rows.Consumers[0].Generation.Value != 2 || len(rows.Traits) != 2 {
		t.Errorf("it shows two moments: %d allocations, generation %d, %d traits",
			len(rows.Allocations), rows.Consumers[0].Generation.Value, len(rows.Traits))
	}
	var left int
	if err := db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM allocations").Scan(&left); err != nil || left != 0 {
		t.Errorf("the writes did not happen: %d, %v", left, err)
	}
}

// emptied are statements that leave the tables without contents. The classes and
// traits of a Placement that was started stay, under other ids than the world has.
var emptied = []string{
	"DELETE FROM resource_providers", "DELETE FROM inventories", "DELETE FROM allocations", "DELETE FROM consumers",
	"DELETE FROM projects", "DELETE FROM users", "DELETE FROM consumer_types", "DELETE FROM placement_aggregates",
	"DELETE FROM resource_provider_traits", "DELETE FROM resource_provider_aggregates", "DELETE FROM resource_classes",
	"DELETE FROM traits", "INSERT INTO resource_classes (id, name) VALUES (0, 'VCPU'), (1, 'DISK_GB')",
	"INSERT INTO traits (id, name) VALUES (1, 'CUSTOM_A')",
}

// odd is the world with texts that need care.
func odd(t *testing.T) *contents.Rows {
	t.Helper()
	rows, err := read(t, "sqlite:"+placementdbtest.SQLite(t))
	ledgertest.OK(t, err)
	rows.Providers[0].Name = `it's "one" \ 🦊 -- ;` + "\n" + `?$1`
	rows.Projects[0].Name = `\'; DROP TABLE users; --`
	// A child stands before its parent.
	slices.Reverse(rows.Providers)
	return rows
}

// TestWrite: what was written is read again, with the ids that the database has for
// classes and traits.
func TestWrite(t *testing.T) {
	t.Parallel()
	written(t, "sqlite:"+placementdbtest.SQLite(t, emptied...))
}

// writes is TestWrite with a server.
func writes(t *testing.T, server *placementdbtest.Server) {
	t.Helper()
	db := server.Build(t, "written", placementdbtest.Statements)
	placementdbtest.Fill(t, db, emptied...)
	if server.Scheme == "postgresql" {
		for _, table := range []string{
			"resource_classes", "traits", "projects", "users", "consumer_types", "placement_aggregates", "resource_providers",
			"inventories", "consumers", "allocations",
		} {
			placementdbtest.Fill(t, db, "CREATE SEQUENCE "+table+"_id_seq OWNED BY "+table+".id")
		}
	}
	written(t, server.Address("written"))
}

func written(t *testing.T, address string) {
	t.Helper()
	db := ledgertest.Must(placementdb.Parse(address))
	rows := odd(t)
	var done, total uint64
	ledgertest.OK(t, db.Write(t.Context(), rows, func(d, n uint64) { done, total = d, n }))
	if done != total || done == 0 {
		t.Errorf("the progress ended with %d of %d", done, total)
	}
	got := ledgertest.Must(db.Read(t.Context(), nil))
	want := odd(t)
	slices.Reverse(want.Providers)
	want.Classes = []contents.NameRow{{ID: 0, Name: "VCPU"}, {ID: 1, Name: "DISK_GB"}, {ID: 10000, Name: "CUSTOM_GOLD"}, {ID: 10001, Name: "MEMORY_MB"}}
	want.Traits = []contents.NameRow{{ID: 1, Name: "CUSTOM_A"}, {ID: 3, Name: "HW_CPU_X86_AVX"}}
	want.ProviderTraits = []contents.PairRow{{Provider: 1, Other: 3}, {Provider: 2, Other: 1}}
	want.Source, want.ReadAt = got.Source, got.ReadAt
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := db.Write(t.Context(), rows, nil); !errors.Is(err, placementdb.ErrOccupied) {
		t.Errorf("written twice: %v", err)
	}
}

// TestWriteIsWhole: a row that the database refuses undoes everything.
func TestWriteIsWhole(t *testing.T) {
	t.Parallel()
	address := "sqlite:" + placementdbtest.SQLite(t, emptied...)
	db, err := placementdb.Parse(address)
	ledgertest.OK(t, err)
	rows := odd(t)
	rows.Allocations = append(rows.Allocations, rows.Allocations[0]) // one id twice
	err = db.Write(t.Context(), rows, nil)
	if err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Fatal(err)
	}
	got, err := db.Read(t.Context(), nil)
	if err != nil || len(got.Providers) != 0 || len(got.Classes) != 2 {
		t.Errorf("%v: %+v", err, got)
	}
}
