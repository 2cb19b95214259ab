// Package ironicdbtest makes Ironic databases for tests.
package ironicdbtest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Version is the version of the schema: Ironic 21.4, of 2023.1.
const Version = "4dbec778866e"

//go:embed schema.sql
var schema string

// Uuids of the world.
const (
	Rack   = "11111111-aaaa-4111-8111-111111111111"
	Taken  = "22222222-aaaa-4222-8222-222222222222"
	Idle   = "33333333-aaaa-4333-8333-333333333333"
	Held   = "44444444-aaaa-4444-8444-444444444444"
	Failed = "55555555-aaaa-4555-8555-555555555555"
)

// World is a chassis with a node that an allocation has, and a free node.
//
//go:embed world.sql
var World string

// Statements returns the schema and the world. timeType is the database's type of times.
func Statements(timeType string) []string {
	tables := strings.ReplaceAll(schema, "TIMES", "created_at TIMETYPE, updated_at TIMETYPE")
	return placementdbtest.Split(strings.ReplaceAll(tables, "TIMETYPE", timeType) + World)
}

// SQLite makes a database with the world and more, and returns its path.
func SQLite(t testing.TB, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ironic.db")
	placementdbtest.FillFile(t, path, append(Statements("DATETIME"), more...)...)
	return path
}

// Sync makes the tables of the Ironic that is installed, in a database with an address as
// SQLAlchemy has it. It skips the test where Ironic is not installed.
func Sync(t testing.TB, connection string) (config string) {
	t.Helper()
	if _, err := exec.LookPath("ironic-dbsync"); err != nil {
		t.Skip("skipped: OpenStack Ironic is not installed: apt-get install ironic-common")
	}
	config = filepath.Join(t.TempDir(), "ironic.conf")
	text := fmt.Sprintf("[DEFAULT]\nhost = test\n[database]\nconnection = %s\n", connection)
	ledgertest.OK(t, os.WriteFile(config, []byte(text), 0o600))
	launchtest.Output(t, exec.Command("ironic-dbsync", "--config-file", config, "create_schema"))
	return config
}
