package contents

import (
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Rows are the contents of a source, in the tables of Placement's database and of
// Ironic's. Ids are those of the source, and refer to rows of the other tables.
type Rows struct {
	Kind   string // what was read: "placement", "ironic", "jsonl"
	Source string // which one, without credentials
	Schema string // the version of its schema
	ReadAt int64  // Unix nanoseconds

	// Untold are the things that the source cannot tell, in words.
	Untold []string
	// Unkept are the things that a ledger has no place for, in words.
	Unkept []string

	Providers          []ProviderRow
	Inventories        []InventoryRow
	Allocations        []AllocationRow
	Consumers          []ConsumerRow
	Projects           []NameRow
	Users              []NameRow
	Types              []NameRow
	Classes            []NameRow
	Traits             []NameRow
	Aggregates         []NameRow
	ProviderTraits     []PairRow
	ProviderAggregates []PairRow
	Unseen             []UnseenRow

	Chassis         []ChassisRow
	Nodes           []NodeRow
	NodeTraits      []NodeTraitRow
	NodeAllocations []NodeAllocationRow
	// Others are tables of which a ledger holds nothing.
	Others []TableCount

	// Where names a row for people; nil: "TABLE.id=ID".
	Where func(table Table, id int64) string
}

// Progress is called while contents are read or written. The total is that of what is known to be
// there, so it may rise.
type Progress func(done, total uint64)

// Table is a table of the source.
type Table string

// The tables.
const (
	Providers          Table = "resource_providers"
	Inventories        Table = "inventories"
	Allocations        Table = "allocations"
	Consumers          Table = "consumers"
	Projects           Table = "projects"
	Users              Table = "users"
	Types              Table = "consumer_types"
	Classes            Table = "resource_classes"
	Traits             Table = "traits"
	Aggregates         Table = "placement_aggregates"
	ProviderTraits     Table = "resource_provider_traits"
	ProviderAggregates Table = "resource_provider_aggregates"
	Unseen             Table = "usages" // those that are more than the allocations that are shown

	Chassis         Table = "chassis"
	Nodes           Table = "nodes"
	NodeTraits      Table = "node_traits"
	NodeAllocations Table = "node allocations" // Ironic calls it allocations, as Placement calls another one
)

// Optional is a number that may be null.
type Optional struct {
	Value int64
	Set   bool
}

// Some returns an Optional with a value.
func Some(value int64) Optional { return Optional{Value: value, Set: true} }

// Times are when a row was made and changed, in Unix nanoseconds; 0: null.
type Times struct{ Created, Updated int64 }

// ProviderRow is a resource provider. Parent and Root are ids of rows.
type ProviderRow struct {
	ID         int64
	UUID       string
	Name       string // "": null
	Generation Optional
	Parent     Optional
	Root       Optional
	Times
	Counters []ledger.Counter
	Draws    []ledger.DrawRecord
}

// InventoryRow is an inventory of one class.
type InventoryRow struct {
	ID, Provider, Class                         int64
	Total, Reserved, MinUnit, MaxUnit, StepSize int64
	Ratio                                       float64
	Times
}

// AllocationRow is an amount of a class that a consumer holds of a provider.
type AllocationRow struct {
	ID, Provider, Class int64
	Consumer            string // its uuid, as text
	Used                int64
	Times
}

// ConsumerRow is a consumer. Project, User and Type are ids of rows.
type ConsumerRow struct {
	ID                  int64
	UUID                string
	Project, User, Type Optional
	Generation          Optional
	Times
}

// NameRow is a row that gives a name an id.
type NameRow struct {
	ID      int64
	Name    string
	Created int64 // Unix nanoseconds; 0: unknown
}

// ChassisRow is a chassis of Ironic.
type ChassisRow struct {
	ID                       int64
	UUID, Description, Extra string // Extra is JSON; "": null
	Times
}

// NodeRow is a node of Ironic. Chassis and Allocation are ids of rows. A text that is null is empty.
type NodeRow struct {
	ID                                          int64
	UUID, Name, Instance, Parent                string
	Chassis, Allocation                         Optional
	Driver, ResourceClass, Owner, Lessee        string
	ProvisionState, PowerState                  string
	Maintenance, Protected                      bool
	MaintenanceReason                           string
	Properties, Extra, DriverInfo, InstanceInfo string // JSON
	// Details are other fields, by Ironic's names: texts, bools and objects.
	Details          map[string]any
	ProvisionUpdated int64 // Unix nanoseconds; 0: null
	Times
}

// NodeTexts are the fields of a node, by Ironic's names, that not all releases have and that are
// texts which a ledger only stores.
var NodeTexts = []string{
	"bios_interface", "boot_interface", "conductor_group", "console_interface", "deploy_interface", "description",
	"firmware_interface", "inspect_interface", "management_interface", "network_interface", "power_interface",
	"protected_reason", "raid_interface", "rescue_interface", "retired_reason", "shard", "storage_interface",
	"vendor_interface",
}

// NodeTraitRow says that a node has a trait.
type NodeTraitRow struct {
	Node  int64
	Trait string
}

// NodeAllocationRow is an allocation of Ironic. Node is the id of a row.
type NodeAllocationRow struct {
	ID                                                 int64
	UUID, Name, State, Owner, LastError, ResourceClass string
	Node                                               Optional
	Traits, Candidates                                 []string
	Extra                                              string // JSON
	Times
}

// PairRow says that a provider has a trait, or is in an aggregate.
type PairRow struct{ Provider, Other int64 }

// UnseenRow is a usage of a class of a provider that is more than the sum of the allocations that are shown.
type UnseenRow struct{ ID, Provider, Class, Used, Seen int64 }

// where names a row. Rows of tables without ids are named by their place, from 1.
func (r *Rows) where(table Table, id int64) string {
	if r.Where != nil {
		return r.Where(table, id)
	}
	switch table {
	case NodeAllocations:
		return fmt.Sprintf("allocations.id=%d", id)
	case ProviderTraits, ProviderAggregates, NodeTraits:
		return fmt.Sprintf("%s row %d", table, id)
	}
	return fmt.Sprintf("%s.id=%d", table, id)
}

// TableCount is the number of rows of a table.
type TableCount struct {
	Table Table  `json:"table"`
	Rows  uint64 `json:"rows"`
}

// Counts returns the number of rows of each table.
func (r *Rows) Counts() []TableCount {
	return slices.DeleteFunc(append([]TableCount{
		{Providers, uint64(len(r.Providers))}, {Inventories, uint64(len(r.Inventories))},
		{Allocations, uint64(len(r.Allocations))}, {Consumers, uint64(len(r.Consumers))},
		{Projects, uint64(len(r.Projects))}, {Users, uint64(len(r.Users))}, {Types, uint64(len(r.Types))},
		{Classes, uint64(len(r.Classes))}, {Traits, uint64(len(r.Traits))}, {Aggregates, uint64(len(r.Aggregates))},
		{ProviderTraits, uint64(len(r.ProviderTraits))}, {ProviderAggregates, uint64(len(r.ProviderAggregates))},
		{Unseen, uint64(len(r.Unseen))},
		{Chassis, uint64(len(r.Chassis))}, {Nodes, uint64(len(r.Nodes))}, {NodeTraits, uint64(len(r.NodeTraits))},
		{NodeAllocations, uint64(len(r.NodeAllocations))},
	}, r.Others...), func(c TableCount) bool { return c.Rows == 0 })
}

// IDs gives names ids, which count from 1 in each table, in the order in which names are first met.
type IDs struct{ tables map[Table]*idsOf }

type idsOf struct {
	ids   map[string]int64
	names []string
}

func (n *IDs) of(table Table) *idsOf {
	if n.tables == nil {
		n.tables = make(map[Table]*idsOf)
	}
	if n.tables[table] == nil {
		n.tables[table] = &idsOf{ids: make(map[string]int64)}
	}
	return n.tables[table]
}

// ID returns the id of a name, and whether the name is met for the first time.
func (n *IDs) ID(table Table, name string) (id int64, first bool) {
	t := n.of(table)
	id, known := t.ids[name]
	if !known {
		t.names = append(t.names, name)
		id = int64(len(t.names))
		t.ids[name] = id
	}
	return id, !known
}

// Named is ID for a table whose rows are names. A new one is added to them.
func (n *IDs) Named(table Table, rows *[]NameRow, name string) int64 {
	id, first := n.ID(table, name)
	if first {
		*rows = append(*rows, NameRow{ID: id, Name: name})
	}
	return id
}

// Name returns the name of an id.
func (n *IDs) Name(table Table, id int64) (string, bool) {
	names := n.of(table).names
	if id < 1 || id > int64(len(names)) {
		return "", false
	}
	return names[id-1], true
}
