package placementdb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
)

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
func odd() *contents.Rows {
	rows := wantWorld()
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
	db, err := placementdb.Parse(address)
	launchtest.Must(t, err)
	rows := odd()
	var done, total uint64
	launchtest.Must(t, db.Write(t.Context(), rows, func(d, n uint64) { done, total = d, n }))
	if done != total || done == 0 {
		t.Errorf("the progress ended with %d of %d", done, total)
	}
	got, err := db.Read(t.Context(), nil)
	launchtest.Must(t, err)
	want := odd()
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
	launchtest.Must(t, err)
	rows := odd()
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
