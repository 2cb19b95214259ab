package placementdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

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
			return t.UnixNano()
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
