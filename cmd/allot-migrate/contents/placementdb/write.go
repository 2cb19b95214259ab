package placementdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

const rowsAtOnce = 500

// Statements are those that put rows into an empty database with Placement's tables.
// Ids are those of the rows, so that they have to be complete and without
// contradictions. Classes and traits that the database has are left out of rows.
func Statements(rows *contents.Rows, dialect Dialect) iter.Seq[string] {
	return func(yield func(string) bool) {
		if dialect == mySQL {
			// The class VCPU has the id 0, which else means a new id, and no backslash is special.
			if !yield("SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO,NO_BACKSLASH_ESCAPES')") {
				return
			}
		}
		ordered := *rows
		ordered.Providers = slices.SortedStableFunc(slices.Values(rows.Providers), deeper(rows.Providers))
		for _, table := range tables(&ordered) {
			for first := 0; first < table.rows(); first += rowsAtOnce {
				if !yield(table.insert(first, min(first+rowsAtOnce, table.rows()), moment(rows.ReadAt))) {
					return
				}
			}
			// PostgreSQL counts ids that it gives itself.
			if dialect == postgres && table.rows() > 0 && table.order() == "id" {
				name := string(table.name)
				if !yield(fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', 'id'), (SELECT MAX(id) FROM %s))", name, name)) {
					return
				}
			}
		}
	}
}

func (t table) insert(from, to int, at moment) string {
	var text strings.Builder
	columns := t.columns
	if t.made != nil {
		columns = append(slices.Clip(columns), "created_at")
	}
	fmt.Fprintf(&text, "INSERT INTO %s (%s) VALUES", t.name, strings.Join(columns, ", "))
	for i := from; i < to; i++ {
		if i > from {
			text.WriteByte(',')
		}
		values := t.row(i)
		if t.made != nil {
			values = append(values, new(cmp.Or(t.made(i), at)))
		}
		text.WriteString("\n(")
		for n, value := range values {
			if n > 0 {
				text.WriteString(", ")
			}
			text.WriteString(literal(value))
		}
		text.WriteByte(')')
	}
	return text.String()
}

func literal(value any) string {
	switch v := value.(type) {
	case *int64:
		return strconv.FormatInt(*v, 10)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	case *string:
		return "'" + strings.ReplaceAll(*v, "'", "''") + "'"
	case *orEmpty:
		return literal((*string)(v))
	case *contents.Optional:
		if v.Set {
			return strconv.FormatInt(v.Value, 10)
		}
	case *moment:
		if *v != 0 {
			return "'" + time.Unix(0, int64(*v)).UTC().Format(time.DateTime) + "'"
		}
	}
	return "NULL"
}

// deeper compares providers by their depth, because a parent has to exist before its children.
func deeper(providers []contents.ProviderRow) func(a, b contents.ProviderRow) int {
	parents := make(map[int64]contents.Optional, len(providers))
	for i := range providers {
		parents[providers[i].ID] = providers[i].Parent
	}
	depth := func(p contents.ProviderRow) (n int) {
		for above := p.Parent; above.Set && n <= len(providers); above = parents[above.Value] {
			n++
		}
		return n
	}
	depths := make(map[int64]int, len(providers))
	for i := range providers {
		depths[providers[i].ID] = depth(providers[i])
	}
	return func(a, b contents.ProviderRow) int { return depths[a.ID] - depths[b.ID] }
}

// ErrOccupied means that a database has contents, and would lose or mix them.
var ErrOccupied = errors.New("the database is not empty")

// Write puts rows into a database that has Placement's tables, but no providers and consumers yet, in one
// transaction. Classes and traits that the database has keep their ids.
func (d *Database) Write(ctx context.Context, rows *contents.Rows, show contents.Progress) error {
	err := connected(ctx, d.openToWrite, func(conn *sql.Conn) error { return d.put(ctx, conn, rows, show) })
	if err != nil {
		return d.plain(fmt.Errorf("write %s: %w; nothing was written", d.name, err))
	}
	return nil
}

func (d *Database) put(ctx context.Context, conn *sql.Conn, rows *contents.Rows, show contents.Progress) error {
	if _, err := d.version(ctx, conn); err != nil {
		return fmt.Errorf("%w (placement-manage db sync makes the tables)", err)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit there is nothing to undo
	adapted, err := d.adapt(ctx, tx, rows)
	if err != nil {
		return err
	}
	total, done := uint64(count(adapted)), uint64(0)
	for statement := range Statements(adapted, d.kind) {
		result, err := tx.ExecContext(ctx, statement)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err == nil && strings.HasPrefix(statement, "INSERT") {
			done += uint64(n)
		}
		if show != nil && done > 0 {
			show(done, total)
		}
	}
	if done != total {
		return fmt.Errorf("%d rows were to be written, and the database took %d", total, done)
	}
	return tx.Commit()
}

func count(rows *contents.Rows) (n int) {
	for _, table := range tables(rows) {
		n += table.rows()
	}
	return n
}

// adapt refuses a database with contents, and gives classes and traits the ids that the database has for them.
func (d *Database) adapt(ctx context.Context, tx *sql.Tx, rows *contents.Rows) (*contents.Rows, error) {
	for _, table := range tables(rows) {
		if table.name == contents.Classes || table.name == contents.Traits {
			continue
		}
		var n int64
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM "+string(table.name)).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			return nil, fmt.Errorf("%w: %s has %d rows. Name an empty database, with the tables that placement-manage db sync makes",
				ErrOccupied, table.name, n)
		}
	}
	adapted := *rows
	classes, err := known(ctx, tx, contents.Classes, &adapted.Classes, len(rows.Classes))
	if err != nil {
		return nil, err
	}
	traits, err := known(ctx, tx, contents.Traits, &adapted.Traits, len(rows.Traits))
	if err != nil {
		return nil, err
	}
	adapted.Inventories = changed(rows.Inventories, func(r *contents.InventoryRow) *int64 { return &r.Class }, classes)
	adapted.Allocations = changed(rows.Allocations, func(r *contents.AllocationRow) *int64 { return &r.Class }, classes)
	adapted.ProviderTraits = changed(rows.ProviderTraits, func(r *contents.PairRow) *int64 { return &r.Other }, traits)
	return &adapted, nil
}

// known takes names that a database has out of a list, and returns the ids in the
// database by those in the list. A new name whose id is taken gets another one.
func known(
	ctx context.Context, tx *sql.Tx, table contents.Table, list *[]contents.NameRow, size int,
) (ids map[int64]int64, err error) {
	found, err := tx.QueryContext(ctx, "SELECT id, name FROM "+string(table))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	there, taken, next := make(map[string]int64), make(map[int64]bool), int64(0)
	for found.Next() {
		var row contents.NameRow
		if err := found.Scan(&row.ID, &row.Name); err != nil {
			return nil, err
		}
		there[row.Name], taken[row.ID], next = row.ID, true, max(next, row.ID+1)
	}
	for _, row := range *list {
		next = max(next, row.ID+1)
	}
	ids = make(map[int64]int64, size)
	var added []contents.NameRow
	for _, row := range *list {
		id, has := there[row.Name]
		switch {
		case has:
		case taken[row.ID]:
			id, next = next, next+1
			added = append(added, contents.NameRow{ID: id, Name: row.Name})
		default:
			id = row.ID
			added = append(added, row)
		}
		ids[row.ID] = id
	}
	*list = added
	return ids, found.Err()
}

func changed[R any](rows []R, reference func(*R) *int64, ids map[int64]int64) []R {
	rows = slices.Clone(rows)
	for i := range rows {
		id := reference(&rows[i])
		*id = ids[*id]
	}
	return rows
}
