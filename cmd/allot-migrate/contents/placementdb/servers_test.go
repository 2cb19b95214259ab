package placementdb_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
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
	source, err := placementdb.Parse(server.Connection("placement"))
	launchtest.Must(t, err)
	rows, err := source.Read(t.Context(), nil)
	launchtest.Must(t, err)
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
