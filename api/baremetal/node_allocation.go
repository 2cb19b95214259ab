package baremetal

import (
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// ofNode finds a node's allocation. missing is the status for a missing node,
// which differs between Ironic's methods.
func (r allocations) ofNode(missing int) func() (*ledger.NodeAllocation, error) {
	return func() (*ledger.NodeAllocation, error) {
		n, err := r.findNode(r.ident)
		if err != nil {
			return nil, err
		}
		if n == nil {
			return nil, nodeNotFound(missing, r.ident)
		}
		a, found, err := r.allocationByID(n.Allocation)
		if err == nil && !found {
			err = rest.NotFound("Allocation for node %s was not found", r.ident)
		}
		return a, err
	}
}
