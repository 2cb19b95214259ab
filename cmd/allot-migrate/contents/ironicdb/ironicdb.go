// Package ironicdb reads the database of an Ironic, whole and as of one moment. It
// changes nothing there.
//
// Releases of Ironic add columns, and the versions of their schemas are no sequence
// that a program could know ahead. So the columns count, not the version: those
// that a ledger needs have to be there, those that it keeps are read, and all others
// are named.
package ironicdb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
)

// ErrSchema means that a database does not hold an Ironic's tables as they are known.
var ErrSchema = errors.New("the database is not that of an Ironic that can be read")

// needed are the columns of the tables that are read. All releases since Stein, which
// brought allocations, have them.
var needed = map[string][]string{
	"chassis": {"id", "uuid", "extra", "description", "created_at", "updated_at"},
	"nodes": {
		"id", "uuid", "instance_uuid", "name", "chassis_id", "power_state", "provision_state", "provision_updated_at",
		"instance_info", "properties", "driver", "driver_info", "resource_class", "maintenance", "maintenance_reason",
		"extra",
		"protected", "owner", "allocation_id", "created_at", "updated_at",
	},
	"node_traits": {"node_id", "trait"},
	"allocations": {
		"id", "uuid", "name", "node_id", "state", "owner", "last_error", "resource_class", "traits", "candidate_nodes",
		"extra",
		"created_at", "updated_at",
	},
}

// Columns of nodes that not all releases have: texts, flags and a document that a
// ledger keeps under their names.
var (
	detailTexts = []string{
		"bios_interface", "boot_interface", "conductor_group", "console_interface", "deploy_interface", "description",
		"firmware_interface", "inspect_interface", "management_interface", "network_interface", "power_interface",
		"protected_reason", "raid_interface", "rescue_interface", "retired_reason", "shard", "storage_interface",
		"vendor_interface",
	}
	detailFlags = []string{"automated_clean", "retired"}
	otherKept   = []string{"lessee", "parent_node", "network_data"}
)

// unkept are the columns for which a ledger has no place: what Ironic's conductors do
// with a node, and what they know of its hardware.
var unkept = map[string][]string{
	"chassis": {"version"},
	"nodes": {
		"version", "target_power_state", "target_provision_state", "last_error", "driver_internal_info", "clean_step",
		"deploy_step", "service_step", "raid_config", "target_raid_config", "reservation", "conductor_affinity", "fault",
		"console_enabled", "inspection_finished_at", "inspection_started_at", "boot_mode", "secure_boot", "disable_power_off",
	},
	"node_traits": {"version", "created_at", "updated_at"},
	"allocations": {"version", "conductor_affinity"},
}

// uncounted are tables whose rows are no contents: what Ironic's services tell each
// other, and versions.
var uncounted = []string{"alembic_version", "conductors", "conductor_hardware_interfaces", "sqlite_sequence"}

// Read reads everything in one read-only transaction.
func Read(ctx context.Context, db *placementdb.Database, show placementdb.Progress) (*contents.Rows, error) {
	r := &reader{ctx: ctx, show: show, has: make(map[string][]string), rows: &contents.Rows{
		Kind: "ironic", Source: db.Name(), ReadAt: time.Now().UnixNano(),
	}}
	return r.rows, db.At(ctx, func(m *placementdb.Moment) error {
		r.conn = m.Conn
		if err := r.schema(m); err != nil {
			return err
		}
		for _, step := range []func() error{r.chassis, r.nodes, r.traits, r.allocations} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

// reader reads tables in a transaction.
type reader struct {
	ctx         context.Context
	conn        *sql.Conn
	rows        *contents.Rows
	show        placementdb.Progress
	has         map[string][]string // columns by table
	done, total uint64
}

// schema checks the tables and their columns.
func (r *reader) schema(m *placementdb.Moment) error {
	tables, err := m.Tables(r.ctx)
	if err != nil {
		return err
	}
	for _, table := range []string{"chassis", "nodes", "node_traits", "allocations"} {
		if !slices.Contains(tables, table) {
			return fmt.Errorf("%w: it has no table %s. Name the database of [database] connection in ironic.conf; "+
				"ironic-dbsync upgrade brings one from before Stein up to date", ErrSchema, table)
		}
		if r.has[table], err = m.Columns(r.ctx, table); err != nil {
			return err
		}
		if err := r.check(table); err != nil {
			return err
		}
	}
	if !slices.Contains(tables, "alembic_version") {
		return fmt.Errorf("%w: it has no table alembic_version", ErrSchema)
	}
	if err := r.conn.QueryRowContext(r.ctx, "SELECT version_num FROM alembic_version").Scan(&r.rows.Schema); err != nil {
		return fmt.Errorf("%w: alembic_version: %w", ErrSchema, err)
	}
	return r.count(tables)
}

// check compares the columns of a table with those that are known.
func (r *reader) check(table string) error {
	var missing, lost, unknown []string
	for _, column := range needed[table] {
		if !slices.Contains(r.has[table], column) {
			missing = append(missing, column)
		}
	}
	if missing != nil {
		return fmt.Errorf("%w: the table %s has no column %s", ErrSchema, table, strings.Join(missing, ", "))
	}
	kept := needed[table]
	if table == "nodes" {
		kept = slices.Concat(kept, detailTexts, detailFlags, otherKept)
	}
	for _, column := range r.has[table] {
		switch {
		case slices.Contains(kept, column):
		case slices.Contains(unkept[table], column):
			lost = append(lost, column)
		default:
			unknown = append(unknown, column)
		}
	}
	if lost != nil {
		r.rows.Unkept = append(r.rows.Unkept, fmt.Sprintf("%s: %s", table, strings.Join(lost, ", ")))
	}
	if unknown != nil {
		r.rows.Unkept = append(r.rows.Unkept, fmt.Sprintf("%s: %s, which this Allot does not know", table,
			strings.Join(unknown, ", ")))
	}
	return nil
}

// count counts the rows of all tables.
func (r *reader) count(tables []string) error {
	for _, table := range slices.Sorted(slices.Values(tables)) {
		if slices.Contains(uncounted, table) {
			continue
		}
		var n uint64
		if err := r.conn.QueryRowContext(r.ctx, "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
			return fmt.Errorf("%s: %w", table, err)
		}
		if _, read := needed[table]; read {
			r.total += n
		} else {
			r.rows.Others = append(r.rows.Others, contents.TableCount{Table: contents.Table(table), Rows: n})
		}
	}
	return nil
}

// record is a row, by its columns. A text that is null is empty.
type record map[string]sql.RawBytes

func (c record) text(column string) string { return string(c[column]) }

func (c record) set(column string) bool { return c[column] != nil }

// each reads the rows of a table, all columns that it has.
func (r *reader) each(table, order string, take func(record) error) (err error) {
	kept := slices.Clone(needed[table])
	if table == "nodes" {
		for _, column := range slices.Concat(detailTexts, detailFlags, otherKept) {
			if slices.Contains(r.has[table], column) {
				kept = append(kept, column)
			}
		}
	}
	rows, err := r.conn.QueryContext(r.ctx, "SELECT "+strings.Join(kept, ", ")+" FROM "+table+" ORDER BY "+order)
	if err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values, raw := make([]any, len(kept)), make([]sql.RawBytes, len(kept))
	for i := range values {
		values[i] = &raw[i]
	}
	row := make(record, len(kept))
	for n := 1; rows.Next(); n++ {
		err := rows.Scan(values...)
		if err == nil {
			for i, column := range kept {
				row[column] = raw[i]
			}
			err = take(row)
		}
		if err != nil {
			return fmt.Errorf("%s, row %d by %s: %w", table, n, order, err)
		}
		if r.done++; r.show != nil && r.done%1000 == 0 {
			r.show(r.done, r.total)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", table, err)
	}
	return nil
}

// columns reads the values of a row, and keeps the first fault.
type columns struct {
	record
	err error
}

func (c *columns) fail(column, what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %.80q is no %s", column, c.text(column), what)
	}
}

func (c *columns) number(column string) contents.Optional {
	if !c.set(column) {
		return contents.Optional{}
	}
	var n int64
	if _, err := fmt.Sscanf(c.text(column), "%d", &n); err != nil {
		c.fail(column, "number")
	}
	return contents.Some(n)
}

// flag reads a truth, in the forms of the three databases.
func (c *columns) flag(column string) bool {
	switch c.text(column) {
	case "", "0", "f", "false":
		return false
	case "1", "t", "true":
		return true
	}
	c.fail(column, "truth")
	return false
}

func (c *columns) at(column string) int64 {
	t, err := placementdb.ParseTime(sql.NullString{String: c.text(column), Valid: c.set(column)})
	if err != nil {
		c.fail(column, "time")
	}
	return t
}

func (c *columns) times() contents.Times {
	return contents.Times{Created: c.at("created_at"), Updated: c.at("updated_at")}
}

// texts reads a list of texts that is stored as JSON.
func (c *columns) texts(column string) (list []string) {
	if text := c.text(column); text != "" && json.Unmarshal([]byte(text), &list) != nil {
		c.fail(column, "list of texts")
	}
	return list
}

func (r *reader) chassis() error {
	return r.each("chassis", "id", func(row record) error {
		c := columns{record: row}
		r.rows.Chassis = append(r.rows.Chassis, contents.ChassisRow{
			ID: c.number("id").Value, UUID: c.text("uuid"), Description: c.text("description"), Extra: c.text("extra"),
			Times: c.times(),
		})
		return c.err
	})
}

func (r *reader) nodes() error {
	return r.each("nodes", "id", func(row record) error {
		c := columns{record: row}
		r.rows.Nodes = append(r.rows.Nodes, contents.NodeRow{
			ID: c.number("id").Value, UUID: c.text("uuid"), Name: c.text("name"), Instance: c.text("instance_uuid"),
			Parent: c.text("parent_node"), Chassis: c.number("chassis_id"), Allocation: c.number("allocation_id"),
			Driver: c.text("driver"), ResourceClass: c.text("resource_class"), Owner: c.text("owner"), Lessee: c.text("lessee"),
			ProvisionState: c.text("provision_state"), PowerState: c.text("power_state"),
			Maintenance: c.flag("maintenance"), MaintenanceReason: c.text("maintenance_reason"), Protected: c.flag("protected"),
			Properties: c.text("properties"), Extra: c.text("extra"), DriverInfo: c.text("driver_info"),
			InstanceInfo: c.text("instance_info"), Details: c.details(), ProvisionUpdated: c.at("provision_updated_at"),
			Times: c.times(),
		})
		return c.err
	})
}

// details are the fields of a node that a ledger only stores.
func (c *columns) details() map[string]any {
	details := make(map[string]any)
	for _, column := range detailTexts {
		if c.set(column) {
			details[column] = c.text(column)
		}
	}
	if c.set("automated_clean") {
		details["automated_clean"] = c.flag("automated_clean")
	}
	if c.flag("retired") {
		details["retired"] = true
	}
	var network map[string]any
	if text := c.text("network_data"); text != "" && json.Unmarshal([]byte(text), &network) != nil {
		c.fail("network_data", "JSON object")
	}
	if len(network) > 0 {
		details["network_data"] = network
	}
	return details
}

func (r *reader) traits() error {
	return r.each("node_traits", "node_id, trait", func(row record) error {
		c := columns{record: row}
		r.rows.NodeTraits = append(r.rows.NodeTraits, contents.NodeTraitRow{Node: c.number("node_id").Value,
			Trait: c.text("trait")})
		return c.err
	})
}

func (r *reader) allocations() error {
	return r.each("allocations", "id", func(row record) error {
		c := columns{record: row}
		r.rows.NodeAllocations = append(r.rows.NodeAllocations, contents.NodeAllocationRow{
			ID: c.number("id").Value, UUID: c.text("uuid"), Name: c.text("name"), Node: c.number("node_id"),
			State: c.text("state"),
			Owner: c.text("owner"), LastError: c.text("last_error"), ResourceClass: c.text("resource_class"),
			Traits: c.texts("traits"), Candidates: c.texts("candidate_nodes"), Extra: c.text("extra"), Times: c.times(),
		})
		return c.err
	})
}
