// Package ironicdb reads the database of an Ironic, whole and as of one moment. It
// changes nothing there.
//
// Releases of Ironic add columns, and the versions of their schemas are no sequence
// that a program could know ahead. So the columns count, not the version: those
// that a ledger needs have to be there, those that it keeps are read, and all others
// are named.
package ironicdb

import (
	"cmp"
	"context"
	"database/sql"
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
	"chassis": strings.Fields("id uuid extra description created_at updated_at"),
	"nodes": strings.Fields("id uuid instance_uuid name chassis_id power_state provision_state provision_updated_at " +
		"instance_info properties driver driver_info resource_class maintenance maintenance_reason extra " +
		"protected owner allocation_id created_at updated_at"),
	"node_traits": {"node_id", "trait"},
	"allocations": strings.Fields("id uuid name node_id state owner last_error resource_class traits candidate_nodes extra " +
		"created_at updated_at"),
}

// Columns of nodes that not all releases have: texts, flags and a document that a
// ledger keeps under their names.
var (
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

// uncounted are tables whose rows are no contents: what Ironic's services tell each other, and versions.
var uncounted = []string{"alembic_version", "conductors", "conductor_hardware_interfaces", "sqlite_sequence"}

// Read reads everything in one read-only transaction.
func Read(ctx context.Context, db *placementdb.Database, show contents.Progress) (*contents.Rows, error) {
	rows := &contents.Rows{Kind: "ironic", Source: db.Name(), ReadAt: time.Now().UnixNano()}
	return rows, db.At(ctx, show, func(m *placementdb.Moment) error {
		r := &reader{Moment: m, has: make(map[string][]string), rows: rows}
		for _, step := range []func() error{r.schema, r.chassis, r.nodes, r.traits, r.allocations} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
}

type reader struct {
	*placementdb.Moment
	rows *contents.Rows
	has  map[string][]string // columns by table
}

func (r *reader) schema() error {
	tables, err := r.Tables()
	if err != nil {
		return err
	}
	for _, table := range []string{"chassis", "nodes", "node_traits", "allocations"} {
		if !slices.Contains(tables, table) {
			return fmt.Errorf("%w: it has no table %s. Name the database of [database] connection in ironic.conf; "+
				"ironic-dbsync upgrade brings one from before Stein up to date", ErrSchema, table)
		}
		if r.has[table], err = r.Columns(table); err != nil {
			return err
		}
		if err := r.check(table); err != nil {
			return err
		}
	}
	if !slices.Contains(tables, "alembic_version") {
		return fmt.Errorf("%w: it has no table alembic_version", ErrSchema)
	}
	versions, err := r.Versions()
	if err != nil || len(versions) == 0 {
		return fmt.Errorf("%w: alembic_version: %w", ErrSchema, cmp.Or(err, sql.ErrNoRows))
	}
	r.rows.Schema = versions[0]
	return r.count(tables)
}

// kept are the columns of a table that are read if it has them.
func kept(table string) []string {
	if table == "nodes" {
		return slices.Concat(needed[table], contents.NodeTexts, detailFlags, otherKept)
	}
	return slices.Clone(needed[table])
}

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
	kept := kept(table)
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

func (r *reader) count(tables []string) error {
	for _, table := range slices.Sorted(slices.Values(tables)) {
		if slices.Contains(uncounted, table) {
			continue
		}
		n, err := r.Count(table)
		if err != nil {
			return err
		}
		if _, read := needed[table]; read {
			r.Total += n
		} else {
			r.rows.Others = append(r.rows.Others, contents.TableCount{Table: contents.Table(table), Rows: n})
		}
	}
	return nil
}

// each reads the rows of a table, all columns that it has of those that are kept.
func (r *reader) each(table, order string, take func(*placementdb.Record)) error {
	columns := slices.DeleteFunc(kept(table), func(name string) bool { return !slices.Contains(r.has[table], name) })
	return r.Each(table, columns, order, take)
}

func (r *reader) chassis() error {
	return r.each("chassis", "id", func(c *placementdb.Record) {
		r.rows.Chassis = append(r.rows.Chassis, contents.ChassisRow{
			ID: c.Number("id"), UUID: c.Text("uuid"), Description: c.Text("description"), Extra: c.Text("extra"),
			Times: c.Times(),
		})
	})
}

func (r *reader) nodes() error {
	return r.each("nodes", "id", func(c *placementdb.Record) {
		r.rows.Nodes = append(r.rows.Nodes, contents.NodeRow{
			ID: c.Number("id"), UUID: c.Text("uuid"), Name: c.Text("name"), Instance: c.Text("instance_uuid"),
			Parent: c.Text("parent_node"), Chassis: c.Optional("chassis_id"), Allocation: c.Optional("allocation_id"),
			Driver: c.Text("driver"), ResourceClass: c.Text("resource_class"), Owner: c.Text("owner"), Lessee: c.Text("lessee"),
			ProvisionState: c.Text("provision_state"), PowerState: c.Text("power_state"),
			Maintenance: c.Flag("maintenance"), MaintenanceReason: c.Text("maintenance_reason"), Protected: c.Flag("protected"),
			Properties: c.Text("properties"), Extra: c.Text("extra"), DriverInfo: c.Text("driver_info"),
			InstanceInfo: c.Text("instance_info"), Details: details(c), ProvisionUpdated: c.Time("provision_updated_at"),
			Times: c.Times(),
		})
	})
}

// details are the fields of a node that a ledger only stores.
func details(c *placementdb.Record) map[string]any {
	details := make(map[string]any)
	for _, column := range contents.NodeTexts {
		if c.IsSet(column) {
			details[column] = c.Text(column)
		}
	}
	if c.IsSet("automated_clean") {
		details["automated_clean"] = c.Flag("automated_clean")
	}
	if c.Flag("retired") {
		details["retired"] = true
	}
	var network map[string]any
	c.JSON("network_data", "JSON object", &network)
	if len(network) > 0 {
		details["network_data"] = network
	}
	return details
}

func (r *reader) traits() error {
	return r.each("node_traits", "node_id, trait", func(c *placementdb.Record) {
		r.rows.NodeTraits = append(r.rows.NodeTraits, contents.NodeTraitRow{Node: c.Number("node_id"),
			Trait: c.Text("trait")})
	})
}

func (r *reader) allocations() error {
	return r.each("allocations", "id", func(c *placementdb.Record) {
		r.rows.NodeAllocations = append(r.rows.NodeAllocations, contents.NodeAllocationRow{
			ID: c.Number("id"), UUID: c.Text("uuid"), Name: c.Text("name"), Node: c.Optional("node_id"),
			State: c.Text("state"),
			Owner: c.Text("owner"), LastError: c.Text("last_error"), ResourceClass: c.Text("resource_class"),
			Traits: texts(c, "traits"), Candidates: texts(c, "candidate_nodes"), Extra: c.Text("extra"), Times: c.Times(),
		})
	})
}

// texts reads a list of texts that is stored as JSON.
func texts(c *placementdb.Record, column string) (list []string) {
	c.JSON(column, "list of texts", &list)
	return list
}
