// Package present makes answers from read models, in the form that clients get.
package present

import (
	"time"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Reader is a source of answers: a view of the read models, or a State.
type Reader interface {
	Consumer(ledger.UUID) (*ledger.Consumer, bool, error)
	Provider(ledger.UUID) (*ledger.Provider, bool, error)
	Usages(project, user string) ([]*ledger.Usage, error)
	Classes() (*ledger.ClassTable, error)
	Trait(name string) (*ledger.Trait, bool, error)
	Preference(name string) (*ledger.Preference, bool, error)
	Topology(name string) (*ledger.Topology, bool, error)
}

// Of returns a Reader of a State.
type Of struct{ State *ledger.State }

// Consumer implements Reader.
func (o Of) Consumer(id ledger.UUID) (*ledger.Consumer, bool, error) {
	c, found := o.State.Consumer(id)
	return c, found, nil
}

// Provider implements Reader.
func (o Of) Provider(id ledger.UUID) (*ledger.Provider, bool, error) {
	p, found := o.State.Provider(id)
	return p, found, nil
}

// Topology implements Reader.
func (o Of) Topology(name string) (*ledger.Topology, bool, error) {
	t, found := o.State.Topology(name)
	return t, found, nil
}

// Trait implements Reader.
func (o Of) Trait(name string) (*ledger.Trait, bool, error) {
	if !o.State.HasTrait(name) {
		return nil, false, nil
	}
	return &ledger.Trait{Name: name}, true, nil
}

// Preference implements Reader.
func (o Of) Preference(name string) (*ledger.Preference, bool, error) {
	p, found := o.State.Preference(name)
	return p, found, nil
}

// Classes implements Reader.
func (o Of) Classes() (*ledger.ClassTable, error) { return o.State.Classes(), nil }

// Usages implements Reader.
func (o Of) Usages(project, user string) ([]*ledger.Usage, error) {
	var list []*ledger.Usage
	o.State.Usages(func(u *ledger.Usage) bool {
		if u.Owner.Project == project && (user == "" || u.Owner.User == user) {
			list = append(list, u)
		}
		return true
	})
	return list, nil
}

// Allocations returns what a consumer holds; nil if it holds nothing.
func Allocations(v Reader, consumer ledger.UUID) (*wire.Allocations, error) {
	c, found, err := v.Consumer(consumer)
	if err != nil || !found {
		return nil, err
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	return AllocationsOf(c, classes), nil
}

// AllocationsOf returns what a consumer holds.
func AllocationsOf(c *ledger.Consumer, classes *ledger.ClassTable) *wire.Allocations {
	a := &wire.Allocations{
		Consumer: c.UUID, Generation: c.Generation, Project: c.Owner.Project, User: c.Owner.User, Type: c.Owner.Type,
		Since: rfc3339(c.CreatedAt), Changed: rfc3339(c.UpdatedAt),
	}
	if c.ReservedUntil > 0 {
		a.ReservedUntil, a.Projects = rfc3339(c.ReservedUntil), c.Projects
	}
	for _, held := range c.Allocations {
		a.Allocations = append(
			a.Allocations, wire.Allocation{Provider: held.Provider, Class: classes.Name(held.Class), Amount: held.Amount},
		)
	}
	return a
}

// Usages returns what the consumers of a project, or of one of its users, hold
// together.
func Usages(v Reader, project, user string) ([]wire.Usage, error) {
	usages, err := v.Usages(project, user)
	if err != nil {
		return nil, err
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	list := make([]wire.Usage, 0, len(usages))
	for _, u := range usages {
		one := wire.Usage{
			User: u.Owner.User, Type: u.Owner.Type, Consumers: u.Consumers, Amounts: make(map[string]int64, len(u.Amounts)),
		}
		for _, a := range u.Amounts {
			one.Amounts[classes.Name(a.Class)] = a.Amount
		}
		list = append(list, one)
	}
	return list, nil
}

// Provider returns everything about a provider; nil if it does not exist. Trees are asked only for one with
// counters.
func Provider(v Reader, id ledger.UUID, trees Trees) (*wire.Provider, error) {
	p, found, err := v.Provider(id)
	if err != nil || !found {
		return nil, err
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	a := &wire.Provider{
		Provider: p.UUID, Name: p.Name, Root: p.Root, Generation: p.Generation,
		Inventories: []wire.Inventory{}, Traits: append([]string{}, p.Traits...),
		Aggregates: append([]ledger.UUID{}, p.Aggregates...), Draws: DrawsOf(classes, p),
	}
	if a.Counters, err = CountersOf(trees, p); err != nil {
		return nil, err
	}
	if !p.Parent.IsNil() {
		a.Parent = &p.Parent
	}
	for i := range p.Inventories {
		inv := &p.Inventories[i]
		a.Inventories = append(a.Inventories, wire.Inventory{
			Class: classes.Name(inv.Class), InventoryAmounts: wire.AmountsOf(inv), Capacity: inv.Units(), Used: inv.Used,
		})
	}
	return a, nil
}

func rfc3339(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339Nano) }

// Trees finds the tree of a root; nil: what is left of counters is not asked for.
type Trees func(root ledger.UUID) (ledger.Forest, error)

// CountersOf returns the counters of a provider, and what is left of each: below 0 where more is drawn.
func CountersOf(trees Trees, p *ledger.Provider) ([]wire.Counter, error) {
	var list []wire.Counter
	for _, c := range p.Counters {
		list = append(list, wire.Counter{Name: c.Name, Total: c.Total})
	}
	if list == nil || trees == nil {
		return list, nil
	}
	tree, err := trees(p.Root)
	if err != nil {
		return nil, err
	}
	for i := range list {
		left := list[i].Total - ledger.Drawn(tree, p.UUID, list[i].Name, nil)
		list[i].Left = &left
	}
	return list, nil
}

// DrawsOf returns what a unit of each class of a provider draws from counters above.
func DrawsOf(classes *ledger.ClassTable, p *ledger.Provider) []ledger.DrawRecord {
	var list []ledger.DrawRecord
	for _, d := range p.Draws {
		list = append(list, ledger.DrawRecord{
			Class: classes.Name(d.Class), Counter: d.Counter, Amount: d.Amount, Mode: d.Mode,
		})
	}
	return list
}

// Node returns everything about a bare metal node; nil if it does not exist.
func Node(v projector.View, id ledger.UUID) (*wire.Node, error) {
	n, found, err := v.Node(id)
	if err != nil || !found {
		return nil, err
	}
	a := &wire.Node{
		Node: n.UUID, NodeDescription: n.NodeDescription, ProvisionState: n.ProvisionState, PowerState: n.PowerState,
		Maintenance: n.Maintenance, MaintenanceReason: n.MaintenanceReason, Traits: append([]string{}, n.Traits...),
		Instance: uuidOrNil(n.Instance), Allocation: uuidOrNil(n.Allocation), Since: rfc3339(n.CreatedAt),
	}
	if n.UpdatedAt > 0 {
		a.Changed = rfc3339(n.UpdatedAt)
	}
	return a, nil
}

// NodeAllocation returns a node allocation; nil if it does not exist.
func NodeAllocation(v projector.View, id ledger.UUID) (*wire.NodeAllocation, error) {
	n, found, err := v.NodeAllocation(id)
	if err != nil || !found {
		return nil, err
	}
	a := &wire.NodeAllocation{
		Allocation: n.UUID, Name: n.Name, ResourceClass: n.ResourceClass, Owner: n.Owner, Extra: n.Extra,
		Traits: append([]string{}, n.Traits...), CandidateNodes: append([]ledger.UUID{}, n.CandidateNodes...),
		State: string(n.State), LastError: n.LastError, Node: uuidOrNil(n.Node), Since: rfc3339(n.CreatedAt),
	}
	if n.UpdatedAt > 0 {
		a.Changed = rfc3339(n.UpdatedAt)
	}
	return a, nil
}

// Chassis returns a chassis; nil if it does not exist.
func Chassis(v projector.View, id ledger.UUID) (*wire.Chassis, error) {
	c, found, err := v.Chassis(id)
	if err != nil || !found {
		return nil, err
	}
	a := &wire.Chassis{Chassis: c.UUID, ChassisDescription: c.ChassisDescription, Since: rfc3339(c.CreatedAt)}
	if c.UpdatedAt > 0 {
		a.Changed = rfc3339(c.UpdatedAt)
	}
	return a, nil
}

func uuidOrNil(id ledger.UUID) *ledger.UUID {
	if id.IsNil() {
		return nil
	}
	return &id
}
