package wire

import "github.com/allot-project/allot/ledger"

// NodeQuery asks for a bare metal node by its uuid or its name.
type NodeQuery struct {
	When
	Node ledger.UUID `json:"node,omitzero"`
	Name string      `json:"name,omitempty"`
}

// Node is a bare metal node, as its operator declares it.
type Node struct {
	Node ledger.UUID `json:"node"`
	ledger.NodeDescription
	Instance          *ledger.UUID `json:"instance,omitempty"`
	Allocation        *ledger.UUID `json:"allocation,omitempty"`
	ProvisionState    string       `json:"provision_state"`
	PowerState        string       `json:"power_state,omitempty"` // absent: unknown
	Maintenance       bool         `json:"maintenance"`
	MaintenanceReason string       `json:"maintenance_reason,omitempty"`
	Traits            []string     `json:"traits"`
	Since             string       `json:"since"`             // RFC 3339
	Changed           string       `json:"changed,omitempty"` // RFC 3339; time of the last change
}

// NodeAllocationQuery asks for the allocation of a whole node by its uuid or its
// name.
type NodeAllocationQuery struct {
	When
	Allocation ledger.UUID `json:"allocation,omitzero"`
	Name       string      `json:"name,omitempty"`
}

// NodeAllocation is a request for one whole node, and its outcome.
type NodeAllocation struct {
	Allocation     ledger.UUID     `json:"allocation"`
	Name           string          `json:"name,omitempty"`
	ResourceClass  string          `json:"resource_class,omitempty"`
	Owner          string          `json:"owner,omitempty"`
	Traits         []string        `json:"traits"`
	CandidateNodes []ledger.UUID   `json:"candidate_nodes"`
	Extra          ledger.Document `json:"extra"`
	State          string          `json:"state"` // allocating, active or error
	LastError      string          `json:"last_error,omitempty"`
	Node           *ledger.UUID    `json:"node,omitempty"`
	Since          string          `json:"since"`             // RFC 3339
	Changed        string          `json:"changed,omitempty"` // RFC 3339; time of the last change
}

// ChassisQuery asks for a chassis by its uuid.
type ChassisQuery struct {
	When
	Chassis ledger.UUID `json:"chassis"`
}

// Chassis is an enclosure of nodes, as its operator declares it.
type Chassis struct {
	Chassis ledger.UUID `json:"chassis"`
	ledger.ChassisDescription
	Since   string `json:"since"`             // RFC 3339
	Changed string `json:"changed,omitempty"` // RFC 3339; time of the last change
}
