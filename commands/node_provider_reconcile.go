package commands

import (
	"fmt"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// maxListedConflicts bounds how many conflicts the text of a rejection lists.
const maxListedConflicts = 50

// reconcileNodes compares nodes and consumers, which changed without each other
// while node providers were off. It returns the consumers of node allocations
// that are gone, or a rejection that lists the nodes with two owners.
func reconcileNodes(s *ledger.State) (stale []ledger.UUID, rejection *demand.Rejection) {
	r := reconciliation{s: s, others: make(map[ledger.UUID][]*ledger.Consumer)}
	s.Consumers(func(c *ledger.Consumer) bool { r.consumer(c); return true })
	s.Nodes(func(n *ledger.Node) bool { r.node(n); return true })
	if r.conflicts == nil {
		return r.stale, nil
	}
	listed := r.conflicts[:min(len(r.conflicts), maxListedConflicts)]
	text := strings.Join(listed, "; ")
	if more := len(r.conflicts) - len(listed); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return nil, &demand.Rejection{
		Code: demand.CodeProviderInUse, Facts: demand.Facts{Names: listed},
		Message: fmt.Sprintf("%d nodes have two owners, or a provider that is something else: %s. "+
			"Release one of the two, in Placement or in Ironic, while node providers are off", len(r.conflicts), text),
	}
}

type reconciliation struct {
	s         *ledger.State
	stale     []ledger.UUID
	others    map[ledger.UUID][]*ledger.Consumer // by node: the consumer that holds its provider and is not its allocation
	conflicts []string
}

// consumer examines one consumer. It is the allocation of a node, or stale
// because its allocation is gone, or it conflicts with the owner of a node.
func (r *reconciliation) consumer(c *ledger.Consumer) {
	a, isAllocation := r.s.NodeAllocation(c.UUID)
	isAllocation = isAllocation && !a.Node.IsNil()
	if isAllocation && len(c.Allocations) == 1 && r.isNodes(c.Allocations[0], a.Node) {
		return
	}
	if len(c.Allocations) == 1 && c.Owner.Type == nodeConsumerType && c.Owner.User == noOwner {
		r.stale = append(r.stale, c.UUID)
		return
	}
	if isAllocation {
		r.conflicts = append(
			r.conflicts,
			fmt.Sprintf("consumer %s, which would be the allocation of node %s, holds other resources", c.UUID, a.Node),
		)
		return
	}
	for _, held := range c.Allocations {
		others := r.others[held.Provider]
		noted := len(others) > 0 && others[len(others)-1] == c // through another class of the same provider
		if _, isNode := r.s.Node(held.Provider); isNode && !noted {
			r.others[held.Provider] = append(others, c)
		}
	}
}

// isNodes reports whether an allocation is of a whole node.
func (r *reconciliation) isNodes(held ledger.Allocation, node ledger.UUID) bool {
	n, exists := r.s.Node(node)
	return exists && held.Provider == node && held.Amount == 1 &&
		r.s.Classes().Name(held.Class) == NodeClassName(n.ResourceClass)
}

// node checks whether a node can be a provider.
func (r *reconciliation) node(n *ledger.Node) {
	if _, exists := r.s.Provider(n.UUID); !exists {
		if other, taken := r.s.ProviderNamed(n.UUID.String()); taken {
			r.conflicts = append(r.conflicts, fmt.Sprintf("provider %s has the name that node %s needs", other, n.UUID))
		}
	}
	for i, c := range r.others[n.UUID] {
		switch {
		case !n.Allocation.IsNil():
			r.conflict(n, c, "allocation", n.Allocation)
		case !n.Instance.IsNil() && n.Instance != c.UUID:
			r.conflict(n, c, "instance", n.Instance)
		case i > 0:
			r.conflict(n, c, "consumer", r.others[n.UUID][0].UUID)
		default:
			r.wholeNode(n, c)
		}
	}
}

func (r *reconciliation) conflict(n *ledger.Node, c *ledger.Consumer, what string, owner ledger.UUID) {
	r.conflicts = append(
		r.conflicts, fmt.Sprintf("node %s has %s %s, and consumer %s in Placement", n.UUID, what, owner, c.UUID),
	)
}

// wholeNode requires a consumer to hold a node as one of its class.
func (r *reconciliation) wholeNode(n *ledger.Node, c *ledger.Consumer) {
	for _, held := range c.Allocations {
		if held.Provider == n.UUID && !r.isNodes(held, n.UUID) {
			r.conflicts = append(r.conflicts, fmt.Sprintf("consumer %s holds %d %s of node %s, which is one of %s",
				c.UUID, held.Amount, r.s.Classes().Name(held.Class), n.UUID, NodeClassName(n.ResourceClass)))
		}
	}
}
