package present

import (
	"cmp"

	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Directory knows what projects and users are called elsewhere.
type Directory interface {
	Called(of, id string) string    // empty: it is not known
	Named(of, name string) []string // the ids of all with the name
}

// Telling makes sentences of records.
type Telling struct {
	Views     *projector.Projector
	Directory Directory // nil: there is none
	WholeIDs  bool
}

// Record says what a record did, and first what it did to a subject; zero: to any.
func (t Telling) Record(sequence uint64, r *ledger.Record, about projector.Subject) (sentences.Words, error) {
	view, err := t.Views.ViewAt(sequence)
	if err != nil {
		return nil, err
	}
	p := &past{telling: t, view: view}
	if sequence > 1 {
		if p.before, err = t.Views.ViewAt(sequence - 1); err != nil {
			return nil, err
		}
	}
	teller := sentences.Teller{Past: p, WholeIDs: t.WholeIDs}
	if about.Kind != 0 {
		teller.About.Of, teller.About.Name = SubjectName(about)
	}
	words := teller.Record(r)
	return words, p.err
}

// Consumer says how what a consumer holds has changed up to a view.
func (t Telling) Consumer(
	view projector.View, id ledger.UUID, before, after *wire.Allocations,
) (sentences.Words, error) {
	p := &past{telling: t, view: view}
	words := sentences.Teller{Past: p, WholeIDs: t.WholeIDs}.Consumer(id, before, after)
	return words, p.err
}

// Rejected says that a command was rejected and why, with what things were called then.
func (t Telling) Rejected(e *rejected.Entry) (sentences.Words, error) {
	view, err := viewBefore(t.Views, e.Place)
	if err != nil {
		return nil, err
	}
	p := &past{telling: t, view: view}
	words := sentences.Teller{Past: p, WholeIDs: t.WholeIDs}.Rejected(e.Actor, e.Command, e.Rejection)
	return words, p.err
}

// viewBefore is what a command was decided against that would have had an address.
func viewBefore(views *projector.Projector, place ledger.Address) (projector.View, error) {
	return views.ViewAt(max(1, min(place.Sequence-1, views.Checkpoint().Sequence)))
}

// Holds says what a consumer holds of a provider by a view.
func (t Telling) Holds(view projector.View, consumer, provider ledger.UUID) (sentences.Words, error) {
	held, err := Allocations(view, consumer)
	if err != nil {
		return nil, err
	}
	p := &past{telling: t, view: view}
	words := sentences.Teller{Past: p, WholeIDs: t.WholeIDs}.Holds(consumer, provider, held)
	return words, p.err
}

// past reads what was before a commit, and keeps the first error.
type past struct {
	telling Telling
	view    projector.View // with the commit
	before  projector.View // without it; of the first commit none
	err     error
}

// was reads something as it was before; the zero value: there was none.
func was[K, T any](p *past, read func(projector.View, K) (T, error), key K) (none T) {
	if p.before.Sequence() == 0 || p.err != nil {
		return none
	}
	value, err := read(p.before, key)
	p.err = err
	return value
}

// Consumer implements sentences.Past.
func (p *past) Consumer(id ledger.UUID) *wire.Allocations {
	return was(p, func(v projector.View, id ledger.UUID) (*wire.Allocations, error) { return Allocations(v, id) }, id)
}

// Provider implements sentences.Past.
func (p *past) Provider(id ledger.UUID) *wire.Provider {
	return was(p, func(v projector.View, id ledger.UUID) (*wire.Provider, error) { return Provider(v, id, nil) }, id)
}

// Node implements sentences.Past.
func (p *past) Node(id ledger.UUID) *wire.Node { return was(p, Node, id) }

// NodeAllocation implements sentences.Past.
func (p *past) NodeAllocation(id ledger.UUID) *wire.NodeAllocation { return was(p, NodeAllocation, id) }

// Limit implements sentences.Past.
func (p *past) Limit(project, class, consumers string) *int64 {
	return was(p, limitAt, LimitName{Project: project, Class: class, Type: consumers})
}

// AggregateLimit implements sentences.Past.
func (p *past) AggregateLimit(aggregate ledger.UUID, class string) *int64 {
	return was(p, limitAt, LimitName{Aggregate: aggregate, Class: class})
}

func limitAt(v projector.View, name LimitName) (*int64, error) {
	versions, found, err := limitVersions(v, name, 1)
	if err != nil || !found || len(versions.Versions) == 0 {
		return nil, err
	}
	return versions.Versions[0].Most, nil
}

// Preference implements sentences.Past.
func (p *past) Preference(name string) string {
	return was(p, func(v projector.View, name string) (string, error) {
		one, found, err := v.Preference(name)
		if err != nil || !found {
			return "", err
		}
		return string(one.Prefer), nil
	}, name)
}

// Parent implements sentences.Past.
func (p *past) Parent(project string) string {
	return was(p, func(v projector.View, project string) (parent string, err error) {
		err = v.ProjectParents(func(one ledger.ProjectParent) bool {
			if one.Project == project {
				parent = one.Parent
			}
			return parent == ""
		})
		return parent, err
	}, project)
}

// Class implements sentences.Past.
func (p *past) Class(id ledger.ClassID) string {
	return was(p, projector.View.ClassName, id)
}

// Called implements sentences.Past.
func (p *past) Called(of, id string) string {
	if p.err != nil {
		return ""
	}
	name, err := p.telling.Called(p.view, of, id)
	p.err = err
	return name
}

// Called returns the name of something by a view, or the last that it had; empty: it
// has none.
func (t Telling) Called(view projector.View, of, id string) (name string, err error) {
	switch of {
	case wire.OfProject, wire.OfUser:
		if t.Directory == nil {
			return "", nil
		}
		return t.Directory.Called(of, id), nil
	case wire.OfProvider, wire.OfNode, wire.OfNodeAllocation:
		parsed, err := ledger.ParseUUID(id)
		if err != nil {
			return "", nil
		}
		return NameOf(t.Views, view, of, parsed)
	case OfAggregate:
		return domainName(view, id)
	}
	return "", nil
}

// OfAggregate is the kind of aggregates, which have names as domains of topologies.
const OfAggregate = "aggregate"

// domainName is the name of an aggregate in the first topology that has it.
func domainName(view projector.View, id string) (name string, err error) {
	err = view.Topologies(func(t *ledger.Topology, _ uint64) bool {
		for _, member := range t.Members {
			if member.Aggregate.String() == id {
				name = cmp.Or(name, member.Name)
			}
		}
		return name == ""
	})
	return name, err
}

type naming struct {
	kind projector.Kind
	read func(projector.View, ledger.UUID) (string, bool, error)
}

func named[T any](
	read func(projector.View, ledger.UUID) (*T, bool, error), name func(*T) string,
) func(projector.View, ledger.UUID) (string, bool, error) {
	return func(v projector.View, id ledger.UUID) (string, bool, error) {
		one, found, err := read(v, id)
		if !found {
			return "", false, err
		}
		return name(one), true, err
	}
}

var namings = map[string]naming{
	wire.OfProvider: {
		projector.ProviderHistory, named(projector.View.Provider, func(p *ledger.Provider) string { return p.Name }),
	},
	wire.OfNode: {projector.NodeHistory, named(projector.View.Node, func(n *ledger.Node) string { return n.Name })},
	wire.OfNodeAllocation: {
		projector.NodeAllocationHistory,
		named(projector.View.NodeAllocation, func(a *ledger.NodeAllocation) string { return a.Name }),
	},
}

// NameOf returns the last name of a provider, node or node allocation by a view; empty:
// it has none.
func NameOf(views *projector.Projector, view projector.View, of string, id ledger.UUID) (string, error) {
	one := namings[of]
	name, found, err := one.read(view, id)
	if err != nil || found {
		return name, err
	}
	last, err := view.History(one.kind, id, 0, 1)
	if err != nil || len(last) == 0 || last[0].Sequence < 2 {
		return "", err
	}
	before, err := views.ViewAt(last[0].Sequence - 1)
	if err != nil {
		return "", err
	}
	name, _, err = one.read(before, id)
	return name, err
}
