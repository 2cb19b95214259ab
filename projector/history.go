package projector

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Kind says what a history is about.
type Kind byte

// What has a history.
const (
	ConsumerHistory Kind = 'c'
	ProviderHistory Kind = 'p'
	ProjectHistory  Kind = 'j'
	UserHistory     Kind = 'u'
	NodeHistory     Kind = 'n'
	// NodeAllocationHistory is that of a whole node's allocation.
	NodeAllocationHistory Kind = 'b'
)

// subject is one thing with a history. Consumers and providers have an id,
// projects and users a name.
type subject struct {
	kind Kind
	id   ledger.UUID
	name string
}

func (s subject) appendTo(key []byte) []byte {
	key = append(key, tableHistory, byte(s.kind))
	if s.name != "" {
		return appendText(key, s.name)
	}
	return append(key, s.id[:]...)
}

// history writes which records of the commit touched what. What a consumer
// gave up counts as touched, too: the provider or project it left.
func (w *writer) history() {
	touched := make(map[subject][]byte, 4*len(w.commit.Records))
	step := 0     // in changes.Consumers, which has one step per allocation event
	nodeStep := 0 // in changes.NodeAllocations, likewise
	for index := range w.commit.Records {
		touch := func(s subject) {
			list := touched[s]
			if n := len(list); n >= 4 && int(binary.BigEndian.Uint32(list[n-4:])) == index {
				return
			}
			touched[s] = binary.BigEndian.AppendUint32(list, uint32(index))
		}
		for _, event := range w.commit.Records[index].Events {
			switch ev := event.(type) {
			case ledger.AllocationsReplaced, ledger.ConsumerRemoved:
				touchConsumer(w.changes.Consumers[step], touch)
				step++
			case ledger.ProviderGenerationsAdvanced:
				// Allocations touch their providers already.
			case ledger.AllocationRequested, ledger.NodeAllocated, ledger.AllocationFailed,
				ledger.NodeAllocationUpdated, ledger.NodeAllocationReleased:
				touchNodeAllocation(w.changes.NodeAllocations[nodeStep], touch)
				nodeStep++
			default:
				if id, ok := nodeOf(ev); ok {
					touch(subject{kind: NodeHistory, id: id})
				}
				if id, ok := providerOf(ev); ok {
					touch(subject{kind: ProviderHistory, id: id})
				}
			}
		}
	}
	for s, list := range touched {
		w.p.key = s.appendTo(w.p.key[:0])
		w.set(w.version(w.p.key), list)
	}
}

func touchConsumer(change ledger.ConsumerChange, touch func(subject)) {
	for _, c := range []*ledger.Consumer{change.Before, change.After} {
		if c == nil {
			continue
		}
		if change.After == nil {
			// Other changes are in the consumer's own versions.
			touch(subject{kind: ConsumerHistory, id: c.UUID})
		}
		touch(subject{kind: ProjectHistory, name: c.Owner.Project})
		touch(subject{kind: UserHistory, name: c.Owner.User})
		eachProvider(c, func(id ledger.UUID) { touch(subject{kind: ProviderHistory, id: id}) })
	}
}

// providerOf is the provider that an event, other than one about allocations,
// is about.
func providerOf(event ledger.Event) (ledger.UUID, bool) {
	switch ev := event.(type) {
	case ledger.ProviderCreated:
		return ev.Provider, true
	case ledger.ProviderRenamed:
		return ev.Provider, true
	case ledger.ProviderReparented:
		return ev.Provider, true
	case ledger.ProviderDeleted:
		return ev.Provider, true
	case ledger.InventoriesReplaced:
		return ev.Provider, true
	case ledger.InventorySet:
		return ev.Provider, true
	case ledger.InventoryDeleted:
		return ev.Provider, true
	case ledger.ProviderTraitsReplaced:
		return ev.Provider, true
	case ledger.ProviderAggregatesReplaced:
		return ev.Provider, true
	}
	return ledger.NilUUID, false
}

// nodeOf is the node that an event, other than one about node allocations, is
// about.
func nodeOf(event ledger.Event) (ledger.UUID, bool) {
	switch ev := event.(type) {
	case ledger.NodeCreated:
		return ev.Node, true
	case ledger.NodeDescribed:
		return ev.Node, true
	case ledger.NodeStateSet:
		return ev.Node, true
	case ledger.NodeTraitsReplaced:
		return ev.Node, true
	case ledger.NodeInstanceSet:
		return ev.Node, true
	case ledger.NodeDeleted:
		return ev.Node, true
	}
	return ledger.NilUUID, false
}

func touchNodeAllocation(change ledger.NodeAllocationChange, touch func(subject)) {
	for _, a := range []*ledger.NodeAllocation{change.Before, change.After} {
		if a == nil {
			continue
		}
		touch(subject{kind: NodeAllocationHistory, id: a.UUID})
		if !a.Node.IsNil() {
			touch(subject{kind: NodeHistory, id: a.Node})
		}
		if a.Owner != "" {
			touch(subject{kind: ProjectHistory, name: a.Owner})
		}
	}
}

// History lists the records that touched a thing with a uuid, newest first,
// from before a sequence (0: from the View's) and at most limit of them.
func (v View) History(kind Kind, id ledger.UUID, before uint64, limit int) ([]ledger.Address, error) {
	if kind == ConsumerHistory {
		return v.consumerHistory(id, before, limit)
	}
	return v.history(subject{kind: kind, id: id}, before, limit)
}

// consumerHistory walks through a consumer's versions. Its removals, whose
// versions are empty, are in the history table.
func (v View) consumerHistory(id ledger.UUID, before uint64, limit int) ([]ledger.Address, error) {
	from := v.sequence
	if before > 0 {
		from = min(from, before-1)
	}
	prefix := idKey(tableConsumer, id)
	it, err := v.iterate(appendVersion(slices.Clone(prefix), from), after(prefix))
	if err != nil {
		return nil, err
	}
	var list []ledger.Address
	for ok := it.First(); ok && len(list) < limit; ok = it.Next() {
		sequence := versionOf(it.Key())
		if len(it.Value()) > 0 {
			f := fields{data: it.Value()}
			list = append(list, ledger.Address{Sequence: sequence, Index: int(f.uint())})
			continue
		}
		removals, err := v.history(subject{kind: ConsumerHistory, id: id}, sequence+1, 1)
		if err == nil && (len(removals) != 1 || removals[0].Sequence != sequence) {
			err = fmt.Errorf("%w: history of consumer %s", ErrDamaged, id)
		}
		if err != nil {
			return nil, finish(it, err)
		}
		list = append(list, removals...)
	}
	return list, finish(it, nil)
}

// OwnerHistory is History for a project or user.
func (v View) OwnerHistory(kind Kind, name string, before uint64, limit int) ([]ledger.Address, error) {
	return v.history(subject{kind: kind, name: name}, before, limit)
}

func (v View) history(s subject, before uint64, limit int) ([]ledger.Address, error) {
	from := v.sequence
	if before > 0 {
		from = min(from, before-1)
	}
	prefix := s.appendTo(nil)
	it, err := v.iterate(prefix, after(prefix))
	if err != nil {
		return nil, err
	}
	var list []ledger.Address
	for ok := it.SeekGE(appendVersion(slices.Clone(prefix), from)); ok && len(list) < limit; ok = it.Next() {
		value := it.Value()
		if len(value)%4 != 0 {
			return nil, finish(it, fmt.Errorf("%w: history", ErrDamaged))
		}
		for n := len(value); n > 0 && len(list) < limit; n -= 4 {
			list = append(list, ledger.Address{
				Sequence: versionOf(it.Key()), Index: int(binary.BigEndian.Uint32(value[n-4:])),
			})
		}
	}
	return list, finish(it, nil)
}
