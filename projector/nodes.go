package projector

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/allot-project/allot/ledger"
)

func (w *writer) nodeAllocation(c ledger.Change[ledger.NodeAllocation]) {
	step(w, nodeAllocations, c)
	waits := func(a *ledger.NodeAllocation) bool { return a != nil && a.State == ledger.NodeAllocating }
	switch {
	case waits(c.After) && !waits(c.Before):
		w.set(numberKey(tableWaiting, c.After.Number), nil)
	case waits(c.Before) && !waits(c.After):
		w.delete(numberKey(tableWaiting, c.Before.Number))
	}
}

// thing is what all numbered entities have.
type thing struct {
	number uint64
	id     ledger.UUID
	name   string
}

// entity is a kind of numbered entities: the tables and the form in which they
// are stored.
type entity[T any] struct {
	entityTables
	of     func(*T) thing
	append func([]byte, *T) []byte
	read   func(number uint64, data []byte) (*T, error)
}

var (
	nodes = entity[ledger.Node]{
		nodeTables,
		func(n *ledger.Node) thing { return thing{n.Number, n.UUID, n.Name} }, appendNode, readNode,
	}
	nodeAllocations = entity[ledger.NodeAllocation]{
		nodeAllocationTables,
		func(a *ledger.NodeAllocation) thing { return thing{a.Number, a.UUID, a.Name} },
		appendNodeAllocation, readNodeAllocation,
	}
)

func step[T any](w *writer, t entity[T], c ledger.Change[T]) {
	before, after := c.Before, c.After
	var was, is thing // without a name there is nothing to find it by
	if before != nil {
		was = t.of(before)
	}
	if after != nil {
		is = t.of(after)
	}
	if was.name != "" && was.name != is.name {
		w.set(w.version(w.textKey(t.name, was.name)), nil)
	}
	if after == nil {
		w.set(w.version(numberKey(t.value, was.number)), nil)
		w.set(w.version(w.idKey(t.id, was.id)), nil)
		w.delete(numberKey(t.now, was.number))
		w.set(binary.BigEndian.AppendUint64(appendVersion([]byte{t.until}, w.commit.Sequence), was.number), nil)
		return
	}
	number := binary.AppendUvarint(nil, is.number)
	if is.name != "" && is.name != was.name {
		w.set(w.version(w.textKey(t.name, is.name)), number)
	}
	if before == nil {
		w.set(w.version(w.idKey(t.id, is.id)), number)
		w.set(numberKey(t.now, is.number), nil)
	}
	w.set(w.version(numberKey(t.value, is.number)), w.keep(t.append(w.scratch(), after)))
}

func appendNode(b []byte, n *ledger.Node) []byte {
	b = append(b, n.UUID[:]...)
	for _, text := range []string{n.Name, n.Driver, n.ResourceClass, n.Owner, n.Lessee} {
		b = appendString(b, text)
	}
	b = appendBool(b, n.Protected)
	for _, doc := range []ledger.Document{n.Properties, n.Extra, n.DriverInfo, n.InstanceInfo, n.Details} {
		b = appendString(b, string(doc))
	}
	b = append(b, n.Instance[:]...)
	b = append(b, n.Allocation[:]...)
	b = appendString(b, n.ProvisionState)
	b = appendString(b, n.PowerState)
	b = appendBool(b, n.Maintenance)
	b = appendString(b, n.MaintenanceReason)
	b = appendStrings(b, n.Traits)
	b = binary.AppendVarint(b, n.CreatedAt)
	b = binary.AppendVarint(b, n.UpdatedAt)
	return binary.AppendVarint(b, n.ProvisionUpdatedAt)
}

func readNode(number uint64, data []byte) (*ledger.Node, error) {
	f := fields{data: data}
	document := func() ledger.Document { return ledger.Document(f.string()) }
	n := &ledger.Node{
		UUID: f.uuid(), Number: number, NodeDescription: ledger.NodeDescription{
			Name: f.string(), Driver: f.string(), ResourceClass: f.string(), Owner: f.string(), Lessee: f.string(),
			Protected:  f.bool(),
			Properties: document(), Extra: document(), DriverInfo: document(), InstanceInfo: document(), Details: document(),
		},
		Instance: f.uuid(), Allocation: f.uuid(), ProvisionState: f.string(), PowerState: f.string(),
		Maintenance: f.bool(), MaintenanceReason: f.string(), Traits: f.strings(),
		CreatedAt: f.int(), UpdatedAt: f.int(), ProvisionUpdatedAt: f.int(),
	}
	return n, f.end("node")
}

func appendNodeAllocation(b []byte, a *ledger.NodeAllocation) []byte {
	b = append(b, a.UUID[:]...)
	for _, text := range []string{a.Name, a.ResourceClass, a.Owner, string(a.Extra), string(a.State), a.LastError} {
		b = appendString(b, text)
	}
	b = append(b, a.Node[:]...)
	b = appendStrings(b, a.Traits)
	b = binary.AppendUvarint(b, uint64(len(a.CandidateNodes)))
	for _, id := range a.CandidateNodes {
		b = append(b, id[:]...)
	}
	b = binary.AppendVarint(b, a.CreatedAt)
	return binary.AppendVarint(b, a.UpdatedAt)
}

func readNodeAllocation(number uint64, data []byte) (*ledger.NodeAllocation, error) {
	f := fields{data: data}
	a := &ledger.NodeAllocation{
		UUID: f.uuid(), Number: number, Name: f.string(), ResourceClass: f.string(), Owner: f.string(),
		Extra: ledger.Document(f.string()), State: ledger.NodeAllocationState(f.string()), LastError: f.string(),
		Node: f.uuid(), Traits: f.strings(),
	}
	for i, n := 0, f.count(); i < n; i++ {
		a.CandidateNodes = append(a.CandidateNodes, f.uuid())
	}
	a.CreatedAt, a.UpdatedAt = f.int(), f.int()
	return a, f.end("node allocation")
}

// Node finds a node by its uuid.
func (v View) Node(id ledger.UUID) (*ledger.Node, bool, error) { return nodes.withID(v, id) }

// NodeNamed finds a node by its name.
func (v View) NodeNamed(name string) (*ledger.Node, bool, error) { return nodes.named(v, name) }

// Nodes calls yield for each node that was created after the one with a number
// (0: for all), in that order, as long as it returns true.
func (v View) Nodes(after uint64, yield func(*ledger.Node) bool) error {
	return nodes.list(v, after, yield)
}

// NodeAllocation finds a node allocation by its uuid.
func (v View) NodeAllocation(id ledger.UUID) (*ledger.NodeAllocation, bool, error) {
	return nodeAllocations.withID(v, id)
}

// NodeAllocationNamed finds a node allocation by its name.
func (v View) NodeAllocationNamed(name string) (*ledger.NodeAllocation, bool, error) {
	return nodeAllocations.named(v, name)
}

// NodeAllocations calls yield for each node allocation that was requested after
// the one with a number (0: for all), in that order, as long as it returns true.
func (v View) NodeAllocations(after uint64, yield func(*ledger.NodeAllocation) bool) error {
	return nodeAllocations.list(v, after, yield)
}

// WaitingNodeAllocations lists, oldest first, the node allocations that wait for
// a node now and were requested after the one with a number (0: all), at most
// limit of them.
func (p *Projector) WaitingNodeAllocations(after uint64, limit int) ([]*ledger.NodeAllocation, error) {
	v := p.View()
	it, err := v.p.Iterate(numberKey(tableWaiting, after+1), []byte{tableWaiting + 1})
	if err != nil {
		return nil, err
	}
	var waiting []*ledger.NodeAllocation
	for ok := it.First(); ok && len(waiting) < limit; ok = it.Next() {
		a, found, err := nodeAllocations.point(v, binary.BigEndian.Uint64(it.Key()[1:]))
		if err != nil {
			return nil, it.Finish(err)
		}
		if found { // otherwise it was requested after the view
			waiting = append(waiting, a)
		}
	}
	return waiting, it.Finish(nil)
}

// RequestOf returns the address of the record that requested a node allocation.
func (p *Projector) RequestOf(a *ledger.NodeAllocation) (ledger.Address, bool, error) {
	v := p.View()
	list, err := v.History(NodeAllocationHistory, a.UUID, 0, requestSearch)
	if err != nil {
		return ledger.Address{}, false, err
	}
	for _, address := range list { // newest first, because uuids may be used again
		record, found, err := v.Record(address)
		if err != nil {
			return ledger.Address{}, false, err
		}
		if found && record.Time == a.CreatedAt {
			return address, true, nil
		}
	}
	return ledger.Address{}, false, nil
}

// requestSearch bounds how far back a request is looked for. A waiting request
// has few records after it.
const requestSearch = 64

func (t entity[T]) withID(v View, id ledger.UUID) (*T, bool, error) {
	return t.find(v, idKey(t.id, id))
}

func (t entity[T]) named(v View, name string) (*T, bool, error) {
	return t.find(v, textKey(t.name, name))
}

// find reads the entity whose number is the value of a key.
func (t entity[T]) find(v View, key []byte) (*T, bool, error) {
	value, _, found, err := v.version(key)
	if err != nil || !found {
		return nil, false, err
	}
	f := fields{data: value}
	number := f.uint()
	if err := f.end("number"); err != nil {
		return nil, false, v.p.Judged(err)
	}
	one, found, err := t.point(v, number)
	if err == nil && !found {
		err = v.p.Judged(fmt.Errorf("%w: number %d has no value", ErrDamaged, number))
	}
	return one, found, err
}

func (t entity[T]) point(v View, number uint64) (*T, bool, error) {
	value, _, found, err := v.version(numberKey(t.value, number))
	if err != nil || !found {
		return nil, false, err
	}
	one, err := t.read(number, value)
	return one, err == nil, v.p.Judged(err)
}

// list yields entities in the order of their numbers, as far as the view can see
// them. It reads the entities that exist now, and those that existed until some
// commit after the view, so that lists of the present do not grow with history.
func (t entity[T]) list(v View, after uint64, yield func(*T) bool) error {
	it, err := v.p.Iterate([]byte{t.now}, []byte{t.until + 1})
	if err != nil {
		return err
	}
	var gone []uint64
	upTo := appendVersion([]byte{t.until}, v.sequence)
	for ok := it.SeekGE([]byte{t.until}); ok && slices.Compare(it.Key(), upTo) < 0; ok = it.Next() {
		if number := binary.BigEndian.Uint64(it.Key()[1+versionBytes:]); number > after {
			gone = append(gone, number)
		}
	}
	slices.Sort(gone)
	numbers := func(yield func(uint64) bool) {
		for ok := it.SeekGE(numberKey(t.now, after+1)); ok && it.Key()[0] == t.now; ok = it.Next() {
			number := binary.BigEndian.Uint64(it.Key()[1:])
			for ; len(gone) > 0 && gone[0] < number; gone = gone[1:] {
				if !yield(gone[0]) {
					return
				}
			}
			if !yield(number) {
				return
			}
		}
		slices.Values(gone)(yield)
	}
	for number := range numbers {
		one, found, err := t.point(v, number)
		if err != nil || found && !yield(one) {
			return it.Finish(err)
		}
	}
	return it.Finish(nil)
}

var allChassis = entity[ledger.Chassis]{
	chassisTables,
	func(c *ledger.Chassis) thing { return thing{number: c.Number, id: c.UUID} }, appendChassis, readChassis,
}

func appendChassis(b []byte, c *ledger.Chassis) []byte {
	b = append(b, c.UUID[:]...)
	b = appendString(b, c.Description)
	b = appendString(b, string(c.Extra))
	b = binary.AppendVarint(b, c.CreatedAt)
	return binary.AppendVarint(b, c.UpdatedAt)
}

func readChassis(number uint64, data []byte) (*ledger.Chassis, error) {
	f := fields{data: data}
	c := &ledger.Chassis{
		UUID: f.uuid(), Number: number, ChassisDescription: ledger.ChassisDescription{
			Description: f.string(), Extra: ledger.Document(f.string()),
		},
		CreatedAt: f.int(), UpdatedAt: f.int(),
	}
	return c, f.end("chassis")
}

// Chassis finds a chassis by its uuid.
func (v View) Chassis(id ledger.UUID) (*ledger.Chassis, bool, error) { return allChassis.withID(v, id) }

// AllChassis calls yield for each chassis that was created after the one with a
// number (0: for all), in that order, as long as it returns true.
func (v View) AllChassis(after uint64, yield func(*ledger.Chassis) bool) error {
	return allChassis.list(v, after, yield)
}
