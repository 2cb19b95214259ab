// Package placementdbtest makes Placement databases for tests.
package placementdbtest

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Version is the version of the schema.
const Version = "a082b8bb98d0"

// schema is that of Placement, in the types that all databases know. Foreign keys
// and unique keys are left out, so that rows can be as odd as they are found.
const schema = `
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE resource_providers (TIMES, id INTEGER PRIMARY KEY, uuid VARCHAR(36) NOT NULL, name VARCHAR(200),
  generation INTEGER, root_provider_id INTEGER, parent_provider_id INTEGER);
CREATE TABLE inventories (TIMES, id INTEGER PRIMARY KEY, resource_provider_id INTEGER NOT NULL,
  resource_class_id INTEGER NOT NULL, total INTEGER NOT NULL, reserved INTEGER NOT NULL, min_unit INTEGER NOT NULL,
  max_unit INTEGER NOT NULL, step_size INTEGER NOT NULL, allocation_ratio FLOAT NOT NULL);
CREATE TABLE allocations (TIMES, id INTEGER PRIMARY KEY, resource_provider_id INTEGER NOT NULL,
  consumer_id VARCHAR(36) NOT NULL, resource_class_id INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE consumers (TIMES, id INTEGER PRIMARY KEY, uuid VARCHAR(36) NOT NULL, project_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL, generation INTEGER NOT NULL, consumer_type_id INTEGER);
CREATE TABLE projects (TIMES, id INTEGER PRIMARY KEY, external_id VARCHAR(255) NOT NULL);
CREATE TABLE users (TIMES, id INTEGER PRIMARY KEY, external_id VARCHAR(255) NOT NULL);
CREATE TABLE consumer_types (TIMES, id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL);
CREATE TABLE resource_classes (TIMES, id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL);
CREATE TABLE traits (TIMES, id INTEGER PRIMARY KEY, name VARCHAR(255) NOT NULL);
CREATE TABLE resource_provider_traits (TIMES, trait_id INTEGER NOT NULL, resource_provider_id INTEGER NOT NULL);
CREATE TABLE placement_aggregates (TIMES, id INTEGER PRIMARY KEY, uuid VARCHAR(36));
CREATE TABLE resource_provider_aggregates (TIMES, resource_provider_id INTEGER NOT NULL, aggregate_id INTEGER NOT NULL);
`

// world is a host with a child, and a server that holds 2 VCPU of the host.
const world = `
INSERT INTO alembic_version VALUES ('a082b8bb98d0');
INSERT INTO resource_classes (id, name) VALUES (0, 'VCPU'), (1, 'MEMORY_MB'), (10000, 'CUSTOM_GOLD');
INSERT INTO traits (id, name) VALUES (1, 'HW_CPU_X86_AVX'), (2, 'CUSTOM_A');
INSERT INTO resource_providers (created_at, updated_at, id, uuid, name, generation, root_provider_id,
  parent_provider_id) VALUES
  ('2024-01-01 00:00:00', '2024-02-01 10:11:12', 1, '11111111-1111-4111-8111-111111111111', 'host', 7, 1, NULL),
  ('2024-01-01 00:00:00', NULL, 2, '22222222-2222-4222-8222-222222222222', 'numa', 1, 1, 1);
INSERT INTO inventories (created_at, id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit,
  step_size, allocation_ratio) VALUES
  ('2024-01-01 00:00:00', 1, 1, 0, 8, 1, 1, 8, 1, 16.1), ('2024-01-01 00:00:00', 2, 2, 10000, 4, 0, 1, 4, 1, 1.0);
INSERT INTO resource_provider_traits (trait_id, resource_provider_id) VALUES (1, 1), (2, 2);
INSERT INTO placement_aggregates (id, uuid) VALUES (1, '33333333-3333-4333-8333-333333333333');
INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES (1, 1);
INSERT INTO projects (id, external_id) VALUES (1, 'p');
INSERT INTO users (id, external_id) VALUES (1, 'u');
INSERT INTO consumer_types (id, name) VALUES (1, 'INSTANCE');
INSERT INTO consumers (created_at, id, uuid, project_id, user_id, generation, consumer_type_id) VALUES
  ('2024-03-01 00:00:00', 1, '44444444-4444-4444-8444-444444444444', 1, 1, 2, 1);
INSERT INTO allocations (created_at, id, resource_provider_id, consumer_id, resource_class_id, used) VALUES
  ('2024-03-01 00:00:00', 1, 2, '44444444-4444-4444-8444-444444444444', 10000, 1),
  ('2024-03-01 00:00:00', 2, 1, '44444444-4444-4444-8444-444444444444', 0, 2);
`

// Rows are those of the world, as they are read.
func Rows() *contents.Rows {
	some := contents.Some
	first := contents.Times{Created: On("2024-01-01 00:00:00")}
	held := contents.Times{Created: On("2024-03-01 00:00:00")}
	return &contents.Rows{
		Kind: "placement", Schema: Version,
		Providers: []contents.ProviderRow{
			{
				ID: 1, UUID: "11111111-1111-4111-8111-111111111111", Name: "host", Generation: some(7), Root: some(1),
				Times: contents.Times{Created: first.Created, Updated: On("2024-02-01 10:11:12")},
			},
			{
				ID: 2, UUID: "22222222-2222-4222-8222-222222222222", Name: "numa", Generation: some(1), Root: some(1),
				Parent: some(1), Times: first,
			},
		},
		Inventories: []contents.InventoryRow{
			{ID: 1, Provider: 1, Class: 0, Total: 8, Reserved: 1, MinUnit: 1, MaxUnit: 8, StepSize: 1,
				Ratio: 16.1, Times: first},
			{ID: 2, Provider: 2, Class: 10000, Total: 4, MinUnit: 1, MaxUnit: 4, StepSize: 1, Ratio: 1, Times: first},
		},
		Allocations: []contents.AllocationRow{
			{ID: 1, Provider: 2, Class: 10000, Consumer: "44444444-4444-4444-8444-444444444444", Used: 1, Times: held},
			{ID: 2, Provider: 1, Class: 0, Consumer: "44444444-4444-4444-8444-444444444444", Used: 2, Times: held},
		},
		Consumers: []contents.ConsumerRow{{
			ID: 1, UUID: "44444444-4444-4444-8444-444444444444", Project: some(1), User: some(1), Type: some(1),
			Generation: some(2), Times: held,
		}},
		Projects: []contents.NameRow{{ID: 1, Name: "p"}}, Users: []contents.NameRow{{ID: 1, Name: "u"}},
		Types:              []contents.NameRow{{ID: 1, Name: "INSTANCE"}},
		Classes:            []contents.NameRow{{Name: "VCPU"}, {ID: 1, Name: "MEMORY_MB"}, {ID: 10000, Name: "CUSTOM_GOLD"}},
		Traits:             []contents.NameRow{{ID: 1, Name: "HW_CPU_X86_AVX"}, {ID: 2, Name: "CUSTOM_A"}},
		Aggregates:         []contents.NameRow{{ID: 1, Name: "33333333-3333-4333-8333-333333333333"}},
		ProviderTraits:     []contents.PairRow{{Provider: 1, Other: 1}, {Provider: 2, Other: 2}},
		ProviderAggregates: []contents.PairRow{{Provider: 1, Other: 1}},
	}
}

// On is a time, in UTC.
func On(date string) int64 {
	t, err := time.Parse(time.DateTime, date)
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

// Odd are rows of every kind that real databases have, and an import takes: none is refused. They fit beside the world,
// and into the tables that a Placement made.
const Odd = `
INSERT INTO resource_classes (id, name) VALUES (9001, 'MISSPELT');
INSERT INTO traits (id, name) VALUES (90001, 'HW_GONE');
INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id, parent_provider_id, created_at) VALUES
  (9001, 'AAAAAAAA-AAAA-4AAA-8AAA-AAAAAAAAAAAA', NULL, 3, 9001, NULL, '2020-01-01 00:00:00'),
  (9002, 'bbbbbbbbbbbb4bbb8bbbbbbbbbbbbbbb', 'dashes', 3, NULL, NULL, '2020-01-01 00:00:00');
INSERT INTO inventories (id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size,
  allocation_ratio, created_at) VALUES
  (9001, 9001, 0, 2, 0, 2, 2, 2, 0.5, '2020-01-01 00:00:00'),
  (9002, 9001, 9001, 5, 6, 1, 1, 1, 0.1, '2020-01-01 00:00:00'),
  (9003, 9002, 1, 7, 0, 1, 7, 1, 1.0, NULL), (9004, 9999, 0, 7, 0, 1, 7, 1, 1.0, NULL);
INSERT INTO resource_provider_traits (resource_provider_id, trait_id) VALUES (9001, 90001);
INSERT INTO allocations (id, resource_provider_id, consumer_id, resource_class_id, used, created_at) VALUES
  (9001, 9001, '55555555-5555-4555-8555-555555555555', 0, 5, '2020-01-02 00:00:00'),
  (9002, 9001, 'no uuid at all', 9001, 3, '2020-01-02 00:00:00'),
  (9003, 9002, 'CCCCCCCC-CCCC-4CCC-8CCC-CCCCCCCCCCCC', 1, 1, '2020-01-02 00:00:00'),
  (9004, 9002, 'cccccccccccc4ccc8ccccccccccccccc', 1, 1, '2020-01-02 00:00:00');
INSERT INTO consumers (id, uuid, project_id, user_id, generation, created_at) VALUES
  (9001, '66666666-6666-4666-8666-666666666666', 1, 1, 0, '2020-01-01 00:00:00'),
  (9002, 'CCCCCCCC-CCCC-4CCC-8CCC-CCCCCCCCCCCC', 1, 1, 4, '2020-01-01 00:00:00'),
  (9003, 'cccccccccccc4ccc8ccccccccccccccc', 1, 1, 4, '2020-01-01 00:00:00');
INSERT INTO placement_aggregates (id, uuid) VALUES (9001, '77777777-7777-4777-8777-777777777777');
UPDATE inventories SET total = 1, allocation_ratio = 0.25 WHERE resource_class_id = 1;
`

// Statements returns the schema and a small world. timeType is the database's type of
// times.
func Statements(timeType string) []string {
	tables := strings.ReplaceAll(schema, "TIMES", "created_at "+timeType+", updated_at "+timeType)
	return Split(tables + world)
}

// Split returns the statements of a text.
func Split(text string) (list []string) {
	for _, statement := range strings.Split(text, ";\n") {
		if strings.TrimSpace(statement) != "" {
			list = append(list, statement)
		}
	}
	return list
}

// Fill runs statements.
func Fill(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// SQLite makes a database with the world and more, and returns its path.
func SQLite(t testing.TB, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "placement.db")
	FillFile(t, path, append(Statements("DATETIME"), more...)...)
	return path
}

// FillFile runs statements in a file of SQLite.
func FillFile(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	ledgertest.OK(t, err)
	Fill(t, db, statements...)
	ledgertest.OK(t, db.Close())
}
