// Package placementdb reads the database of a Placement, whole and as of one moment. It changes nothing there.
package placementdb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/ledger"
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

// Moment is a database as of one moment, read only.
type Moment struct {
	ctx  context.Context // of the transaction
	conn *sql.Conn
	of   *Database
	show contents.Progress
	// Total is how many rows there are to read, as far as that is known.
	Total, done uint64
}

// Tables lists the tables of the database. One that can change in the middle is an error.
func (m *Moment) Tables() ([]string, error) {
	tables, err := m.of.tables(m.ctx, m.conn)
	if err != nil {
		return nil, err
	}
	return tables, m.of.transactional(m.ctx, m.conn)
}

// Columns lists the columns of a table.
func (m *Moment) Columns(table string) (names []string, err error) {
	rows, err := m.conn.QueryContext(m.ctx, "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if names, err = rows.Columns(); err != nil {
		return nil, err
	}
	return names, rows.Err()
}

// Versions returns the versions of the schema that alembic has noted.
func (m *Moment) Versions() ([]string, error) {
	return texts(m.ctx, m.conn, "SELECT version_num FROM alembic_version")
}

// Count counts the rows of a table.
func (m *Moment) Count(table string) (n uint64, err error) {
	if err := m.conn.QueryRowContext(m.ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", table, err)
	}
	return n, nil
}

// Each reads some columns of the rows of a table. A value that cannot be read is an error,
// which names the row by its place in the order.
func (m *Moment) Each(table string, columns []string, order string, take func(*Record)) (err error) {
	rows, err := m.conn.QueryContext(m.ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+table+" ORDER BY "+order)
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := &Record{values: make(map[string]*sql.RawBytes, len(columns)), texts: make(map[string]string)}
	into := make([]any, len(columns))
	for i, column := range columns {
		value := new(sql.RawBytes)
		row.values[column], into[i] = value, value
	}
	for n := 1; rows.Next(); n++ {
		err := rows.Scan(into...)
		if err == nil {
			take(row)
			err = row.err
		}
		if err != nil {
			return fmt.Errorf("%s, row %d by %s: %w", table, n, order, err)
		}
		if m.done++; m.show != nil && m.done%1000 == 0 {
			m.show(min(m.done, m.Total), m.Total)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	return nil
}

// Record is a row, by its columns. It keeps its first fault. A column that was not read is null.
type Record struct {
	values map[string]*sql.RawBytes
	texts  map[string]string // those of the row before, which often are the same
	err    error
}

func (r *Record) fail(column, what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %.80q is no %s", column, r.Text(column), what)
	}
}

// IsSet reports whether a value is not null.
func (r *Record) IsSet(column string) bool {
	value := r.values[column]
	return value != nil && *value != nil
}

// Text reads a text. One that is null is empty.
func (r *Record) Text(column string) string {
	if !r.IsSet(column) {
		return ""
	}
	if value := *r.values[column]; r.texts[column] != string(value) {
		r.texts[column] = string(value)
	}
	return r.texts[column]
}

func (r *Record) needed(column string) string {
	if !r.IsSet(column) {
		r.fail(column, "text")
	}
	return r.Text(column)
}

// Number reads a number that must not be null.
func (r *Record) Number(column string) int64 {
	n, err := strconv.ParseInt(r.Text(column), 10, 64)
	if err != nil {
		r.fail(column, "number")
	}
	return n
}

// Optional reads a number that may be null.
func (r *Record) Optional(column string) contents.Optional {
	if !r.IsSet(column) {
		return contents.Optional{}
	}
	return contents.Some(r.Number(column))
}

// Flag reads a truth, in the forms of the three databases.
func (r *Record) Flag(column string) bool {
	switch r.Text(column) {
	case "", "0", "f", "false":
		return false
	case "1", "t", "true":
		return true
	}
	r.fail(column, "truth")
	return false
}

// JSON reads a document into a value. A text that is empty leaves the value as it is.
func (r *Record) JSON(column, what string, into any) {
	if text := r.Text(column); text != "" && json.Unmarshal([]byte(text), into) != nil {
		r.fail(column, what)
	}
}

// Time reads a time in UTC, in Unix nanoseconds; 0: null. MySQL's zero date is none.
func (r *Record) Time(column string) int64 {
	text := r.Text(column)
	if text == "" || strings.HasPrefix(text, "0000-00-00") {
		return 0
	}
	for _, layout := range []string{
		"2006-01-02 15:04:05.999999999", time.RFC3339Nano, "2006-01-02 15:04:05.999999999 -0700 MST",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			if n, counted := ledger.Nanoseconds(t); counted {
				return n
			}
		}
	}
	r.fail(column, "time")
	return 0
}

// Times reads when a row was made and changed.
func (r *Record) Times() contents.Times {
	return contents.Times{Created: r.Time("created_at"), Updated: r.Time("updated_at")}
}

func (r *Record) read(column string, into any) {
	switch into := into.(type) {
	case *int64:
		*into = r.Number(column)
	case *float64:
		var err error
		if *into, err = strconv.ParseFloat(r.Text(column), 64); err != nil {
			r.fail(column, "number")
		}
	case *string:
		*into = r.needed(column)
	case *orEmpty:
		*into = orEmpty(r.Text(column))
	case *contents.Optional:
		*into = r.Optional(column)
	case *moment:
		*into = moment(r.Time(column))
	}
}
