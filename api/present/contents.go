package present

import (
	"time"

	"github.com/allot-project/allot/ledger"
)

// Content is a line of the contents of a ledger: a provider, a consumer, a class or a trait,
// as Kind says. docs/import-jsonl.md describes the fields.
type Content struct {
	Kind       string     `json:"kind"`
	UUID       string     `json:"uuid,omitempty"`
	Name       string     `json:"name,omitempty"`
	CreatedAt  *time.Time `json:"created_at,omitempty"`
	UpdatedAt  *time.Time `json:"updated_at,omitempty"`
	Generation int64      `json:"generation,omitempty"`

	Parent      string      `json:"parent,omitempty"`
	Inventories []Inventory `json:"inventories,omitempty"`
	Traits      []string    `json:"traits,omitempty"`
	Aggregates  []string    `json:"aggregates,omitempty"`

	Counters []ledger.Counter    `json:"counters,omitempty"`
	Draws    []ledger.DrawRecord `json:"draws,omitempty"`

	Project     string       `json:"project,omitempty"`
	User        string       `json:"user,omitempty"`
	Type        string       `json:"type,omitempty"`
	Allocations []Allocation `json:"allocations,omitempty"`

	// Error ends the answer of a server that could not go on.
	Error string `json:"error,omitempty"`
}

// The kinds of lines.
const (
	KindProvider = "provider"
	KindConsumer = "consumer"
	KindClass    = "class"
	KindTrait    = "trait"
)

// Inventory is what a provider has of a class.
type Inventory struct {
	Class     string     `json:"class"`
	Total     *int64     `json:"total"`
	Reserved  int64      `json:"reserved,omitempty"`
	MinUnit   *int64     `json:"min_unit,omitempty"`
	MaxUnit   *int64     `json:"max_unit,omitempty"`
	StepSize  *int64     `json:"step_size,omitempty"`
	Ratio     *float64   `json:"allocation_ratio,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
}

// Allocation is an amount of a class that a consumer holds of a provider.
type Allocation struct {
	Provider string `json:"provider"`
	Class    string `json:"class"`
	Amount   int64  `json:"amount"`
}
