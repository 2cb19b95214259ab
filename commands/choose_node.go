package commands

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ChooseNode gives a node to an allocation that waits for one, or records that no
// node fits. The allocator submits it, clients cannot. If the allocation no
// longer waits it changes nothing, so submitting it twice is safe.
type ChooseNode struct {
	operatorsOnly `json:"-"`

	Allocation ledger.UUID `json:"allocation"`
	// Seed decides between nodes that are equally good. The record keeps it.
	Seed uint64 `json:"seed"` // not 0
}

func (c *ChooseNode) consumers() []ledger.UUID { return []ledger.UUID{c.Allocation} }

func (c *ChooseNode) check() *demand.Rejection { return checkUUID("allocation", c.Allocation) }

func (c *ChooseNode) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	a, ok := s.NodeAllocation(c.Allocation)
	if !ok || a.State != ledger.NodeAllocating {
		return nil, nil
	}
	if _, taken := s.NodeOfInstance(a.UUID); taken { // whose node, and which, may be another project's
		return []ledger.Event{ledger.AllocationFailed{
			Allocation: a.UUID, LastError: fmt.Sprintf("Instance %s is already associated with a node", a.UUID),
		}}, nil
	}
	if _, consumes := s.Consumer(a.UUID); consumes && s.NodeProviders() {
		return []ledger.Event{ledger.AllocationFailed{
			Allocation: a.UUID, LastError: failedToProcess(a.UUID, "a consumer of the same uuid holds other resources"),
		}}, nil
	}
	choice := nodeChoice{s: s, a: a, class: s.NodesOf(a.ResourceClass), random: rand.New(rand.NewPCG(c.Seed, 0))}
	node := choice.node()
	if node == nil {
		return []ledger.Event{ledger.AllocationFailed{
			Allocation: a.UUID, LastError: failedToProcess(a.UUID, choice.failure()), Exclusions: choice.exclusions(),
		}}, nil
	}
	allocated, rejection := allocate(a.UUID, a.Traits, node)
	var events []ledger.Event
	if rejection == nil {
		allocated.Seed, allocated.Free = c.Seed, uint64(choice.class.Free())
		events, rejection = withNodeProvider(s, node.UUID, []ledger.Event{allocated})
	}
	if rejection == nil {
		rejection = withinLimits(s, events).Redacted(func(project string) bool { return project == a.Owner })
	}
	if rejection != nil {
		// Another try would end in the same way.
		return []ledger.Event{ledger.AllocationFailed{
			Allocation: a.UUID, LastError: fmt.Sprintf("Unexpected exception during allocation: %s", rejection.Message),
		}}, nil
	}
	return events, nil
}

func failedToProcess(id ledger.UUID, why string) string {
	return fmt.Sprintf("Failed to process allocation %s: %s.", id, why)
}

// allocate returns the event that gives a node to an allocation.
func allocate(id ledger.UUID, traits []string, n *ledger.Node) (ledger.NodeAllocated, *demand.Rejection) {
	info, err := n.InstanceInfo.Object()
	if err != nil {
		return ledger.NodeAllocated{}, demand.Invalid("instance_info", "%v", err)
	}
	asked := make([]any, len(traits))
	for i, name := range traits {
		asked[i] = name
	}
	info["traits"] = asked
	doc, err := ledger.NewDocument(info)
	if err != nil {
		return ledger.NodeAllocated{}, demand.Invalid("instance_info", "%v", err)
	}
	return ledger.NodeAllocated{Allocation: id, Node: n.UUID, InstanceInfo: doc}, nil
}

// nodeChoice chooses a node for an allocation among the nodes that satisfy it. It
// takes the node with the allocation's name if there is one, else any node, each
// with the same probability.
type nodeChoice struct {
	s      *ledger.State
	a      *ledger.NodeAllocation
	class  *ledger.NodeClass
	random *rand.Rand

	// How many nodes were left out, for the explanation if none is found.
	suitable                    int // nodes that satisfy everything but the traits
	wrongOwner, traitless, held uint64
	full                        uint64 // by a limit of an aggregate, or a counter
	notNamed                    uint64 // candidates that are not free or not of the class
}

// probes is how many free nodes are tried at random before all are examined.
const probes = 32

func (c *nodeChoice) node() *ledger.Node {
	if named, ok := c.s.NodeNamed(c.a.Name); ok {
		n, _ := c.s.Node(named)
		if c.eligible(n) && c.fits(n) {
			return n
		}
	}
	if len(c.a.CandidateNodes) > 0 {
		return c.candidate()
	}
	free := c.class.Free()
	for range min(probes, free) {
		if n := c.class.FreeNode(c.random.IntN(free)); c.fits(n) {
			return n
		}
	}
	c.suitable, c.wrongOwner, c.traitless, c.held, c.full = 0, 0, 0, 0, 0
	var fitting []*ledger.Node
	c.class.FreeNodes(func(n *ledger.Node) bool {
		if c.fits(n) {
			fitting = append(fitting, n)
		}
		return true
	})
	return c.anyOf(fitting)
}

func (c *nodeChoice) candidate() *ledger.Node {
	c.suitable, c.wrongOwner, c.traitless, c.held, c.full = 0, 0, 0, 0, 0
	var fitting []*ledger.Node
	for _, id := range sortedUnique(c.a.CandidateNodes) {
		n, ok := c.s.Node(id)
		switch {
		case !ok || !c.eligible(n):
			c.notNamed++
		case c.fits(n):
			fitting = append(fitting, n)
		}
	}
	return c.anyOf(fitting)
}

func sortedUnique(ids []ledger.UUID) []ledger.UUID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, ledger.UUID.Compare)
	return slices.Compact(ids)
}

func (c *nodeChoice) anyOf(nodes []*ledger.Node) *ledger.Node {
	if len(nodes) == 0 {
		return nil
	}
	return nodes[c.random.IntN(len(nodes))]
}

// eligible reports whether the node is a permitted candidate, free, and of the
// class.
func (c *nodeChoice) eligible(n *ledger.Node) bool {
	return n.Free() && n.ResourceClass == c.a.ResourceClass &&
		(len(c.a.CandidateNodes) == 0 || slices.Contains(c.a.CandidateNodes, n.UUID))
}

// fits reports whether an eligible node satisfies the rest of the request.
func (c *nodeChoice) fits(n *ledger.Node) bool {
	if c.a.Owner != "" && n.Owner != c.a.Owner && n.Lessee != c.a.Owner {
		c.wrongOwner++
		return false
	}
	if heldByConsumer(c.s, n) {
		c.held++
		return false
	}
	if !c.hasRoom(n) {
		c.full++
		return false
	}
	c.suitable++
	if !n.HasTraits(c.a.Traits) {
		c.traitless++
		return false
	}
	return true
}

// hasRoom reports whether limits of aggregates, and counters, leave a node to the allocation.
func (c *nodeChoice) hasRoom(n *ledger.Node) bool {
	if !c.s.AggregatesLimited() && !c.s.Drawing() {
		return true
	}
	given := []ledger.Event{ledger.NodeAllocated{Allocation: c.a.UUID, Node: n.UUID}}
	events, rejection := withNodeProvider(c.s, n.UUID, given)
	return rejection != nil || roomFor(c.s, events) == nil // what else is against it, the decision tells
}

func (c *nodeChoice) failure() string {
	switch {
	case c.suitable > 0:
		return "no suitable nodes have the requested traits " + strings.Join(c.a.Traits, ", ")
	case len(c.a.CandidateNodes) > 0:
		return "none of the requested nodes are available and match the resource class " + c.a.ResourceClass
	}
	return "no available nodes match the resource class " + c.a.ResourceClass
}

// exclusions counts, for each condition, the nodes of the class that it left out.
func (c *nodeChoice) exclusions() []ledger.Exclusion {
	if c.class == nil {
		return []ledger.Exclusion{{Reason: "no node has the resource class"}}
	}
	all := []ledger.Exclusion{
		{Reason: "not in provision state available", Nodes: uint64(c.class.NotAvailable)},
		{Reason: "has an instance", Nodes: uint64(c.class.Associated)},
		{Reason: "power state is not known", Nodes: uint64(c.class.NoPowerState)},
		{Reason: "in maintenance", Nodes: uint64(c.class.Maintenance)},
		{Reason: "retired", Nodes: uint64(c.class.Retired)},
		{Reason: "neither owned nor leased by the owner", Nodes: c.wrongOwner},
		{Reason: "held by a consumer in Placement", Nodes: c.held},
		{Reason: "full by a limit of an aggregate or a counter", Nodes: c.full},
		{Reason: "lacks a trait", Nodes: c.traitless},
		{Reason: "candidate that is not available or of another class", Nodes: c.notNamed},
	}
	return slices.DeleteFunc(all, func(x ledger.Exclusion) bool { return x.Nodes == 0 })
}
