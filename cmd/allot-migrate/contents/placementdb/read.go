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
	err = d.At(ctx, show, func(m *Moment) error {
		r := &reader{Moment: m, rows: &contents.Rows{Kind: "placement", Source: d.name, ReadAt: time.Now().UnixNano()}}
		rows = r.rows
		if r.rows.Schema, err = d.version(ctx, m.conn); err != nil {
			return err
		}
		for _, table := range []contents.Table{
			contents.Providers, contents.Inventories, contents.Allocations, contents.Consumers,
		} {
			n, err := m.Count(string(table))
			if err != nil {
				return err
			}
			m.Total += n
		}
		return r.readAll(hasTypes(r.rows.Schema))
	})
	return rows, err
}

// At calls read in one read-only transaction. No error shows a password.
func (d *Database) At(ctx context.Context, show Progress, read func(*Moment) error) (err error) {
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

// reader reads tables in a transaction.
type reader struct {
	*Moment
	rows     *contents.Rows
	consumer string // the last one; its rows often stand together
}

func (r *reader) readAll(types bool) error {
	steps := []func() error{r.providers, r.inventories, r.allocations, r.consumers(types)}
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

// withTimes are columns, and those that every table has.
func withTimes(columns ...string) []string { return append(columns, "created_at", "updated_at") }

func (r *reader) providers() error {
	columns := withTimes("id", "uuid", "name", "generation", "root_provider_id", "parent_provider_id")
	return r.Each(string(contents.Providers), columns, "id", func(row *Record) {
		r.rows.Providers = append(r.rows.Providers, contents.ProviderRow{
			ID: row.Number("id"), UUID: row.Needed("uuid"), Name: row.Text("name"), Generation: row.Optional("generation"),
			Root: row.Optional("root_provider_id"), Parent: row.Optional("parent_provider_id"), Times: row.Times(),
		})
	})
}

func (r *reader) inventories() error {
	columns := withTimes("id", "resource_provider_id", "resource_class_id", "total", "reserved", "min_unit", "max_unit",
		"step_size", "allocation_ratio")
	return r.Each(string(contents.Inventories), columns, "id", func(row *Record) {
		r.rows.Inventories = append(r.rows.Inventories, contents.InventoryRow{
			ID: row.Number("id"), Provider: row.Number("resource_provider_id"), Class: row.Number("resource_class_id"),
			Total: row.Number("total"), Reserved: row.Number("reserved"), MinUnit: row.Number("min_unit"),
			MaxUnit: row.Number("max_unit"), StepSize: row.Number("step_size"), Ratio: row.Fraction("allocation_ratio"),
			Times: row.Times(),
		})
	})
}

func (r *reader) allocations() error {
	columns := withTimes("id", "resource_provider_id", "resource_class_id", "consumer_id", "used")
	return r.Each(string(contents.Allocations), columns, "id", func(row *Record) {
		if consumer := row.Needed("consumer_id"); consumer != r.consumer {
			r.consumer = consumer
		}
		r.rows.Allocations = append(r.rows.Allocations, contents.AllocationRow{
			ID: row.Number("id"), Provider: row.Number("resource_provider_id"), Class: row.Number("resource_class_id"),
			Consumer: r.consumer, Used: row.Number("used"), Times: row.Times(),
		})
	})
}

func (r *reader) consumers(types bool) func() error {
	columns := withTimes("id", "uuid", "project_id", "user_id", "generation")
	if types {
		columns = append(columns, "consumer_type_id")
	}
	return func() error {
		return r.Each(string(contents.Consumers), columns, "id", func(row *Record) {
			r.rows.Consumers = append(r.rows.Consumers, contents.ConsumerRow{
				ID: row.Number("id"), UUID: row.Needed("uuid"), Project: row.Optional("project_id"),
				User: row.Optional("user_id"), Type: row.Optional("consumer_type_id"), Generation: row.Optional("generation"),
				Times: row.Times(),
			})
		})
	}
}

func (r *reader) names(table contents.Table, column string, into *[]contents.NameRow) error {
	return r.Each(string(table), []string{"id", column}, "id", func(row *Record) {
		*into = append(*into, contents.NameRow{ID: row.Number("id"), Name: row.Needed(column)})
	})
}

func (r *reader) pairs(table contents.Table, column string, into *[]contents.PairRow) error {
	columns := []string{"resource_provider_id", column}
	return r.Each(string(table), columns, strings.Join(columns, ", "), func(row *Record) {
		*into = append(*into, contents.PairRow{Provider: row.Number("resource_provider_id"), Other: row.Number(column)})
	})
}
