// Package placementdb reads the database of a Placement, whole and as of one moment. It changes nothing there.
package placementdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

// Read reads everything in one read-only transaction.
func (d *Database) Read(ctx context.Context, show contents.Progress) (*contents.Rows, error) {
	rows := &contents.Rows{Kind: "placement", Source: d.name, ReadAt: time.Now().UnixNano()}
	return rows, d.At(ctx, show, func(m *Moment) (err error) {
		if rows.Schema, err = d.version(ctx, m.conn); err != nil {
			return err
		}
		known := tables(rows)
		if !hasTypes(rows.Schema) {
			known = slices.DeleteFunc(known, func(t table) bool { return t.name == contents.Types })
		}
		for _, t := range known {
			n, err := m.Count(string(t.name))
			if err != nil {
				return err
			}
			m.Total += n
		}
		for _, t := range known {
			if err := m.readAll(t, hasTypes(rows.Schema)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Moment) readAll(t table, types bool) error {
	columns := t.columns
	if i := slices.Index(columns, "consumer_type_id"); i >= 0 && !types {
		columns = slices.Replace(slices.Clone(columns), i, i+1, "NULL")
	}
	return m.Each(string(t.name), columns, t.order(), func(row *Record) {
		for i, into := range t.add() {
			row.read(columns[i], into)
		}
	})
}

// At calls read in one read-only transaction. No error shows a password.
func (d *Database) At(ctx context.Context, show contents.Progress, read func(*Moment) error) error {
	err := connected(ctx, d.open, func(conn *sql.Conn) error {
		if err := d.transaction(ctx, conn); err != nil {
			return err
		}
		if err := read(&Moment{ctx: ctx, conn: conn, of: d, show: show}); err != nil {
			return explain(err)
		}
		_, err := conn.ExecContext(ctx, "ROLLBACK")
		return explain(err)
	})
	if err != nil {
		return d.plain(fmt.Errorf("read %s: %w", d.name, err))
	}
	return nil
}

// connected does something on a connection of its own.
func connected(ctx context.Context, open func() (*sql.DB, error), do func(*sql.Conn) error) (err error) {
	db, err := open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return do(conn)
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

// table is a table of Placement's, and the rows that are read from it or written into it.
type table struct {
	name    contents.Table
	columns []string
	rows    func() int
	row     func(i int) []any  // pointers to the values in the columns
	add     func() []any       // one more row
	made    func(i int) moment // when a row was made, which is written, but not read; nil: it is among the columns
}

// order is that in which rows are read: by their ids, or, of a table without ids, by all.
func (t table) order() string {
	if t.columns[0] == "id" {
		return "id"
	}
	return strings.Join(t.columns, ", ")
}

// Kinds of values beside numbers and texts: a text that is empty if it is null, and a time in Unix
// nanoseconds, of which 0 is null.
type (
	orEmpty string
	moment  int64
)

func tableOf[R any](name contents.Table, columns string, list *[]R, fields func(*R) []any) table {
	return table{
		name: name, columns: strings.Split(columns, ", "), rows: func() int { return len(*list) },
		row: func(i int) []any { return fields(&(*list)[i]) },
		add: func() []any {
			*list = append(*list, *new(R))
			return fields(&(*list)[len(*list)-1])
		},
	}
}

// tables are all tables, in an order in which references exist when they are used.
func tables(rows *contents.Rows) []table {
	names := func(name contents.Table, column string, list *[]contents.NameRow) table {
		t := tableOf(name, "id, "+column, list, func(n *contents.NameRow) []any { return []any{&n.ID, &n.Name} })
		t.made = func(i int) moment { return moment((*list)[i].Created) }
		return t
	}
	pairs := func(name contents.Table, column string, list *[]contents.PairRow) table {
		t := tableOf(name, "resource_provider_id, "+column, list, func(p *contents.PairRow) []any {
			return []any{&p.Provider, &p.Other}
		})
		t.made = func(int) moment { return 0 }
		return t
	}
	timed := func(t *contents.Times, values ...any) []any {
		return append(values, (*moment)(&t.Created), (*moment)(&t.Updated))
	}
	const times = ", created_at, updated_at"
	return []table{
		names(contents.Classes, "name", &rows.Classes), names(contents.Traits, "name", &rows.Traits),
		names(contents.Projects, "external_id", &rows.Projects), names(contents.Users, "external_id", &rows.Users),
		names(contents.Types, "name", &rows.Types), names(contents.Aggregates, "uuid", &rows.Aggregates),
		tableOf(contents.Providers, "id, uuid, name, generation, root_provider_id, parent_provider_id"+times,
			&rows.Providers, func(p *contents.ProviderRow) []any {
				return timed(&p.Times, &p.ID, &p.UUID, (*orEmpty)(&p.Name), &p.Generation, &p.Root, &p.Parent)
			}),
		tableOf(contents.Inventories, "id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, "+
			"step_size, allocation_ratio"+times, &rows.Inventories, func(v *contents.InventoryRow) []any {
			return timed(&v.Times, &v.ID, &v.Provider, &v.Class, &v.Total, &v.Reserved, &v.MinUnit, &v.MaxUnit,
				&v.StepSize, &v.Ratio)
		}),
		pairs(contents.ProviderTraits, "trait_id", &rows.ProviderTraits),
		pairs(contents.ProviderAggregates, "aggregate_id", &rows.ProviderAggregates),
		tableOf(contents.Consumers, "id, uuid, project_id, user_id, consumer_type_id, generation"+times,
			&rows.Consumers, func(c *contents.ConsumerRow) []any {
				return timed(&c.Times, &c.ID, &c.UUID, &c.Project, &c.User, &c.Type, &c.Generation)
			}),
		tableOf(contents.Allocations, "id, resource_provider_id, consumer_id, resource_class_id, used"+times,
			&rows.Allocations, func(a *contents.AllocationRow) []any {
				return timed(&a.Times, &a.ID, &a.Provider, &a.Consumer, &a.Class, &a.Used)
			}),
	}
}
