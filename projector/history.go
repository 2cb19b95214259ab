package projector

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// Kind is a kind of entity with a history.
type Kind byte

// The kinds of entities with a history.
const (
	ConsumerHistory Kind = 'c'
	ProviderHistory Kind = 'p'
	ProjectHistory  Kind = 'j'
	UserHistory     Kind = 'u'
	NodeHistory     Kind = 'n'
	// NodeAllocationHistory is the history of the allocation of a whole node.
	NodeAllocationHistory Kind = 'b'
	ChassisHistory        Kind = 's'
)

func (s Subject) appendTo(key []byte) []byte {
	key = append(key, tableHistory, byte(s.Kind))
	if s.Name != "" {
		return appendText(key, s.Name)
	}
	return append(key, s.ID[:]...)
}

// Subject is one entity with a history.
type Subject struct {
	Kind Kind
	ID   ledger.UUID // of entities with a uuid
	Name string      // of projects and users
}

// Kinds are all kinds with a history.
var Kinds = []Kind{
	ConsumerHistory, ProviderHistory, ProjectHistory, UserHistory, NodeHistory, NodeAllocationHistory, ChassisHistory,
}

// Touches lists, for the kinds asked for, which records of a commit touched which
// entities: the indexes of the records, in order. A provider or project that a
// consumer left counts as touched, too.
func Touches(commit *ledger.Commit, changes *ledger.Changes, kinds map[Kind]bool) map[Subject][]uint32 {
	return touches(commit, changes, func(k Kind) bool { return kinds[k] })
}

func touches(commit *ledger.Commit, changes *ledger.Changes, asked func(Kind) bool) map[Subject][]uint32 {
	w := walk{changes: changes, asked: asked, touched: make(map[Subject][]uint32)}
	for index := range commit.Records {
		w.record = uint32(index)
		for _, event := range commit.Records[index].Events {
			topic := ledger.TopicOf(event)
			about := aboutOf[topic.Of]
			about.touch(&w, Subject{Kind: about.kind, ID: topic.ID})
		}
	}
	return w.touched
}

// walk goes through the events of a commit and, in step, through its changes.
type walk struct {
	changes *ledger.Changes
	asked   func(Kind) bool
	touched map[Subject][]uint32

	record          uint32
	consumers       int // place in changes.Consumers, which has one change per allocation event
	nodeAllocations int // place in changes.NodeAllocations, likewise
}

// touch notes that the record touched an entity.
func (w *walk) touch(s Subject) {
	if !w.asked(s.Kind) {
		return
	}
	list := w.touched[s]
	if n := len(list); n == 0 || list[n-1] != w.record {
		w.touched[s] = append(list, w.record)
	}
}

func (w *walk) consumer(Subject) {
	change := w.changes.Consumers[w.consumers]
	w.consumers++
	for _, c := range []*ledger.Consumer{change.Before, change.After} {
		if c == nil {
			continue
		}
		w.touch(Subject{Kind: ConsumerHistory, ID: c.UUID})
		w.touch(Subject{Kind: ProjectHistory, Name: c.Owner.Project})
		w.touch(Subject{Kind: UserHistory, Name: c.Owner.User})
		eachProvider(c, func(id ledger.UUID) { w.touch(Subject{Kind: ProviderHistory, ID: id}) })
	}
}

func (w *walk) nodeAllocation(Subject) {
	change := w.changes.NodeAllocations[w.nodeAllocations]
	w.nodeAllocations++
	for _, a := range []*ledger.NodeAllocation{change.Before, change.After} {
		if a == nil {
			continue
		}
		w.touch(Subject{Kind: NodeAllocationHistory, ID: a.UUID})
		if !a.Node.IsNil() {
			w.touch(Subject{Kind: NodeHistory, ID: a.Node})
		}
		if a.Owner != "" {
			w.touch(Subject{Kind: ProjectHistory, Name: a.Owner})
		}
	}
}

type about struct {
	kind  Kind
	touch func(*walk, Subject)
}

// aboutOf gives, for each kind of entity that events can be about, the kind of
// its history and what an event about it touches. A kind without a row does not
// compile, because the array would be shorter.
var aboutOf [ledger.Ofs]about = [...]about{
	ledger.OfNothing:        {0, func(*walk, Subject) {}},
	ledger.OfConsumer:       {ConsumerHistory, (*walk).consumer},
	ledger.OfProvider:       {ProviderHistory, (*walk).touch},
	ledger.OfNode:           {NodeHistory, (*walk).touch},
	ledger.OfNodeAllocation: {NodeAllocationHistory, (*walk).nodeAllocation},
	ledger.OfChassis:        {ChassisHistory, (*walk).touch},
}

// inHistory reports whether entities of a kind have keys in the table of histories:
// the versions of a consumer are its history.
func inHistory(k Kind) bool { return k != ConsumerHistory }

// history writes which records of the commit touched which entities. It leaves
// out what the entity's own versions tell: everything about consumers and
// providers that still exist.
func (w *writer) history() {
	for s, list := range w.touched {
		w.p.key = s.appendTo(w.p.key[:0])
		value := w.scratch()
		for _, index := range list {
			value = binary.BigEndian.AppendUint32(value, index)
		}
		w.set(w.version(w.p.key), w.keep(value))
	}
}

// SubjectsOf lists the entities that an event is about.
func SubjectsOf(event ledger.Event) []Subject {
	topic := ledger.TopicOf(event)
	if topic.Of == ledger.OfNothing {
		return nil
	}
	return []Subject{{Kind: aboutOf[topic.Of].kind, ID: topic.ID}}
}

// History lists the records that touched an entity with a uuid, newest first,
// from before a sequence (0: the View's), at most limit of them.
func (v View) History(kind Kind, id ledger.UUID, before uint64, limit int) ([]ledger.Address, error) {
	return v.HistoryOf(Subject{Kind: kind, ID: id}, before, limit)
}

// HistoryOf is History for any subject.
func (v View) HistoryOf(s Subject, before uint64, limit int) ([]ledger.Address, error) {
	from := v.sequence
	if before > 0 {
		from = min(from, before-1)
	}
	var list []ledger.Address
	err := v.versions(s, from, 0, false, func(sequence uint64, value []byte) (bool, error) {
		indexes, err := v.recordsAt(s, sequence, value)
		for _, index := range slices.Backward(indexes) {
			if len(list) < limit {
				list = append(list, ledger.Address{Sequence: sequence, Index: index})
			}
		}
		return len(list) < limit, err
	})
	return list, err
}

// versions calls yield for the versions of an entity between two sequences, the newest first or the
// oldest, as long as it returns true.
func (v View) versions(
	s Subject, newest, oldest uint64, oldestFirst bool, yield func(sequence uint64, value []byte) (bool, error),
) error {
	prefix := s.versions()
	from, to := appendVersion(slices.Clone(prefix), newest), appendVersion(slices.Clone(prefix), oldest)
	it, err := v.p.Iterate(from, after(to))
	if err != nil {
		return err
	}
	first, next := it.First, it.Next
	if oldestFirst {
		first, next = it.Last, it.Prev
	}
	more := true
	for ok := first(); ok && more && err == nil; ok = next() {
		more, err = yield(versionOf(it.Key()), it.Value())
	}
	return it.Finish(err)
}

// versions returns the prefix of the keys with an entity's history: its own
// versions, or else a table of histories.
func (s Subject) versions() []byte {
	switch s.Kind {
	case ConsumerHistory:
		return idKey(tableConsumer, s.ID)
	case ProviderHistory:
		return idKey(tableProviderState, s.ID)
	}
	return s.appendTo(nil)
}

// HistoryAfter lists the records that touched an entity after one of them, oldest
// first, at most limit of them.
func (v View) HistoryAfter(s Subject, last ledger.Address, limit int) ([]ledger.Address, error) {
	var list []ledger.Address
	err := v.versions(s, v.sequence, last.Sequence, true, func(sequence uint64, value []byte) (bool, error) {
		indexes, err := v.recordsAt(s, sequence, value)
		for _, index := range indexes {
			if (sequence > last.Sequence || index > last.Index) && len(list) < limit {
				list = append(list, ledger.Address{Sequence: sequence, Index: index})
			}
		}
		return len(list) < limit, err
	})
	return list, err
}

// recordsAt reads which records of a commit touched an entity: from the value of
// its version or, if that says that the entity no longer exists, from the history
// of ends.
func (v View) recordsAt(s Subject, sequence uint64, value []byte) ([]int, error) {
	switch {
	case s.Kind == ConsumerHistory:
		f := fields{data: value}
		index := int(f.uint())
		if f.bad {
			return nil, v.p.Judged(fmt.Errorf("%w: a version of consumer %s", ErrDamaged, s.ID))
		}
		return []int{index}, nil
	case s.Kind == ProviderHistory && !gone([]byte{tableProviderState}, value):
		return readProviderRecords(value)
	case s.Kind == ProviderHistory:
		var indexes []int
		found, err := v.p.Get(appendVersion(s.appendTo(nil), sequence), func(end []byte) (err error) {
			indexes, err = readIndexes(end)
			return err
		})
		if err == nil && !found {
			err = fmt.Errorf("%w: the end of %s is missing", ErrDamaged, s.ID)
		}
		return indexes, err
	}
	return readIndexes(value)
}

func readIndexes(value []byte) ([]int, error) {
	if len(value)%4 != 0 {
		return nil, fmt.Errorf("%w: history", ErrDamaged)
	}
	indexes := make([]int, 0, len(value)/4)
	for ; len(value) > 0; value = value[4:] {
		indexes = append(indexes, int(binary.BigEndian.Uint32(value)))
	}
	return indexes, nil
}
