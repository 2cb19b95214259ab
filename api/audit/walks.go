package audit

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// walk calls yield for each thing of some kinds that exists by a view, with its kind, its uuid or
// id, and its name, as long as it returns true. Providers and consumers are sorted by uuid, and
// come after one.
type walk func(v projector.View, after ledger.UUID, yield func(of, id, name string) bool) error

// walks are those through what a parameter can name.
var walks = map[string]walk{
	wire.OfProvider: eachProvider, wire.OfConsumer: eachConsumer, wire.OfNode: eachNode, wire.OfChassis: eachChassis,
	wire.OfNodeAllocation: eachNodeAllocation, wire.OfProject: eachOwner, wire.OfUser: eachOwner,
}

func eachProvider(v projector.View, after ledger.UUID, yield func(of, id, name string) bool) error {
	return v.ProvidersAfter(after, func(p *ledger.Provider) bool {
		return yield(wire.OfProvider, p.UUID.String(), p.Name)
	})
}

func eachConsumer(v projector.View, after ledger.UUID, yield func(of, id, name string) bool) error {
	return v.Consumers(after, func(c *ledger.Consumer) bool { return yield(wire.OfConsumer, c.UUID.String(), "") })
}

func eachNode(v projector.View, _ ledger.UUID, yield func(of, id, name string) bool) error {
	return v.Nodes(0, func(n *ledger.Node) bool { return yield(wire.OfNode, n.UUID.String(), n.Name) })
}

func eachNodeAllocation(v projector.View, _ ledger.UUID, yield func(of, id, name string) bool) error {
	return v.NodeAllocations(0, func(a *ledger.NodeAllocation) bool {
		return yield(wire.OfNodeAllocation, a.UUID.String(), cmp.Or(a.Name, a.UUID.String()))
	})
}

func eachChassis(v projector.View, _ ledger.UUID, yield func(of, id, name string) bool) error {
	return v.AllChassis(0, func(c *ledger.Chassis) bool {
		return yield(wire.OfChassis, c.UUID.String(), cmp.Or(c.Description, c.UUID.String()))
	})
}

// eachOwner goes through projects and users. Usages come sorted by project.
func eachOwner(v projector.View, _ ledger.UUID, yield func(of, id, name string) bool) error {
	last, users := "", make(map[string]bool)
	return v.AllUsages(func(u *ledger.Usage) bool {
		more := true
		if u.Owner.Project != last {
			last = u.Owner.Project
			more = yield(wire.OfProject, last, "")
		}
		if more && !users[u.Owner.User] {
			users[u.Owner.User] = true
			more = yield(wire.OfUser, u.Owner.User, "")
		}
		return more
	})
}

// The kinds of what is found and has no history.
const (
	ofRecord     = "record"
	ofClass      = "class"
	ofTrait      = "trait"
	ofPreference = "preference"
	ofTopology   = "topology"
)

// SearchKinds are the kinds of what a search finds.
var SearchKinds = slices.Concat(timelineSubjects, []string{
	ofRecord, ofClass, ofTrait, ofPreference, ofTopology, present.OfAggregate, sentences.OfActor,
})

// eachRule goes through what has a name, and no history.
func eachRule(v projector.View, _ ledger.UUID, yield func(of, id, name string) bool) error {
	classes, err := v.Classes()
	if err != nil {
		return err
	}
	for _, class := range classes.All() {
		yield(ofClass, class.Name, "")
	}
	known := make(map[ledger.UUID]bool) // aggregates
	return errors.Join(v.Traits(func(t *ledger.Trait) bool {
		return yield(ofTrait, t.Name, "")
	}), v.Preferences(func(p *ledger.Preference, _ uint64) bool {
		return yield(ofPreference, p.Name, "")
	}), v.Topologies(func(t *ledger.Topology, _ uint64) bool {
		for _, member := range t.Members {
			known[member.Aggregate] = true
			yield(present.OfAggregate, member.Aggregate.String(), member.Name)
		}
		return yield(ofTopology, t.Name, "")
	}), v.AggregateLimits(func(l ledger.AggregateLimit) bool {
		if !known[l.Aggregate] {
			yield(present.OfAggregate, l.Aggregate.String(), "")
		}
		known[l.Aggregate] = true
		return true
	}))
}

const (
	// maxActed is how many records a search looks through for their actors.
	maxActed = 20_000
	// maxActors is how many actors are remembered.
	maxActors = 100_000
)

// actors are those that sent commands, as far as records were looked through for them. Each search goes
// through those that are new, and through some that are older.
type actors struct {
	mu       sync.Mutex
	begun    map[string]uint64 // the earliest commit that is known of each; guarded by mu
	from, to uint64            // the commits that were looked through; guarded by mu
}

func (a *actors) whole() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.from <= 1 && len(a.begun) < maxActors
}

func (a *actors) each(ctx context.Context, views *projector.Projector) walk {
	return func(v projector.View, _ ledger.UUID, yield func(of, id, name string) bool) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := a.look(ctx, views.View()); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(a.begun)) {
			if a.begun[name] <= v.Sequence() && !yield(sentences.OfActor, name, "") {
				break
			}
		}
		return nil
	}
}

// look looks through the next records. What it has found stays if the client goes away.
func (a *actors) look(ctx context.Context, newest projector.View) error {
	if a.begun == nil {
		a.begun, a.from, a.to = make(map[string]uint64), newest.Sequence()+1, newest.Sequence()
	}
	for looked := 0; looked < maxActed && ctx.Err() == nil; looked++ {
		next := a.to + 1
		if next > newest.Sequence() {
			next = a.from - 1
		}
		if next == 0 {
			break
		}
		records, err := newest.RecordsOf(next)
		if err != nil {
			return err
		}
		a.from, a.to = min(a.from, next), max(a.to, next)
		looked += len(records)
		for _, r := range records {
			if begun, known := a.begun[r.Actor]; r.Actor != "" && (known && next < begun || !known && len(a.begun) < maxActors) {
				a.begun[r.Actor] = next
			}
		}
	}
	return nil
}
