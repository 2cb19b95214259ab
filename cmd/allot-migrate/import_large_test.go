package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// generated are MariaDB's statements for a cloud of providers with three inventories each,
// and consumers that hold three classes of one provider each.
func generated(providers, consumers int) []string {
	const id = "CONCAT('00000000-0000-4000-%d-', LPAD(seq, 12, '0'))"
	classes := "(SELECT 0 AS class UNION SELECT 1 UNION SELECT 10000) AS c"
	const now = "'2024-01-01 00:00:00'"
	return []string{
		fmt.Sprintf("INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id) "+
			"SELECT %s, seq + 10, "+id+", CONCAT('host-', seq), 1, seq + 10 FROM seq_1_to_%d", now, 8001, providers),
		fmt.Sprintf("INSERT INTO inventories (created_at, id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, "+
			"step_size, allocation_ratio) SELECT %s, seq * 3 + (class MOD 7 + 1) DIV 2 + 10, seq + 10, class, 100000, 0, 1, 1000, 1, 1.5 FROM seq_1_to_%d, %s",
			now, providers, classes),
		fmt.Sprintf("INSERT INTO consumers (created_at, id, uuid, project_id, user_id, generation, consumer_type_id) "+
			"SELECT %s, seq + 10, "+id+", 1, 1, 1, 1 FROM seq_1_to_%d", now, 8002, consumers),
		fmt.Sprintf("INSERT INTO allocations (created_at, id, resource_provider_id, consumer_id, resource_class_id, used) "+
			"SELECT %s, seq * 3 + (class MOD 7 + 1) DIV 2 + 10, seq MOD %d + 11, "+id+", class, 1 + seq MOD 4 FROM seq_1_to_%d, %s",
			now, providers, 8002, consumers, classes),
	}
}

// TestImportLarge imports a generated Placement, compares, and exports it, and logs how long
// each step takes; `make import-faults` runs it at the size of a large cloud.
func TestImportLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it starts a database server")
	}
	providers, consumers := 1_000, 3_333
	if os.Getenv("ALLOT_IMPORT") == "large" {
		providers, consumers = 100_000, 333_333
	}
	server := placementdbtest.MariaDB(t)
	placementdbtest.Fill(t, server.Build(t, "placement", placementdbtest.Statements), generated(providers, consumers)...)
	dir := t.TempDir()
	data, at := filepath.Join(dir, "data"), "ALLOT_PLACEMENT="+server.Connection("placement")
	timed := func(what string, want string, variable string, args ...string) {
		t.Helper()
		begun := time.Now()
		says(t, migrateWith(t, variable, true, args...), want)
		t.Logf("IMPORT | %s: %d providers, %d allocations | %.1f s |", what, providers, 3*consumers, time.Since(begun).Seconds())
	}
	timed("import (target: 60 s)", fmt.Sprintf("holds %d providers and %d consumers", providers+2, consumers+1), at,
		"import", "placement", "--data", data)
	s := launchtest.Launch(t, data)
	same := fmt.Sprintf("no differences: %d providers, %d consumers", providers+2, consumers+1)
	timed("compare with the database", same, at, "compare", "placement", "--url", s.HTTP)
	timed("export into a file", fmt.Sprintf("wrote %d providers", providers+2), "OS_TOKEN=admin",
		"export", "placement", "--url", s.HTTP, "--to", filepath.Join(dir, "contents.sql"))
	s.Terminate()
}
