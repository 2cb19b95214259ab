package wire

import "github.com/allot-project/allot/ledger"

// ConsumptionQuery asks how much of what was held for how long, from one moment until
// another one: amounts times time, exact to the nanosecond. With a provider it asks how much
// of that one was used, and how much there was. It is about an interval: at has no meaning.
type ConsumptionQuery struct {
	When
	// From and To are moments, as at is; To may be absent: until now. What was so at From
	// counts, and what came to be at To does not.
	From Instant `json:"from"`
	To   Instant `json:"to,omitempty"`
	// By are the keys of the rows, in their order: project, user, type, class, and one of
	// hour, day and month (of UTC); ["class"] if absent. With a provider: provider, class and
	// hour, day or month.
	By []string `json:"by,omitempty"`
	// Project, User, Type and Class narrow it down; whole nodes have the type NODE and no user.
	Project string `json:"project,omitempty"`
	User    string `json:"user,omitempty"`
	Type    string `json:"type,omitempty"`
	Class   string `json:"class,omitempty"`
	// Provider is not together with project, user or type. With Tree the whole tree counts
	// that it is in at To.
	Provider ledger.UUID `json:"provider,omitzero"`
	Tree     bool        `json:"tree,omitempty"`
	// Strict makes an error of a project, provider or class that there never was until To.
	Strict bool `json:"strict,omitempty"`
	// Limit is the number of rows on a page, 1 to 10000, which is the default.
	Limit int `json:"limit,omitempty"`
	// After is next of the page before; with the same To as that one says.
	After string `json:"after,omitempty"`
}

// Consumption is how much was held for how long.
type Consumption struct {
	From     string `json:"from"`     // RFC 3339
	To       string `json:"to"`       // RFC 3339
	Sequence uint64 `json:"sequence"` // of the last commit until To
	// Rows are sorted by their keys, in the order of by. A row of nothing is absent.
	Rows []ConsumptionRow `json:"rows"`
	Next string           `json:"next,omitempty"` // the value of after for the next page
}

// ConsumptionRow is the sum of a group: what has the same keys. It has those of by alone.
type ConsumptionRow struct {
	Project  *string `json:"project,omitempty"`
	User     *string `json:"user,omitempty"`
	Type     *string `json:"type,omitempty"` // unknown: of consumers without one
	Provider *string `json:"provider,omitempty"`
	Class    *string `json:"class,omitempty"` // as it is called at To, or was called last
	Hour     *string `json:"hour,omitempty"`  // its beginning, such as 2026-05-01T13:00:00Z
	Day      *string `json:"day,omitempty"`   // such as 2026-05-01
	Month    *string `json:"month,omitempty"` // such as 2026-05
	// AmountNS is the amount times nanoseconds, in decimal digits. Hours is the amount times
	// hours, with nine digits after the point: the nearest one, or of two that are as near the
	// one away from zero.
	AmountNS string `json:"amount_ns"`
	Hours    string `json:"hours"`
	// Capacity is what there was of a provider's class, (total - reserved) * allocation_ratio
	// in whole units. Idle is capacity less the amount, below 0 where more was used.
	CapacityNS    string `json:"capacity_ns,omitempty"`
	CapacityHours string `json:"capacity_hours,omitempty"`
	IdleNS        string `json:"idle_ns,omitempty"`
	IdleHours     string `json:"idle_hours,omitempty"`
}
