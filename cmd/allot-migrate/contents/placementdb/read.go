// Package placementdb reads the database of a Placement, whole and as of one
// moment. It changes nothing there.
package placementdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

// Progress is called while rows are read.
type Progress func(done, total uint64)

// Read reads everything in one read-only transaction.
func (d *Database) Read(ctx context.Context, show Progress) (rows *contents.Rows, err error) {
	err = d.At(ctx, func(m *Moment) error {
		r := &reader{ctx: ctx, conn: m.Conn, show: show, rows: &contents.Rows{
			Kind: "placement", Source: d.name, ReadAt: time.Now().UnixNano(),
		}}
		rows = r.rows
		if r.rows.Schema, err = d.version(ctx, m.Conn); err != nil {
			return err
		}
		if err := r.count(); err != nil {
			return err
		}
		return r.readAll(hasTypes(r.rows.Schema))
	})
	return rows, err
}

// Moment is a database as of one moment, read only.
type Moment struct {
	Conn *sql.Conn
	of   *Database
}

// At calls read in one read-only transaction. No error shows a password.
func (d *Database) At(ctx context.Context, read func(*Moment) error) (err error) {
	defer func() {
		if err != nil {
			err = d.plain(fmt.Errorf("read %s: %w", d.name, err))
		}
	}()
	db, err := d.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := d.transaction(ctx, conn); err != nil {
		return err
	}
	if err := read(&Moment{conn, d}); err != nil {
		return explain(err)
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	return explain(err)
}

// explain says so if the connection was lost: drivers have many words for it.
func explain(err error) error {
	var network net.Error
	var postgres *pgconn.PgError
	lost := errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) ||
		errors.As(err, &postgres) && strings.HasPrefix(postgres.Code, adminShutdown)
	if !lost {
		return err
	}
	return fmt.Errorf("the connection was lost, because the database or the network between has failed; do it again when both work: %w", err)
}

// adminShutdown is the class of PostgreSQL's errors for a server that ends.
const adminShutdown = "57P"

// Tables lists the tables of the database. One that can change in the middle is an
// error.
func (m *Moment) Tables(ctx context.Context) ([]string, error) {
	tables, err := m.of.tables(ctx, m.Conn)
	if err != nil {
		return nil, err
	}
	return tables, m.of.transactional(ctx, m.Conn)
}

// Columns lists the columns of a table.
func (m *Moment) Columns(ctx context.Context, table string) (names []string, err error) {
	rows, err := m.Conn.QueryContext(ctx, "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if names, err = rows.Columns(); err != nil {
		return nil, err
	}
	return names, rows.Err()
}

// reader reads tables in a transaction.
type reader struct {
	ctx         context.Context
	conn        *sql.Conn
	rows        *contents.Rows
	show        Progress
	done, total uint64
	consumer    string // the last one; its rows often stand together
}

func (r *reader) count() error {
	for _, table := range []contents.Table{
		contents.Providers, contents.Inventories, contents.Allocations, contents.Consumers,
	} {
		var n uint64
		if err := r.conn.QueryRowContext(r.ctx, "SELECT COUNT(*) FROM "+string(table)).Scan(&n); err != nil {
			return err
		}
		r.total += n
	}
	return nil
}

func (r *reader) readAll(types bool) error {
	steps := []func() error{r.providers, r.inventories, r.allocations, func() error { return r.consumers(types) }}
	for _, table := range []struct {
		name   contents.Table
		column string
		into   *[]contents.NameRow
	}{
		{contents.Projects, "external_id", &r.rows.Projects}, {contents.Users, "external_id", &r.rows.Users},
		{contents.Classes, "name", &r.rows.Classes}, {contents.Traits, "name", &r.rows.Traits},
		{contents.Aggregates, "uuid", &r.rows.Aggregates}, {contents.Types, "name", &r.rows.Types},
	} {
		if table.name != contents.Types || types {
			steps = append(steps, func() error { return r.names(table.name, table.column, table.into) })
		}
	}
	steps = append(steps,
		func() error { return r.pairs(contents.ProviderTraits, "trait_id", &r.rows.ProviderTraits) },
		func() error { return r.pairs(contents.ProviderAggregates, "aggregate_id", &r.rows.ProviderAggregates) })
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// each reads the rows of a table. The first value of a row names it in errors.
func (r *reader) each(table contents.Table, columns, order string, values []any, take func() error) (err error) {
	rows, err := r.conn.QueryContext(r.ctx, "SELECT "+columns+" FROM "+string(table)+" ORDER BY "+order)
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for n := 1; rows.Next(); n++ {
		err := rows.Scan(values...)
		if err == nil {
			err = take()
		}
		if err != nil {
			return fmt.Errorf("%s, row %d by %s: %w", table, n, order, err)
		}
		if r.done++; r.show != nil && r.done%1000 == 0 {
			r.show(min(r.done, r.total), r.total)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	return nil
}

// timeColumns are the columns that every table has.
const timeColumns = ", created_at, updated_at"

// times are the values of timeColumns.
type times struct{ created, updated sql.NullString }

func (t *times) read() (contents.Times, error) {
	created, err := ParseTime(t.created)
	if err != nil {
		return contents.Times{}, err
	}
	updated, err := ParseTime(t.updated)
	return contents.Times{Created: created, Updated: updated}, err
}

// ParseTime reads a time in UTC. MySQL's zero date is none.
func ParseTime(text sql.NullString) (int64, error) {
	if !text.Valid || text.String == "" || strings.HasPrefix(text.String, "0000-00-00") {
		return 0, nil
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999", time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700 MST",
	} {
		if t, err := time.Parse(layout, text.String); err == nil {
			return t.UnixNano(), nil
		}
	}
	return 0, fmt.Errorf("%q is no time", text.String)
}

func optional(n sql.NullInt64) contents.Optional {
	return contents.Optional{Value: n.Int64, Set: n.Valid}
}

func (r *reader) providers() error {
	var row contents.ProviderRow
	var name sql.NullString
	var generation, parent, root sql.NullInt64
	var t times
	return r.each(contents.Providers,
		"id, uuid, name, generation, root_provider_id, parent_provider_id"+timeColumns, "id",
		[]any{&row.ID, &row.UUID, &name, &generation, &root, &parent, &t.created, &t.updated},
		func() (err error) {
			row.Name, row.Generation, row.Parent, row.Root = name.String, optional(generation), optional(parent), optional(root)
			row.Times, err = t.read()
			r.rows.Providers = append(r.rows.Providers, row)
			return err
		})
}

func (r *reader) inventories() error {
	var row contents.InventoryRow
	var t times
	return r.each(contents.Inventories,
		"id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio"+timeColumns,
		"id", []any{
			&row.ID, &row.Provider, &row.Class, &row.Total, &row.Reserved, &row.MinUnit, &row.MaxUnit, &row.StepSize, &row.Ratio,
			&t.created, &t.updated,
		},
		func() (err error) {
			row.Times, err = t.read()
			r.rows.Inventories = append(r.rows.Inventories, row)
			return err
		})
}

func (r *reader) allocations() error {
	var row contents.AllocationRow
	var consumer sql.RawBytes
	var t times
	return r.each(contents.Allocations, "id, resource_provider_id, resource_class_id, consumer_id, used"+timeColumns, "id",
		[]any{&row.ID, &row.Provider, &row.Class, &consumer, &row.Used, &t.created, &t.updated},
		func() (err error) {
			if string(consumer) != r.consumer {
				r.consumer = string(consumer)
			}
			row.Consumer = r.consumer
			row.Times, err = t.read()
			r.rows.Allocations = append(r.rows.Allocations, row)
			return err
		})
}

func (r *reader) consumers(types bool) error {
	column := "NULL"
	if types {
		column = "consumer_type_id"
	}
	var row contents.ConsumerRow
	var project, user, of, generation sql.NullInt64
	var t times
	return r.each(contents.Consumers, "id, uuid, project_id, user_id, generation, "+column+timeColumns, "id",
		[]any{&row.ID, &row.UUID, &project, &user, &generation, &of, &t.created, &t.updated},
		func() (err error) {
			row.Project, row.User = optional(project), optional(user)
			row.Type, row.Generation = optional(of), optional(generation)
			row.Times, err = t.read()
			r.rows.Consumers = append(r.rows.Consumers, row)
			return err
		})
}

func (r *reader) names(table contents.Table, column string, into *[]contents.NameRow) error {
	var row contents.NameRow
	return r.each(table, "id, "+column, "id", []any{&row.ID, &row.Name}, func() error {
		*into = append(*into, row)
		return nil
	})
}

func (r *reader) pairs(table contents.Table, column string, into *[]contents.PairRow) error {
	var row contents.PairRow
	both := "resource_provider_id, " + column
	return r.each(table, both, both, []any{&row.Provider, &row.Other},
		func() error {
			*into = append(*into, row)
			return nil
		})
}
