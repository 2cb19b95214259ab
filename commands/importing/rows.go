package importing

import (
	"fmt"
	"slices"
)

// Rows are the contents of a source, in the tables of Placement's database.
// Ids are those of the source, and refer to rows of the other tables.
type Rows struct {
	Kind   string // what was read: "placement", "jsonl"
	Source string // which one, without credentials
	Schema string // the version of its schema
	ReadAt int64  // Unix nanoseconds

	// Untold are the things that the source cannot tell, in words.
	Untold []string

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

	// Where names a row for people; nil: "TABLE.id=ID".
	Where func(table Table, id int64) string
}

// Table is a table of Placement's database.
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
	ID   int64
	Name string
}

// PairRow says that a provider has a trait, or is in an aggregate.
type PairRow struct{ Provider, Other int64 }

// where names a row. Rows of tables without ids are named by their place, from 1.
func (r *Rows) where(table Table, id int64) string {
	if r.Where != nil {
		return r.Where(table, id)
	}
	if table == ProviderTraits || table == ProviderAggregates {
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
	return slices.DeleteFunc([]TableCount{
		{Providers, uint64(len(r.Providers))}, {Inventories, uint64(len(r.Inventories))},
		{Allocations, uint64(len(r.Allocations))}, {Consumers, uint64(len(r.Consumers))},
		{Projects, uint64(len(r.Projects))}, {Users, uint64(len(r.Users))}, {Types, uint64(len(r.Types))},
		{Classes, uint64(len(r.Classes))}, {Traits, uint64(len(r.Traits))}, {Aggregates, uint64(len(r.Aggregates))},
		{ProviderTraits, uint64(len(r.ProviderTraits))}, {ProviderAggregates, uint64(len(r.ProviderAggregates))},
	}, func(c TableCount) bool { return c.Rows == 0 })
}
