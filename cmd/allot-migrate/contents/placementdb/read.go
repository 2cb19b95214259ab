// Package placementdb reads the database of a Placement, whole and as of one
// moment. It changes nothing there.
package placementdb

import (
	"context"
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
func (d *Database) At(ctx context.Context, show contents.Progress, read func(*Moment) error) (err error) {
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
	if err := read(&Moment{ctx: ctx, conn: conn, of: d, show: show}); err != nil {
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
