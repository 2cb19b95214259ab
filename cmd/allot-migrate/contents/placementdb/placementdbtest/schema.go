// Package placementdbtest makes Placement databases for tests.
package placementdbtest

import (
	"context"
	"database/sql"
	_ "embed"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

//go:embed schema.sql
var schema string

//go:embed world.sql
var world string

// Odd are rows of every kind that an import takes.
//
//go:embed odd.sql
var Odd string

// Dump returns the rows of all tables, in JSON, one to a line.
func Dump(t testing.TB, of any) string {
	t.Helper()
	var text strings.Builder
	tables := reflect.ValueOf(of).Elem()
	for i := range tables.NumField() {
		if table := tables.Field(i); table.Kind() == reflect.Slice {
			for j := range table.Len() {
				row := ledgertest.Must(ledger.PlainJSON(table.Index(j).Interface()))
				text.WriteString(tables.Type().Field(i).Name + " " + string(row) + "\n")
			}
		}
	}
	return text.String()
}

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
	db := ledgertest.Must(sql.Open("sqlite", path+"?_pragma=synchronous(off)&_pragma=journal_mode(memory)"))
	Fill(t, db, statements...)
	ledgertest.OK(t, db.Close())
}
