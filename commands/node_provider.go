package commands

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Nodes can be resource providers, too, so that one ledger answers for Placement
// and for Ironic and the two answers never disagree. The provider has the node's
// uuid and traits, and an inventory of one CUSTOM_<CLASS>. The consumer is the
// node's allocation. Everything about such a provider that follows from the node
// changes in the same record as the node, and Placement's clients cannot change
// it.

// Owners of consumers that are node allocations.
const (
	nodeConsumerType = "BAREMETAL"
	noOwner          = "00000000-0000-0000-0000-000000000000"
)

// notInNames are what the names of classes cannot have. An underscore takes the place of all that stand together.
var notInNames = regexp.MustCompile("[^0-9A-Za-z]+")

// NodeClassName returns the resource class of a node's inventory, as nova does (os_resource_classes,
// normalize_name).
func NodeClassName(class string) string {
	return CustomPrefix + strings.ToUpper(notInNames.ReplaceAllString(class, "_"))
}

// SetNodeProviders turns node providers on or off. The server submits it at its
// start until it has nothing left to change; each time at most limit nodes get
// their provider. If node providers are turned off, existing providers stay and
// every client may change them.
type SetNodeProviders struct {
	operatorsOnly `json:"-"`

	On    bool `json:"on"`
	Limit int  `json:"limit"`
	// Left are the providers of nodes that were deleted while node providers were
	// off. They come from the read models, because the State does not remember
	// them. Those without holders and children are deleted.
	Left []ledger.UUID `json:"left,omitempty"`
}

func (c *SetNodeProviders) check() *demand.Rejection {
	if c.Limit < 1 {
		return demand.Invalid("limit", "is 1 or more")
	}
	return nil
}

// decide: while node providers are off, each API gives nodes
// away without regard to the other. So when they are turned on again, the command
// first removes the consumers of allocations that have ended meanwhile. It does
// so in a record of its own, because a commit changes a consumer once at most. If
// nodes have two owners, the rejection lists them.
func (c *SetNodeProviders) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	var events []ledger.Event
	if c.On != s.NodeProviders() {
		events = append(events, ledger.NodeProvidersSet{On: c.On})
	}
	if !c.On {
		return events, nil
	}
	stale, rejection := reconcileNodes(s)
	if rejection != nil {
		return nil, rejection
	}
	if len(stale) > 0 {
		for _, id := range stale[:min(c.Limit, len(stale))] {
			events = append(events, ledger.ConsumerRemoved{Consumer: id})
		}
		return events, nil
	}
	sync := newProviderSync(s)
	changed := 0
	s.Nodes(func(n *ledger.Node) bool {
		before := len(sync.events)
		if rejection = sync.node(n, n); len(sync.events) > before {
			changed++
		}
		return rejection == nil && changed < c.Limit
	})
	if rejection != nil {
		return nil, rejection
	}
	sync.removeLeft(c.Left, c.Limit-changed)
	return append(events, sync.events...), nil
}

// removeLeft deletes the providers of nodes that are gone, as if their nodes had
// been deleted now.
func (p *providerSync) removeLeft(left []ledger.UUID, most int) {
	for _, id := range left {
		before := len(p.events)
		if _, isNode := p.s.Node(id); isNode || most < 1 {
			continue
		}
		// A provider in use stays; the server that finds it at its start lists
		// it.
		if rejection := p.remove(&ledger.Node{UUID: id}); rejection == nil && len(p.events) > before {
			most--
		}
	}
}

// withNodeProvider adds the consequences that events about a node have for its
// provider.
func withNodeProvider(s *ledger.State, id ledger.UUID, events []ledger.Event) ([]ledger.Event, *demand.Rejection) {
	if !s.NodeProviders() || len(events) == 0 {
		return events, nil
	}
	before, _ := s.Node(id)
	sync := newProviderSync(s)
	for _, event := range events {
		if requested, ok := event.(ledger.AllocationRequested); ok {
			sync.owners[requested.Allocation] = requested.Owner
		}
	}
	if rejection := sync.node(before, ledger.NodeAfter(before, events)); rejection != nil {
		return nil, rejection
	}
	return append(events, sync.events...), nil
}

// providerSync collects the events that make providers match their nodes again.
type providerSync struct {
	s       *ledger.State
	events  []ledger.Event
	next    ledger.ClassID
	classes map[string]bool
	traits  map[string]bool
	owners  map[ledger.UUID]string // node allocations that the command requests
}

func newProviderSync(s *ledger.State) *providerSync {
	return &providerSync{
		s: s, next: s.NextClassID(), classes: make(map[string]bool), traits: make(map[string]bool),
		owners: make(map[ledger.UUID]string),
	}
}

func (p *providerSync) emit(event ledger.Event) { p.events = append(p.events, event) }

// node changes one node's provider from before to after; nil stands for no node.
func (p *providerSync) node(before, after *ledger.Node) *demand.Rejection {
	if after == nil {
		return p.remove(before)
	}
	provider, exists := p.s.Provider(after.UUID)
	if !exists {
		if _, taken := p.s.ProviderNamed(after.UUID.String()); taken {
			return demand.Refuse(
				demand.CodeProviderExists, demand.Facts{Node: &after.UUID}, "a provider with name %s exists", after.UUID,
			)
		}
		p.emit(ledger.ProviderCreated{Provider: after.UUID, Name: after.UUID.String()})
		provider = &ledger.Provider{UUID: after.UUID}
	}
	generation := provider.Generation
	freed := p.release(before, after)
	held := provider.InUse() != nil && !freed
	if rejection := p.oneOwner(after, held); rejection != nil {
		return rejection
	}
	if rejection := p.inventory(provider, after, held, &generation); rejection != nil {
		return rejection
	}
	p.nodeTraits(provider, before, after, &generation)
	return p.consume(after, &generation)
}

// oneOwner rejects a consumer that holds a node's provider while the node belongs
// to another consumer.
func (p *providerSync) oneOwner(n *ledger.Node, held bool) *demand.Rejection {
	if !held || n.Instance.IsNil() || holds(p.s, n.Instance, n.UUID) {
		return nil
	}
	return demand.Refuse(demand.CodeProviderInUse, demand.Facts{Node: &n.UUID, Provider: &n.UUID, Instance: &n.Instance},
		"the resource provider of node %s is held by a consumer in Placement", n.UUID)
}

func holds(s *ledger.State, consumer, provider ledger.UUID) bool {
	c, exists := s.Consumer(consumer)
	return exists && slices.ContainsFunc(c.Allocations, func(a ledger.Allocation) bool { return a.Provider == provider })
}

func (p *providerSync) remove(before *ledger.Node) *demand.Rejection {
	provider, exists := p.s.Provider(before.UUID)
	if !exists {
		return nil
	}
	freed := p.release(before, nil)
	child := false
	p.s.Children(before.UUID, func(ledger.UUID) bool { child = true; return false })
	if used := provider.InUse(); child || used != nil && !freed {
		return demand.Refuse(
			demand.CodeProviderInUse, demand.Facts{Node: &before.UUID, Provider: &before.UUID, Classes: classNames(p.s, used)},
			"the resource provider of node %s has allocations or children", before.UUID,
		)
	}
	p.emit(ledger.ProviderDeleted{Provider: before.UUID})
	return nil
}

// release removes the consumer of an allocation that the node no longer has.
func (p *providerSync) release(before, after *ledger.Node) (freed bool) {
	if before == nil || before.Allocation.IsNil() || after != nil && after.Allocation == before.Allocation {
		return false
	}
	if _, exists := p.s.Consumer(before.Allocation); !exists {
		return false
	}
	p.emit(ledger.ConsumerRemoved{Consumer: before.Allocation})
	return true
}

// inventory gives the provider an inventory of one of the node's class.
func (p *providerSync) inventory(
	provider *ledger.Provider, n *ledger.Node, held bool, generation *int64,
) *demand.Rejection {
	var want []ledger.InventoryRecord
	if n.ResourceClass != "" {
		want = []ledger.InventoryRecord{nodeInventory(n, held || !n.Allocation.IsNil())}
		p.class(want[0].Class)
	}
	if slices.Equal(want, inventoryRecords(p.s.Classes(), provider.Inventories)) {
		return nil
	}
	for _, inv := range provider.Inventories {
		name := p.s.Classes().Name(inv.Class)
		if held && inv.Used > 0 && (want == nil || name != want[0].Class) {
			return inventoryInUse(provider.UUID, []string{name})
		}
	}
	*generation++
	p.emit(ledger.InventoriesReplaced{Provider: provider.UUID, Generation: *generation, Inventories: want})
	return nil
}

// nodeInventory returns the inventory that a node's provider has of the node's
// class. It is reserved while the node may not be taken and no consumer has it.
func nodeInventory(n *ledger.Node, held bool) ledger.InventoryRecord {
	record := ledger.InventoryRecord{
		Class: NodeClassName(n.ResourceClass), Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, Ratio: 1,
	}
	if !n.Free() && !held {
		record.Reserved = 1
	}
	return record
}

func (p *providerSync) class(name string) {
	if _, exists := p.s.Classes().ID(name); exists || p.classes[name] {
		return
	}
	p.classes[name] = true
	p.emit(ledger.ClassCreated{ID: p.next, Name: name})
	p.next++
}

// nodeTraits gives the provider the node's traits, beside those that clients have given
// it: nova's driver adds some of its own to each provider of a node.
func (p *providerSync) nodeTraits(provider *ledger.Provider, before, after *ledger.Node, generation *int64) {
	want := slices.Clone(after.Traits)
	for _, name := range provider.Traits {
		if before == nil || !slices.Contains(before.Traits, name) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if slices.Equal(provider.Traits, want) {
		return
	}
	for _, name := range after.Traits {
		if !p.s.HasTrait(name) && !p.traits[name] {
			p.traits[name] = true
			p.emit(ledger.TraitCreated{Name: name})
		}
	}
	*generation++
	p.emit(ledger.ProviderTraitsReplaced{Provider: provider.UUID, Generation: *generation, Traits: want})
}

// consume makes the node's allocation a consumer of its provider.
func (p *providerSync) consume(after *ledger.Node, generation *int64) *demand.Rejection {
	if after.Allocation.IsNil() || after.ResourceClass == "" {
		return nil
	}
	if consumer, exists := p.s.Consumer(after.Allocation); exists {
		held := consumer.Allocations
		if len(held) == 1 && held[0].Provider == after.UUID {
			return nil
		}
		return demand.Refuse(demand.CodeNodeIsProvider, demand.Facts{Node: &after.UUID, Consumer: &after.Allocation},
			"consumer %s, which would be the allocation of node %s, holds other resources", after.Allocation, after.UUID)
	}
	owner := p.owners[after.Allocation]
	if a, ok := p.s.NodeAllocation(after.Allocation); ok {
		owner = a.Owner
	}
	p.emit(ledger.AllocationsReplaced{
		Consumer: after.Allocation, Project: cmp.Or(owner, noOwner), User: noOwner, Type: nodeConsumerType,
		Allocations: []ledger.AllocationRecord{{Provider: after.UUID, Class: NodeClassName(after.ResourceClass), Amount: 1}},
	})
	*generation++
	p.emit(ledger.ProviderGenerationsAdvanced{
		Providers: []ledger.ProviderGeneration{{Provider: after.UUID, Generation: *generation}},
	})
	return nil
}

// takenNode rejects a consumer that is not the node's instance. The instance owns
// the node, and may come back to it through either API.
func takenNode(s *ledger.State, consumer ledger.UUID, res *ProviderAllocation) *demand.Rejection {
	n := nodeOf(s, res.Provider)
	if n == nil || n.Instance.IsNil() || n.Instance == consumer {
		return nil
	}
	facts := demand.Facts{
		Provider: &res.Provider, Consumer: &consumer, Node: &n.UUID, Instance: &n.Instance,
		Class: res.Class, Asked: res.Amount, Total: 1, Reserved: 1, Ratio: 1,
	}
	return demand.Refuse(demand.CodeCapacityExceeded, facts,
		"%d of %s on provider %s exceeds the capacity: instance %s runs on that bare metal node",
		res.Amount, res.Class, res.Provider, n.Instance)
}

// runsOn reports whether a consumer is the instance of the node that a provider
// stands for. The node's inventory is reserved for that consumer alone.
func runsOn(s *ledger.State, consumer, provider ledger.UUID) bool {
	n := nodeOf(s, provider)
	return n != nil && n.Instance == consumer
}

// nodeReservation returns the event that reserves a node's inventory or frees it,
// after consumers took or left its provider; nil if nothing changes.
func nodeReservation(s *ledger.State, provider *ledger.Provider, held bool, generation int64) ledger.Event {
	n := nodeOf(s, provider.UUID)
	if n == nil || len(provider.Inventories) != 1 {
		return nil
	}
	want, has := nodeInventory(n, held), inventoryRecords(s.Classes(), provider.Inventories)[0]
	if want.Class != has.Class || want == has {
		return nil
	}
	return ledger.InventoriesReplaced{
		Provider: n.UUID, Generation: generation + 1, Inventories: []ledger.InventoryRecord{want},
	}
}

// removeConsumer returns the events that remove everything that a consumer holds.
func removeConsumer(s *ledger.State, c *ledger.Consumer) []ledger.Event {
	events := []ledger.Event{ledger.ConsumerRemoved{Consumer: c.UUID}}
	for _, held := range c.Allocations {
		provider, _ := s.Provider(held.Provider)
		if event := nodeReservation(s, provider, false, provider.Generation); event != nil {
			events = append(events, event)
		}
	}
	return events
}

func heldByConsumer(s *ledger.State, n *ledger.Node) bool {
	provider, exists := s.Provider(n.UUID)
	return s.NodeProviders() && exists && provider.InUse() != nil
}

// changeableProvider finds a provider whose existence and inventories clients may
// change. It rejects providers that are nodes.
func changeableProvider(s *ledger.State, id ledger.UUID) (*ledger.Provider, *demand.Rejection) {
	p, ok := s.Provider(id)
	if !ok {
		return nil, providerNotFound(id)
	}
	if nodeOf(s, id) == nil {
		return p, nil
	}
	return nil, followsFromNode(id)
}

// nodeOf is the node that a provider stands for; nil: it stands for none.
func nodeOf(s *ledger.State, provider ledger.UUID) *ledger.Node {
	if !s.NodeProviders() {
		return nil
	}
	n, _ := s.Node(provider)
	return n
}

func followsFromNode(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(
		demand.CodeNodeIsProvider, demand.Facts{Provider: &id, Node: &id},
		"resource provider %s is a bare metal node: its existence, its inventory and the node's traits "+
			"follow from the node", id,
	)
}

// repeatsNode rejects inventories of a node's provider, unless they say again what
// follows from the node. What they reserve does not count: nova's driver reserves a node
// in use, where the ledger counts it as used, and may not know yet that it is reserved.
func repeatsNode(s *ledger.State, p *ledger.Provider, inventories []Inventory) *demand.Rejection {
	want, has := recordsOf(inventories), inventoryRecords(s.Classes(), p.Inventories)
	for _, records := range [][]ledger.InventoryRecord{want, has} {
		for i := range records {
			if records[i].Reserved <= records[i].Total {
				records[i].Reserved = 0
			}
		}
	}
	if !slices.Equal(want, has) {
		return followsFromNode(p.UUID)
	}
	return nil
}

// followsNodeAllocation rejects a change of a consumer that is a node allocation,
// because the two change together.
func followsNodeAllocation(s *ledger.State, consumer ledger.UUID) *demand.Rejection {
	if !s.NodeProviders() {
		return nil
	}
	a, isAllocation := s.NodeAllocation(consumer)
	if !isAllocation || a.Node.IsNil() {
		return nil
	}
	return demand.Refuse(
		demand.CodeNodeIsProvider, demand.Facts{Consumer: &consumer, Node: &a.Node, Allocation: &consumer},
		"consumer %s is the allocation of bare metal node %s: release it there", consumer, a.Node,
	)
}

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
	return nil, demand.Refuse(demand.CodeProviderInUse, demand.Facts{Names: listed},
		"%d nodes have two owners, or a provider that is something else: %s. "+
			"Release one of the two, in Placement or in Ironic, while node providers are off", len(r.conflicts), text)
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
		r.conflicts = append(r.conflicts,
			fmt.Sprintf("consumer %s, which would be the allocation of node %s, holds other resources", c.UUID, a.Node))
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
