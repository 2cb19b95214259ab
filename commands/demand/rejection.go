// Package demand is what is asked of a ledger, in words: candidates, what is preferred
// about them, the rules of a gang; and the rejection of what cannot be had. It is pure.
package demand

import (
	"fmt"
	"strings"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Code is the kind of a rejection. Codes are part of the API.
type Code string

// The reasons for which a command is not accepted.
const (
	CodeInvalid           Code = "invalid"             // a field is missing or out of range
	CodeTooLarge          Code = "too_large"           // the record would exceed the log's limit
	CodeNotYet            Code = "not_yet"             // a replica of an older release could not read the record
	CodeCommandIDReused   Code = "command_id_reused"   // the id belongs to another command
	CodeProviderNotFound  Code = "provider_not_found"  // the provider that the command is about
	CodeProviderUnknown   Code = "provider_unknown"    // a provider that the command refers to
	CodeProviderExists    Code = "provider_exists"     // name or uuid taken
	CodeProviderInUse     Code = "provider_in_use"     // it has allocations
	CodeProviderHasChild  Code = "provider_has_child"  // it has children
	CodeParentUnknown     Code = "parent_unknown"      //
	CodeParentFixed       Code = "parent_fixed"        // the client did not allow a new parent (below 1.37)
	CodeParentLoop        Code = "parent_loop"         // the parent is the provider or below it
	CodeProviderConflict  Code = "provider_conflict"   // the provider is not at the generation given
	CodeConsumerConflict  Code = "consumer_conflict"   // the consumer is not at the generation given
	CodeConsumerNotFound  Code = "consumer_not_found"  //
	CodeNotReserved       Code = "not_reserved"        // the consumer's allocations are permanent
	CodeNoReservation     Code = "no_reservation"      // none that the project may draw on
	CodeForbidden         Code = "forbidden"           // the client is bound to another project
	CodeClassUnknown      Code = "class_unknown"       //
	CodeClassExists       Code = "class_exists"        //
	CodeClassStandard     Code = "class_standard"      // standard classes cannot change
	CodeClassInUse        Code = "class_in_use"        // some provider has inventory of it
	CodeTraitUnknown      Code = "trait_unknown"       //
	CodeTraitExists       Code = "trait_exists"        //
	CodeTraitStandard     Code = "trait_standard"      // standard traits cannot change
	CodeTraitInUse        Code = "trait_in_use"        // some provider carries it
	CodeInventoryExists   Code = "inventory_exists"    //
	CodeInventoryNotFound Code = "inventory_not_found" //
	CodeInventoryInUse    Code = "inventory_in_use"    // something of it is allocated
	CodeInventoryCapacity Code = "inventory_capacity"  // reserved leaves no capacity
	CodeNoInventory       Code = "no_inventory"        // allocation of a class the provider lacks
	CodeUnitConstraint    Code = "unit_constraint"     // min_unit, max_unit or step_size
	CodeCapacityExceeded  Code = "capacity_exceeded"   // of an inventory, or of a counter that it draws from
	CodeCounterUnknown    Code = "counter_unknown"     // no provider above has it
	CodeCounterInUse      Code = "counter_in_use"      // providers below draw from it

	CodeNodeNotFound           Code = "node_not_found"            // the node that the command is about
	CodeNodeUnknown            Code = "node_unknown"              // a node that the command refers to
	CodeNodeExists             Code = "node_exists"               // name or uuid taken
	CodeNodeAssociated         Code = "node_associated"           // an instance runs on it
	CodeInstanceAssociated     Code = "instance_associated"       // the instance runs on another node
	CodeNodeState              Code = "node_state"                // not possible in its provision state
	CodeNodeAction             Code = "node_action"               // no such verb, or not from this state
	CodeNodeMaintenance        Code = "node_maintenance"          // not possible in maintenance
	CodeNodeProtected          Code = "node_protected"            //
	CodeNodeRetired            Code = "node_retired"              // it cannot become available
	CodeNodeBusy               Code = "node_busy"                 // it changed a moment ago; older versions rejected that
	CodeNodeIsProvider         Code = "node_is_provider"          // Placement's view of a node follows from the node
	CodeNodeTraitNotFound      Code = "node_trait_not_found"      //
	CodeNodeAllocationNotFound Code = "node_allocation_not_found" //
	CodeNodeAllocationExists   Code = "node_allocation_exists"    // name or uuid taken
	CodeChassisNotFound        Code = "chassis_not_found"         // the chassis that the command is about
	CodeChassisUnknown         Code = "chassis_unknown"           // a chassis that the command refers to
	CodeChassisExists          Code = "chassis_exists"            // uuid taken
	CodeChassisNotEmpty        Code = "chassis_not_empty"         // nodes are in it
	CodePatchFailed            Code = "patch_failed"              // an operation refers to a missing member

	CodeOverLimit   Code = "over_limit"   // more than the project, or all in the aggregate, may have
	CodeProjectLoop Code = "project_loop" // the project would be below itself, or too deep

	CodePreferenceUnknown Code = "preference_unknown" // no preference has the name
	CodeTopologyUnknown   Code = "topology_unknown"   // no topology has the name

	CodeNoCandidates Code = "no_candidates" // nothing satisfies the claim
	CodeClaimBudget  Code = "claim_budget"  // whether something does was not found out within the bounds

	CodeClaimOutdated Code = "claim_outdated" // what was found does not fit any more: it is searched again
)

// Facts are the values that a rejection rests on. Fields that do not apply are
// absent.
type Facts struct {
	Field      string       `json:"field,omitempty"`
	Provider   *ledger.UUID `json:"provider,omitempty"`
	Consumer   *ledger.UUID `json:"consumer,omitempty"`
	Node       *ledger.UUID `json:"node,omitempty"`
	Instance   *ledger.UUID `json:"instance,omitempty"`
	Allocation *ledger.UUID `json:"allocation,omitempty"` // of a whole node
	Chassis    *ledger.UUID `json:"chassis,omitempty"`
	State      string       `json:"state,omitempty"` // provision state
	Class      string       `json:"class,omitempty"`
	Classes    []string     `json:"classes,omitempty"`
	Name       string       `json:"name,omitempty"`
	Names      []string     `json:"names,omitempty"`
	Total      int64        `json:"total,omitempty"`
	Reserved   int64        `json:"reserved,omitempty"`
	Ratio      float64      `json:"allocation_ratio,omitempty"`
	Used       int64        `json:"used,omitempty"`
	Asked      int64        `json:"asked,omitempty"`
	MinUnit    int64        `json:"min_unit,omitempty"`
	MaxUnit    int64        `json:"max_unit,omitempty"`
	StepSize   int64        `json:"step_size,omitempty"`
	Expected   *int64       `json:"expected,omitempty"` // the present generation; absent: there is none
	Got        *int64       `json:"got,omitempty"`      // the generation given; absent: null
	SizeBytes  int          `json:"size_bytes,omitempty"`
	LimitBytes int          `json:"limit_bytes,omitempty"`
	Command    *int         `json:"command,omitempty"` // index in a batch, from 0
	Project    string       `json:"project,omitempty"`
	// Aggregate is that whose limit it is.
	Aggregate *ledger.UUID `json:"aggregate,omitempty"`
	// ConsumerType and Limit are of a limit of the project, or of one above it.
	ConsumerType string `json:"consumer_type,omitempty"`
	Limit        *int64 `json:"limit,omitempty"`
	// Explanation says why there are no candidates, as of the commit AsOf.
	Explanation *wanted.Explanation `json:"explanation,omitempty"`
	AsOf        uint64              `json:"as_of,omitempty"`
}

// Rejection is the reason for which a command was not accepted. It is a value,
// not an error: the command was understood, and changed nothing.
type Rejection struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Facts   Facts  `json:"facts"`
	// Beyond is what was found of an alternative that a project's limit is against: another one is searched for.
	Beyond *Found `json:"-"`
}

// String returns code and message.
func (r *Rejection) String() string { return string(r.Code) + ": " + r.Message }

// Refuse is a rejection with a message that is made like fmt.Sprintf's.
func Refuse(code Code, facts Facts, format string, args ...any) *Rejection {
	return &Rejection{Code: code, Message: fmt.Sprintf(format, args...), Facts: facts}
}

// Invalid is the rejection of a field with a value that no command may have.
func Invalid(field, format string, args ...any) *Rejection {
	return &Rejection{Code: CodeInvalid, Message: field + ": " + fmt.Sprintf(format, args...), Facts: Facts{Field: field}}
}

// ClassUnknown is the rejection of a resource class that does not exist.
func ClassUnknown(name string) *Rejection {
	return Refuse(CodeClassUnknown, Facts{Class: name}, "no resource class %s", name)
}

// TraitUnknown is the rejection of traits that do not exist.
func TraitUnknown(names []string) *Rejection {
	return Refuse(CodeTraitUnknown, Facts{Names: names}, "no trait %s", strings.Join(names, ", "))
}

// Redacted is a rejection for a client that may only see what certain projects hold: a
// limit of another project, which may be above several, or of an aggregate, which is of
// no project, is not told with its figures, because what others hold would follow from
// them. Nor is the instance that runs on a node.
func (r *Rejection) Redacted(sees func(project string) bool) *Rejection {
	if r == nil || sees(r.Facts.Project) {
		return r
	}
	if r.Code == CodeCapacityExceeded && r.Facts.Instance != nil {
		facts := r.Facts
		facts.Node, facts.Instance = nil, nil
		return Refuse(r.Code, facts, "%d of %s on provider %s exceeds the capacity: an instance runs on that bare metal node",
			facts.Asked, facts.Class, facts.Provider)
	}
	if r.Code != CodeOverLimit {
		return r
	}
	what := r.Facts.Class
	if r.Facts.ConsumerType != "" {
		what = "consumers of type " + r.Facts.ConsumerType
	}
	whose := "a project above"
	if r.Facts.Aggregate != nil {
		whose = "an aggregate"
	}
	facts := Facts{
		Class: r.Facts.Class, ConsumerType: r.Facts.ConsumerType, Asked: r.Facts.Asked, Command: r.Facts.Command,
	}
	return Refuse(CodeOverLimit, facts, "%d more of %s would be beyond the limit of %s", r.Facts.Asked, what, whose)
}

// OverAggregate says that a limit of an aggregate leaves no room for so many more.
func OverAggregate(classes *ledger.ClassTable, limit *ledger.AggregateLimit, more int64) *Rejection {
	most, aggregate, class := limit.Most, limit.Aggregate, classes.Name(limit.Class)
	return Refuse(
		CodeOverLimit, Facts{Aggregate: &aggregate, Class: class, Limit: &most, Used: limit.Used, Asked: more},
		"%d more of %s would be held in aggregate %s: its limit is %d, and %d are used",
		more, class, aggregate, most, limit.Used,
	)
}
