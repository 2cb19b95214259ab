package baremetal

import (
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// Every name in a request's path, query or body is looked up here and nowhere
// else. A hidden thing and a missing one both give nil, so the answers to them
// cannot differ. A test checks that the other files of the package look nothing
// up.

func (r *request) seesNode(n *ledger.Node) bool {
	return r.allows("baremetal:node:get", nodeTarget(n))
}

func (r *request) seesAllocation(a *ledger.NodeAllocation) bool {
	return r.allows("baremetal:allocation:get", policy.Target{"allocation.owner": a.Owner})
}

// findNode finds a node by uuid or name; nil if it is missing or hidden.
func (r *request) findNode(ident string) (n *ledger.Node, err error) {
	if id, isUUID := parseUUID(ident); isUUID {
		n, _, err = r.nodeByID(id)
		return n, err
	}
	if !commands.IsIdent(ident) {
		return nil, nil
	}
	n, found, err := r.View.NodeNamed(ident)
	if err != nil || !found || !r.seesNode(n) {
		return nil, err
	}
	return n, nil
}

func (r *request) nodeByID(id ledger.UUID) (*ledger.Node, bool, error) {
	n, found, err := r.View.Node(id)
	if err != nil || !found || !r.seesNode(n) {
		return nil, false, err
	}
	return n, true, nil
}

func (r *request) allocationByID(id ledger.UUID) (*ledger.NodeAllocation, bool, error) {
	a, found, err := r.View.NodeAllocation(id)
	if err != nil || !found || !r.seesAllocation(a) {
		return nil, false, err
	}
	return a, true, nil
}

// lookUp finds an allocation by uuid or name; nil if it is missing or hidden.
func (r allocations) lookUp(ident string) (*ledger.NodeAllocation, error) {
	if id, isUUID := parseUUID(ident); isUUID {
		a, _, err := r.allocationByID(id)
		return a, err
	}
	if !commands.IsIdent(ident) {
		return nil, rest.BadRequest("Expected UUID or name for allocation_ident: %s", ident)
	}
	a, found, err := r.View.NodeAllocationNamed(ident)
	if err != nil || !found || !r.seesAllocation(a) {
		return nil, err
	}
	return a, nil
}

func (r allocations) find() (*ledger.NodeAllocation, error) {
	a, err := r.lookUp(r.ident)
	if base, isSuffixed := strings.CutSuffix(r.ident, ".json"); err == nil && a == nil && isSuffixed &&
		r.version < literalSuffixSince {
		a, err = r.lookUp(base)
	}
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, allocationNotFound(r.ident)
	}
	return a, nil
}

func (r *request) seesChassis() bool { return r.allows("baremetal:chassis:get", nil) }

// chassisByID finds a chassis. Rules about chassis hold for all chassis alike,
// and the caller has checked the one that counts.
func (r *request) chassisByID(id ledger.UUID) (*ledger.Chassis, bool, error) {
	return r.View.Chassis(id)
}

// writtenAllocation reads what the client's own request has just written, as things.written does.
// The client may see that, whatever has become of it.
func (r *request) writtenAllocation(id ledger.UUID) (*ledger.NodeAllocation, bool, error) {
	return r.View.NodeAllocation(id)
}

// writtenNode is writtenAllocation for nodes.
func (r *request) writtenNode(id ledger.UUID) (*ledger.Node, bool, error) { return r.View.Node(id) }

// all are the nodes.
func (r nodes) all() things[ledger.Node] {
	return things[ledger.Node]{
		name: "nodes", keys: nodeKeys, find: r.nodeByID, written: r.writtenNode, each: r.View.Nodes,
		missing:  func(ident string) *rest.Failure { return nodeNotFound(http.StatusNotFound, ident) },
		id:       func(n *ledger.Node) ledger.UUID { return n.UUID },
		number:   func(n *ledger.Node) uint64 { return n.Number },
		fields:   r.fields,
		describe: r.describe,
	}
}

// all are the allocations.
func (r allocations) all() things[ledger.NodeAllocation] {
	return things[ledger.NodeAllocation]{
		name: "allocations", keys: allocationKeys, find: r.allocationByID, written: r.writtenAllocation,
		each: r.View.NodeAllocations, missing: allocationNotFound,
		id:       func(a *ledger.NodeAllocation) ledger.UUID { return a.UUID },
		number:   func(a *ledger.NodeAllocation) uint64 { return a.Number },
		fields:   r.fields,
		describe: r.describe,
	}
}

// all are the chassis.
func (r chassis) all() things[ledger.Chassis] {
	return things[ledger.Chassis]{
		name: "chassis", keys: chassisKeys, find: r.chassisByID, written: r.View.Chassis, each: r.View.AllChassis,
		missing:  func(ident string) *rest.Failure { return chassisNotFound(http.StatusNotFound, ident) },
		id:       func(c *ledger.Chassis) ledger.UUID { return c.UUID },
		number:   func(c *ledger.Chassis) uint64 { return c.Number },
		fields:   r.fields,
		describe: r.describe,
	}
}
