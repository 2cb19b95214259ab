// Package ironicdbtest makes Ironic databases for tests.
package ironicdbtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Version is the version of the schema: Ironic 21.4, of 2023.1.
const Version = "4dbec778866e"

// schema has the columns of Ironic 21.4 of the tables that are read, and of two others,
// in types that all databases know. Foreign keys and unique keys are left out, so that
// rows can be as odd as they are found.
const schema = `
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL);
CREATE TABLE chassis (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36), extra TEXT,
  description VARCHAR(255));
CREATE TABLE conductors (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, hostname VARCHAR(255));
CREATE TABLE nodes (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36), instance_uuid VARCHAR(36),
  name VARCHAR(255), chassis_id INTEGER, power_state VARCHAR(15), target_power_state VARCHAR(15),
  provision_state VARCHAR(15), target_provision_state VARCHAR(15), provision_updated_at TIMETYPE, last_error TEXT,
  instance_info TEXT, properties TEXT, driver VARCHAR(255), driver_info TEXT, driver_internal_info TEXT,
  clean_step TEXT,
  deploy_step TEXT, resource_class VARCHAR(80), raid_config TEXT, target_raid_config TEXT, reservation VARCHAR(255),
  conductor_affinity INTEGER, conductor_group VARCHAR(255) DEFAULT '' NOT NULL, maintenance BOOLEAN,
  maintenance_reason TEXT, fault VARCHAR(255), console_enabled BOOLEAN, inspection_finished_at TIMETYPE,
  inspection_started_at TIMETYPE, extra TEXT, automated_clean BOOLEAN, protected BOOLEAN DEFAULT FALSE NOT NULL,
  protected_reason TEXT, owner VARCHAR(255), lessee VARCHAR(255), allocation_id INTEGER, description TEXT,
  bios_interface VARCHAR(255), boot_interface VARCHAR(255), console_interface VARCHAR(255),
  deploy_interface VARCHAR(255),
  inspect_interface VARCHAR(255), management_interface VARCHAR(255), network_interface VARCHAR(255),
  raid_interface VARCHAR(255), rescue_interface VARCHAR(255), retired BOOLEAN, retired_reason TEXT, network_data TEXT,
  storage_interface VARCHAR(255), power_interface VARCHAR(255), vendor_interface VARCHAR(255), boot_mode VARCHAR(16),
  secure_boot BOOLEAN, shard VARCHAR(255));
CREATE TABLE node_traits (TIMES, version VARCHAR(15), node_id INTEGER NOT NULL, trait VARCHAR(255) NOT NULL);
CREATE TABLE ports (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36), address VARCHAR(18));
CREATE TABLE allocations (TIMES, version VARCHAR(15), id INTEGER PRIMARY KEY, uuid VARCHAR(36) NOT NULL,
name VARCHAR(255),
  node_id INTEGER, state VARCHAR(15) NOT NULL, owner VARCHAR(255), last_error TEXT, resource_class VARCHAR(80),
  traits TEXT,
  candidate_nodes TEXT, extra TEXT, conductor_affinity INTEGER);
INSERT INTO alembic_version VALUES ('4dbec778866e');
`

// Uuids of the world.
const (
	Rack   = "11111111-aaaa-4111-8111-111111111111"
	Taken  = "22222222-aaaa-4222-8222-222222222222"
	Idle   = "33333333-aaaa-4333-8333-333333333333"
	Held   = "44444444-aaaa-4444-8444-444444444444"
	Failed = "55555555-aaaa-4555-8555-555555555555"
)

// World is a chassis with a node that an allocation has, and a free node. It can be put
// into a database that Ironic made, too.
const World = `
INSERT INTO chassis (created_at, id, uuid, extra, description) VALUES
  ('2024-01-01 00:00:00', 1, '` + Rack + `', '{"row": 4}', 'rack');
INSERT INTO nodes (created_at, updated_at, provision_updated_at, id, uuid, instance_uuid, name, chassis_id, power_state,
  provision_state, instance_info, properties, driver, driver_info, resource_class, maintenance, maintenance_reason,
  extra,
  automated_clean, protected, owner, lessee, conductor_group, description, boot_interface, retired, network_data) VALUES
  ('2024-01-02 00:00:00', '2024-02-01 10:11:12', '2024-01-03 00:00:00', 1, '` + Taken + `', '` + Held + `', 'node-1', 1,
   'power on', 'active', '{"capabilities": "x"}', '{"cpus": 4}', 'ipmi',
   '{"ipmi_username": "root", "ipmi_password": "bmc-s3cret"}', 'baremetal', TRUE, 'fan', '{}', FALSE, FALSE, 'p',
   'q', 'east',
   'a node', 'ipxe', TRUE, '{"links": [1]}'),
  ('2024-01-02 00:00:00', NULL, NULL, 2, '` + Idle + `', NULL, NULL, NULL, 'power off', 'available', NULL, NULL, 'ipmi', NULL,
   'baremetal', FALSE, NULL, NULL, NULL, FALSE, NULL, NULL, '', NULL, NULL, FALSE, NULL);
INSERT INTO node_traits (node_id, trait) VALUES (1, 'HW_CPU_X86_VMX'), (1, 'CUSTOM_GOLD');
INSERT INTO allocations (created_at, updated_at, id, uuid, name, node_id, state, owner, last_error, resource_class,
traits,
  candidate_nodes, extra) VALUES
  ('2024-01-03 00:00:00', '2024-01-03 00:00:01', 1, '` + Held + `', 'a-1', 1, 'active', 'p', NULL, 'baremetal',
   '["CUSTOM_GOLD"]', '["` + Taken + `"]', '{"k": "v"}'),
  ('2024-01-04 00:00:00', NULL, 2, '` + Failed + `', NULL, NULL, 'error', NULL, 'no node', 'none', '[]', '[]', NULL);
UPDATE nodes SET allocation_id = 1 WHERE id = 1;
INSERT INTO ports (id, uuid, address) VALUES (1, '66666666-aaaa-4666-8666-666666666666', '52:54:00:00:00:01');
`

// Rows are those of World, as they are read.
func Rows() *contents.Rows {
	on := placementdbtest.On
	some := contents.Some
	return &contents.Rows{
		Chassis: []contents.ChassisRow{{
			ID: 1, UUID: Rack, Description: "rack", Extra: `{"row": 4}`,
			Times: contents.Times{Created: on("2024-01-01 00:00:00")},
		}},
		Nodes: []contents.NodeRow{
			{
				ID: 1, UUID: Taken, Name: "node-1", Instance: Held, Chassis: some(1), Allocation: some(1),
				Driver: "ipmi", ResourceClass: "baremetal", Owner: "p", Lessee: "q", ProvisionState: "active",
				PowerState: "power on", Maintenance: true, MaintenanceReason: "fan", Properties: `{"cpus": 4}`, Extra: "{}",
				DriverInfo: `{"ipmi_username": "root", "ipmi_password": "bmc-s3cret"}`, InstanceInfo: `{"capabilities": "x"}`,
				Details: map[string]any{
					"automated_clean": false, "boot_interface": "ipxe", "conductor_group": "east", "description": "a node",
					"network_data": map[string]any{"links": []any{1.0}}, "retired": true,
				},
				ProvisionUpdated: on("2024-01-03 00:00:00"),
				Times:            contents.Times{Created: on("2024-01-02 00:00:00"), Updated: on("2024-02-01 10:11:12")},
			},
			{
				ID: 2, UUID: Idle, Driver: "ipmi", ResourceClass: "baremetal", ProvisionState: "available",
				PowerState: "power off", Details: map[string]any{}, Times: contents.Times{Created: on("2024-01-02 00:00:00")},
			},
		},
		NodeTraits: []contents.NodeTraitRow{{Node: 1, Trait: "CUSTOM_GOLD"}, {Node: 1, Trait: "HW_CPU_X86_VMX"}},
		NodeAllocations: []contents.NodeAllocationRow{
			{
				ID: 1, UUID: Held, Name: "a-1", Node: some(1), State: "active", Owner: "p", ResourceClass: "baremetal",
				Traits: []string{"CUSTOM_GOLD"}, Candidates: []string{Taken}, Extra: `{"k": "v"}`,
				Times: contents.Times{Created: on("2024-01-03 00:00:00"), Updated: on("2024-01-03 00:00:01")},
			},
			{
				ID: 2, UUID: Failed, State: "error", LastError: "no node", ResourceClass: "none", Traits: []string{},
				Candidates: []string{}, Times: contents.Times{Created: on("2024-01-04 00:00:00")},
			},
		},
	}
}

// Statements returns the schema and the world. timeType is the database's type of times.
func Statements(timeType string) []string {
	tables := strings.ReplaceAll(schema, "TIMES", "created_at TIMETYPE, updated_at TIMETYPE")
	return placementdbtest.Split(strings.ReplaceAll(tables, "TIMETYPE", timeType) + World)
}

// SQLite makes a database with the world and more, and returns its path.
func SQLite(t testing.TB, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ironic.db")
	placementdbtest.FillFile(t, path, append(Statements("DATETIME"), more...)...)
	return path
}

// Sync makes the tables of the Ironic that is installed, in a database with an address as
// SQLAlchemy has it. It skips the test where Ironic is not installed.
func Sync(t testing.TB, connection string) (config string) {
	t.Helper()
	if _, err := exec.LookPath("ironic-dbsync"); err != nil {
		t.Skip("skipped: OpenStack Ironic is not installed: apt-get install ironic-common")
	}
	config = filepath.Join(t.TempDir(), "ironic.conf")
	text := fmt.Sprintf("[DEFAULT]\nhost = test\n[database]\nconnection = %s\n", connection)
	ledgertest.OK(t, os.WriteFile(config, []byte(text), 0o600))
	launchtest.Output(t, exec.Command("ironic-dbsync", "--config-file", config, "create_schema"))
	return config
}
