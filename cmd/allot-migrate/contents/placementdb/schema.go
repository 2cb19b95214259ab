package placementdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

// ErrSchema means that a database does not hold a Placement's tables as they are known.
var ErrSchema = errors.New("the database is not that of a Placement that can be read")

// versions are the known versions of the schema, oldest first.
var versions = []string{"b4ed3a175331", "611cd6dffd7b", "b5c396305c25", "422ece571366", "a082b8bb98d0"}

// typesSince is the version that has consumer types.
const typesSince = "422ece571366"

// ofNova are tables of nova_api that no Placement has.
var ofNova = []string{"cell_mappings", "instance_mappings", "request_specs"}

func (d *Database) transaction(ctx context.Context, conn *sql.Conn) error {
	statements := map[Dialect][]string{
		mySQL: {
			"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
			"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
		},
		postgres: {"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"},
		sqlite:   {"BEGIN"},
	}[d.kind]
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("begin a read-only transaction: %w", err)
		}
	}
	return nil
}

func (d *Database) tables(ctx context.Context, conn *sql.Conn) (names []string, err error) {
	query := map[Dialect]string{
		mySQL:    "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
		postgres: "SELECT table_name FROM information_schema.tables WHERE table_schema = ANY(current_schemas(false))",
		sqlite:   "SELECT name FROM sqlite_master WHERE type = 'table'",
	}[d.kind]
	return texts(ctx, conn, query)
}

func texts(ctx context.Context, conn *sql.Conn, query string) (list []string, err error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, rows.Err()
}

func (d *Database) version(ctx context.Context, conn *sql.Conn) (string, error) {
	names, err := d.tables(ctx, conn)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(ofNova, func(name string) bool { return slices.Contains(names, name) }) {
		return "", fmt.Errorf("%w: it is nova's API database. Name the database of [placement_database] connection; if Placement's "+
			"tables are still in nova_api, first move them with Placement's own mysql-migrate-db.sh or postgresql-migrate-db.sh", ErrSchema)
	}
	if !slices.Contains(names, "alembic_version") {
		return "", fmt.Errorf("%w: it has no table alembic_version, but %s", ErrSchema, listed(names))
	}
	found, err := texts(ctx, conn, "SELECT version_num FROM alembic_version")
	if err != nil {
		return "", err
	}
	if len(found) != 1 || !slices.Contains(versions, found[0]) {
		return "", fmt.Errorf("%w: its schema has the version %q, and only %s are known: "+
			"a newer Allot may know it; placement-manage db sync brings an older one up to date",
			ErrSchema, strings.Join(found, ", "), strings.Join(versions, ", "))
	}
	var missing []string
	for _, table := range tables(new(contents.Rows)) {
		if !slices.Contains(names, string(table.name)) && (table.name != contents.Types || hasTypes(found[0])) {
			missing = append(missing, string(table.name))
		}
	}
	if missing != nil {
		return "", fmt.Errorf("%w: it has no table %s", ErrSchema, strings.Join(missing, ", "))
	}
	return found[0], d.transactional(ctx, conn)
}

func hasTypes(version string) bool {
	return slices.Index(versions, version) >= slices.Index(versions, typesSince)
}

func listed(tables []string) string {
	if len(tables) == 0 {
		return "no tables at all"
	}
	return strings.Join(tables[:min(5, len(tables))], ", ")
}

// transactional refuses tables that transactions do not protect: they can change in the middle.
func (d *Database) transactional(ctx context.Context, conn *sql.Conn) error {
	if d.kind != mySQL {
		return nil
	}
	others, err := texts(ctx, conn, "SELECT table_name FROM information_schema.tables "+
		"WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'")
	if err != nil || len(others) == 0 {
		return err
	}
	return fmt.Errorf("%w: %s is not of InnoDB, so it can change while it is read: stop Placement, copy the database, and name the copy",
		ErrSchema, strings.Join(others, ", "))
}
