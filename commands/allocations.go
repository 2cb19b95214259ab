package commands

import (
	"cmp"
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// AllocateForConsumers sets everything that one or more consumers hold: all of
// them change, or none. It replaces what a consumer held before, and removes a
// consumer that gets no allocations.
//
// The generation moves by 1 for every provider that the new allocations name, and
// for every provider of a consumer that is removed.
type AllocateForConsumers struct {
	Allocations []ConsumerAllocations `json:"allocations"`
}

// ConsumerAllocations are all allocations that one consumer is to hold.
type ConsumerAllocations struct {
	Consumer ledger.UUID `json:"consumer"`
	Project  string      `json:"project"`        // 1..255 characters
	User     string      `json:"user"`           // 1..255 characters
	Type     *string     `json:"type,omitempty"` // absent: unchanged (below 1.38)
	// Generation is the consumer's generation as its client knows it. Null or
	// absent means that the client expects no consumer yet.
	Generation *uint64 `json:"generation" jsonschema:"nullable"`
	// AnyGeneration leaves the generation unchecked (below 1.28).
	AnyGeneration bool                 `json:"any_generation,omitempty"`
	Resources     []ProviderAllocation `json:"resources"` // empty: remove the consumer
}

// ProviderAllocation is an amount of one class from one provider.
type ProviderAllocation struct {
	Provider ledger.UUID `json:"provider"`
	Class    string      `json:"class"`
	Amount   int64       `json:"amount"` // 1..MaxAmount
}

func (c *AllocateForConsumers) consumers() []ledger.UUID { return consumersOf(c.Allocations) }

func consumersOf(allocations []ConsumerAllocations) []ledger.UUID {
	ids := make([]ledger.UUID, len(allocations))
	for i := range allocations {
		ids[i] = allocations[i].Consumer
	}
	return ids
}

func (c *AllocateForConsumers) check() *demand.Rejection {
	if len(c.Allocations) == 0 {
		return demand.Invalid("allocations", "names no consumer")
	}
	return checkAllocations(c.Allocations)
}

func checkAllocations(allocations []ConsumerAllocations) *demand.Rejection {
	if len(allocations) > 1 {
		seen := make(map[ledger.UUID]bool, len(allocations))
		for i := range allocations {
			if seen[allocations[i].Consumer] {
				return demand.Invalid("allocations", "consumer %s is given twice", allocations[i].Consumer)
			}
			seen[allocations[i].Consumer] = true
		}
	}
	for i := range allocations {
		if r := allocations[i].check(); r != nil {
			return r
		}
	}
	return nil
}

func (a *ConsumerAllocations) check() *demand.Rejection {
	r := cmp.Or(checkUUID("consumer", a.Consumer), checkOwner("project", a.Project), checkOwner("user", a.User))
	if r != nil {
		return r
	}
	if a.Type != nil && !isSymbol(*a.Type) {
		return demand.Invalid("type", "%q is not the name of a consumer type", *a.Type)
	}
	if a.AnyGeneration && a.Generation != nil {
		return demand.Invalid("any_generation", "contradicts a generation")
	}
	for i, res := range a.Resources {
		if r := cmp.Or(checkUUID("provider", res.Provider), checkRange("amount", res.Amount, 1)); r != nil {
			return r
		}
		for _, other := range a.Resources[:i] {
			if other.Provider == res.Provider && other.Class == res.Class {
				return demand.Invalid("resources", "%s of provider %s is given twice", res.Class, res.Provider)
			}
		}
	}
	return nil
}

func (*AllocateForConsumers) onlyHoldings() {}

func (c *AllocateForConsumers) forProject(s *ledger.State, project string) *demand.Rejection {
	return checkOwners(s, c.Allocations, project)
}

// decide checks in Placement's order: consumer
// generations, providers, classes, then for each allocation inventory, units and
// capacity.
func (c *AllocateForConsumers) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	a := newAllocator(s, c.Allocations)
	if r := cmp.Or(a.checkGenerations(), a.checkProvidersExist()); r != nil {
		return nil, r
	}
	return a.events()
}

// allocator decides a set of allocations against a State. A reshape may have
// changed some inventories first.
type allocator struct {
	state       *ledger.State
	allocations []ConsumerAllocations
	before      []*ledger.Consumer // per consumer; nil: it held nothing
	// reshaped holds providers in the form that a reshape gives them while its
	// allocations are decided.
	reshaped map[ledger.UUID]*ledger.Provider
	lifetime int64    // duration of a reservation in nanoseconds; 0: permanent allocations
	projects []string // that may draw on it
	beside   bool     // do not count what the consumers hold as free for them

	last   *ledger.Provider // the last provider looked up, because allocations name the same one in a row
	counts []inventoryCount
	index  map[inventoryKey]int // index into counts, once there are many
	moved  []ledger.ProviderGeneration
	seen   map[ledger.UUID]bool // index of the providers in moved, once there are many
}

type inventoryKey struct {
	provider ledger.UUID
	class    ledger.ClassID
}

// inventoryCount counts the usage of one inventory while a command is decided.
type inventoryCount struct {
	inventoryKey
	before int64 // used before the command
	freed  int64 // held before by consumers of the command
	drawn  int64 // held before by reservations that it draws on
	asked  int64 // allocated by the command so far
}

// used is what is used with the command so far.
func (c *inventoryCount) used() int64 { return c.before - c.freed - c.drawn + c.asked }

// linearMax is the number of entries up to which a scan is faster than a map.
const linearMax = 16

func newAllocator(s *ledger.State, allocations []ConsumerAllocations) *allocator {
	a := &allocator{state: s, allocations: allocations, before: make([]*ledger.Consumer, len(allocations))}
	for i := range allocations {
		a.before[i], _ = s.Consumer(allocations[i].Consumer)
	}
	return a
}

// checkGenerations rejects the command if a consumer is not at the generation
// that the client gave.
func (a *allocator) checkGenerations() *demand.Rejection {
	for i := range a.allocations {
		want, consumer := &a.allocations[i], a.before[i]
		switch {
		case want.AnyGeneration:
		case consumer == nil && want.Generation != nil:
			return consumerConflict(want.Consumer, nil, want.Generation)
		case consumer != nil && (want.Generation == nil || *want.Generation != consumer.Generation):
			return consumerConflict(want.Consumer, &consumer.Generation, want.Generation)
		}
	}
	return nil
}

func (a *allocator) checkProvidersExist() *demand.Rejection {
	for i := range a.allocations {
		for _, res := range a.allocations[i].Resources {
			if _, ok := a.provider(res.Provider); !ok {
				return demand.Refuse(
					demand.CodeProviderUnknown, demand.Facts{Provider: &res.Provider, Consumer: &a.allocations[i].Consumer},
					"no provider %s to allocate from", res.Provider,
				)
			}
		}
	}
	return nil
}

// events are those of allocations whose providers all exist.
func (a *allocator) events() ([]ledger.Event, *demand.Rejection) {
	allocations := a.allocations
	for i := range allocations {
		for _, res := range allocations[i].Resources {
			if _, ok := a.state.Classes().ID(res.Class); !ok {
				r := demand.ClassUnknown(res.Class)
				r.Facts.Consumer = &allocations[i].Consumer
				return nil, r
			}
		}
	}
	for i := range allocations {
		if r := followsNodeAllocation(a.state, allocations[i].Consumer); r != nil {
			return nil, r
		}
		a.free(a.before[i])
	}
	events := make([]ledger.Event, 0, len(allocations)+1)
	for i := range allocations {
		event, rejection := a.replace(&allocations[i], a.before[i])
		if rejection != nil {
			return nil, rejection
		}
		if event != nil {
			events = append(events, event)
		}
	}
	if len(a.moved) > 0 {
		events = append(events, ledger.ProviderGenerationsAdvanced{Providers: a.moved})
	}
	return a.reserveNodes(events), nil
}

// reserveNodes updates the inventories of those providers that are bare metal
// nodes, after the command's consumers took or left them.
func (a *allocator) reserveNodes(events []ledger.Event) []ledger.Event {
	if !a.state.NodeProviders() {
		return events
	}
	for i := range a.counts {
		count := &a.counts[i]
		p, _ := a.provider(count.provider)
		if event := nodeReservation(a.state, p, count.used() > 0, a.generation(p)); event != nil {
			events = append(events, event)
		}
	}
	return events
}

// generation is that of a provider with the command so far.
func (a *allocator) generation(p *ledger.Provider) int64 {
	for _, moved := range a.moved {
		if moved.Provider == p.UUID {
			return moved.Generation
		}
	}
	return p.Generation
}

func (a *allocator) provider(id ledger.UUID) (*ledger.Provider, bool) {
	if a.last != nil && a.last.UUID == id {
		return a.last, true
	}
	p, ok := a.reshaped[id]
	if !ok {
		p, ok = a.state.Provider(id)
	}
	if ok {
		a.last = p
	}
	return p, ok
}

// count returns the count for an inventory, which need not exist.
func (a *allocator) count(key inventoryKey, used int64) *inventoryCount {
	if a.index != nil {
		if i, ok := a.index[key]; ok {
			return &a.counts[i]
		}
	} else {
		for i := range a.counts {
			if a.counts[i].inventoryKey == key {
				return &a.counts[i]
			}
		}
	}
	a.counts = append(a.counts, inventoryCount{inventoryKey: key, before: used})
	if a.index != nil {
		a.index[key] = len(a.counts) - 1
	} else if len(a.counts) > linearMax {
		a.index = make(map[inventoryKey]int, 4*linearMax)
		for i := range a.counts {
			a.index[a.counts[i].inventoryKey] = i
		}
	}
	return &a.counts[len(a.counts)-1]
}

// free counts a consumer's present allocations as free for the command.
func (a *allocator) free(consumer *ledger.Consumer) {
	if consumer == nil {
		return
	}
	for _, held := range consumer.Allocations {
		p, _ := a.provider(held.Provider)
		inv, _ := p.Inventory(held.Class)
		a.count(inventoryKey{held.Provider, held.Class}, inv.Used).freed += held.Amount
	}
}

// replace decides one consumer's new allocations. before is nil for a new
// consumer.
func (a *allocator) replace(want *ConsumerAllocations, before *ledger.Consumer) (ledger.Event, *demand.Rejection) {
	if len(want.Resources) == 0 {
		if before == nil {
			return nil, nil
		}
		for _, held := range before.Allocations {
			a.move(held.Provider)
		}
		return ledger.ConsumerRemoved{Consumer: want.Consumer}, nil
	}
	event := ledger.AllocationsReplaced{
		Consumer: want.Consumer, Project: want.Project, User: want.User,
		Allocations: make([]ledger.AllocationRecord, 0, len(want.Resources)),
	}
	if want.Type != nil {
		event.Type = *want.Type
	} else if before != nil {
		event.Type = before.Owner.Type
	}
	for i := range want.Resources {
		res := &want.Resources[i]
		if r := a.take(want.Consumer, res); r != nil {
			return nil, r
		}
		a.move(res.Provider)
		event.Allocations = append(event.Allocations, ledger.AllocationRecord{
			Provider: res.Provider, Class: res.Class, Amount: res.Amount,
		})
	}
	switch {
	case a.lifetime > 0:
		return ledger.AllocationsReserved{AllocationsReplaced: event, Lifetime: a.lifetime, Projects: a.projects}, nil
	case before != nil && before.ReservedUntil > 0:
		// A reservation keeps its end, whatever else changes.
		return ledger.AllocationsReserved{AllocationsReplaced: event, Until: before.ReservedUntil}, nil
	}
	return event, nil
}

// take checks one allocation against its inventory and counts it.
//
// The usage may exceed the capacity if the inventory was over capacity before and
// the command leaves it no worse. Without this, consumers could not move off an
// inventory that has shrunk below its usage.
func (a *allocator) take(consumer ledger.UUID, res *ProviderAllocation) *demand.Rejection {
	p, _ := a.provider(res.Provider)
	class, _ := a.state.Classes().ID(res.Class)
	inv, ok := p.Inventory(class)
	if !ok {
		return demand.Refuse(
			demand.CodeNoInventory,
			demand.Facts{Provider: &res.Provider, Consumer: &consumer, Class: res.Class, Asked: res.Amount},
			"provider %s has no inventory of %s", res.Provider, res.Class,
		)
	}
	if res.Amount < inv.MinUnit || res.Amount > inv.MaxUnit || res.Amount%inv.StepSize != 0 {
		facts := demand.Facts{
			Provider: &res.Provider, Consumer: &consumer, Class: res.Class, Asked: res.Amount,
			MinUnit: inv.MinUnit, MaxUnit: inv.MaxUnit, StepSize: inv.StepSize,
		}
		return demand.Refuse(demand.CodeUnitConstraint, facts, "%d of %s on provider %s is not within %d..%d in steps of %d",
			res.Amount, res.Class, res.Provider, inv.MinUnit, inv.MaxUnit, inv.StepSize)
	}
	if r := takenNode(a.state, consumer, res); r != nil {
		return r
	}
	if inv.Reserved > 0 && runsOn(a.state, consumer, res.Provider) {
		inv.Reserved = 0
	}
	count := a.count(inventoryKey{res.Provider, class}, inv.Used)
	used := count.used()
	if a.beside {
		used += count.freed
	}
	if float64(used+res.Amount) > inv.Capacity() && used+res.Amount > count.before {
		return capacityExceeded(consumer, res, inv, used)
	}
	count.asked += res.Amount
	return nil
}

func capacityExceeded(
	consumer ledger.UUID, res *ProviderAllocation, inv ledger.Inventory, used int64,
) *demand.Rejection {
	facts := demand.Facts{
		Provider: &res.Provider, Consumer: &consumer, Class: res.Class, Asked: res.Amount,
		Total: inv.Total, Reserved: inv.Reserved, Ratio: inv.Ratio, Used: used,
	}
	return demand.Refuse(demand.CodeCapacityExceeded, facts,
		"%d of %s on provider %s exceeds the capacity: total %d, reserved %d, ratio %v, used %d",
		res.Amount, res.Class, res.Provider, inv.Total, inv.Reserved, inv.Ratio, used)
}

// move notes that a provider's generation moves. It does so once per provider.
func (a *allocator) move(id ledger.UUID) {
	if a.seen != nil {
		if a.seen[id] {
			return
		}
	} else {
		for _, m := range a.moved {
			if m.Provider == id {
				return
			}
		}
	}
	p, _ := a.provider(id)
	a.moved = append(a.moved, ledger.ProviderGeneration{Provider: id, Generation: p.Generation + 1})
	if a.seen != nil {
		a.seen[id] = true
	} else if len(a.moved) > linearMax {
		a.seen = make(map[ledger.UUID]bool, 4*linearMax)
		for _, m := range a.moved {
			a.seen[m.Provider] = true
		}
	}
}

// holdings is what a consumer holds of those of its allocations that stay.
func holdings(s *ledger.State, c *ledger.Consumer, stays func(ledger.Allocation) bool) ledger.AllocationsReplaced {
	event := ledger.AllocationsReplaced{
		Consumer: c.UUID, Project: c.Owner.Project, User: c.Owner.User, Type: c.Owner.Type,
	}
	for _, a := range c.Allocations {
		if stays(a) {
			event.Allocations = append(event.Allocations, ledger.AllocationRecord{
				Provider: a.Provider, Class: s.Classes().Name(a.Class), Amount: a.Amount,
			})
		}
	}
	return event
}

// keeping leaves a consumer those of its allocations that stay. A reservation keeps its end,
// and ends with the last of them.
func keeping(s *ledger.State, c *ledger.Consumer, stays func(ledger.Allocation) bool) ledger.Event {
	event := holdings(s, c, stays)
	switch {
	case len(event.Allocations) == 0:
		return ledger.ConsumerRemoved{Consumer: c.UUID}
	case c.ReservedUntil > 0:
		return ledger.AllocationsReserved{AllocationsReplaced: event, Until: c.ReservedUntil}
	}
	return event
}

// ReleaseConsumer removes everything that a consumer holds, and the consumer with
// it. Providers' generations stay.
type ReleaseConsumer struct {
	Consumer   ledger.UUID `json:"consumer"`
	Generation *uint64     `json:"generation,omitempty"` // absent: not checked, as in REST
}

func (c *ReleaseConsumer) consumers() []ledger.UUID { return []ledger.UUID{c.Consumer} }

func (c *ReleaseConsumer) check() *demand.Rejection { return checkUUID("consumer", c.Consumer) }

func (*ReleaseConsumer) onlyHoldings() {}

func (c *ReleaseConsumer) forProject(s *ledger.State, project string) *demand.Rejection {
	return hideHolder(s, c.Consumer, project)
}

func (c *ReleaseConsumer) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	consumer, ok := s.Consumer(c.Consumer)
	if !ok {
		return nil, consumerNotFound(c.Consumer)
	}
	if c.Generation != nil && *c.Generation != consumer.Generation {
		return nil, consumerConflict(c.Consumer, &consumer.Generation, c.Generation)
	}
	if r := followsNodeAllocation(s, c.Consumer); r != nil {
		return nil, r
	}
	return removeConsumer(s, consumer), nil
}

func consumerNotFound(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(demand.CodeConsumerNotFound, demand.Facts{Consumer: &id}, "consumer %s holds nothing", id)
}

// consumerConflict makes a rejection with the generation that a consumer has and
// the one that was given. As a given generation nil means "I expect no consumer",
// as the present one "there is none".
func consumerConflict(id ledger.UUID, has, given *uint64) *demand.Rejection {
	facts := demand.Facts{Consumer: &id, Expected: signed(has), Got: signed(given)}
	return demand.Refuse(demand.CodeConsumerConflict, facts,
		"consumer %s is at generation %s, not %s", id, orNull(facts.Expected), orNull(facts.Got))
}

func signed(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	v := int64(*n)
	return &v
}

func orNull(n *int64) string {
	if n == nil {
		return "null"
	}
	return fmt.Sprint(*n)
}
