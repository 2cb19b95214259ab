package ledger

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// stateVersion 2 added nodes and reservations, 3 chassis. Older ones are still
// read.
const stateVersion = 3

// stateFields are how many fields a State has in each version.
var stateFields = map[uint64]int{1: 10, 2: 14, stateVersion: 15}

// stateFlushBytes is how much of a State is encoded before it is written out.
const stateFlushBytes = 1 << 16

// Encode writes the State in its one canonical form: equal States give equal
// bytes. It does not change the State and may run on a fork while the
// original goes on.
func (s *State) Encode(w io.Writer) error {
	out := &stateWriter{w: w, e: newEncoder()}
	e := out.e
	e.array(stateFields[stateVersion])
	e.uint(stateVersion)
	e.uuid(s.ledgerID)
	e.uint(s.head.Sequence)
	e.digest(s.head.Digest)
	e.int(s.lastTime)
	e.uint(uint64(s.nextClass))
	e.array(len(s.classes.byID))
	for _, c := range s.classes.byID {
		e.array(4)
		e.uint(uint64(c.ID))
		e.string(c.Name)
		e.int(c.CreatedAt)
		e.int(c.UpdatedAt)
		out.flushAt(stateFlushBytes)
	}
	e.array(s.traits.Len())
	s.traits.Scan(func(t *Trait) bool {
		e.array(2)
		e.string(t.Name)
		e.int(t.CreatedAt)
		return out.flushAt(stateFlushBytes)
	})
	e.array(s.providers.Len())
	s.providers.Scan(func(entry providerEntry) bool {
		encodeProvider(e, entry.p)
		return out.flushAt(stateFlushBytes)
	})
	e.array(s.consumers.Len())
	s.consumers.Scan(func(entry consumerEntry) bool {
		encodeConsumer(e, entry.c)
		return out.flushAt(stateFlushBytes)
	})
	e.bool(s.nodeProviders)
	e.uint(s.numbers)
	e.array(s.nodes.Len())
	s.nodes.Scan(func(entry nodeEntry) bool {
		encodeNode(e, entry.n)
		return out.flushAt(stateFlushBytes)
	})
	e.array(s.allocations.Len())
	s.allocations.Scan(func(entry nodeAllocationEntry) bool {
		encodeNodeAllocation(e, entry.a)
		return out.flushAt(stateFlushBytes)
	})
	e.array(s.chassis.Len())
	s.chassis.Scan(func(entry chassisEntry) bool {
		encodeChassis(e, entry.c)
		return out.flushAt(stateFlushBytes)
	})
	out.flushAt(0)
	return out.err
}

// stateWriter passes an encoder's output on in pieces.
type stateWriter struct {
	w   io.Writer
	e   *encoder
	err error
}

func (out *stateWriter) flushAt(n int) bool {
	if out.err == nil {
		out.err = out.e.err
	}
	if out.err == nil && out.e.buf.Len() >= n {
		_, out.err = out.w.Write(out.e.buf.Bytes())
		out.e.buf.Reset()
	}
	return out.err == nil
}

// Digest is the SHA-256 of the State's canonical form.
func (s *State) Digest() (Digest, error) {
	h := sha256.New()
	if err := s.Encode(h); err != nil {
		return Digest{}, err
	}
	return sumOf(h), nil
}

func sumOf(h hash.Hash) (d Digest) {
	h.Sum(d[:0])
	return d
}

func encodeProvider(e *encoder, p *Provider) {
	e.array(9)
	e.uuid(p.UUID)
	e.string(p.Name)
	e.int(p.Generation)
	e.uuid(p.Parent)
	e.int(p.CreatedAt)
	e.int(p.UpdatedAt)
	e.array(len(p.Inventories))
	for _, inv := range p.Inventories {
		encodeInventory(e, inv)
	}
	e.strings(p.Traits)
	e.uuids(p.Aggregates)
}

// encodeInventory writes an inventory without its usage, which follows from
// the consumers.
func encodeInventory(e *encoder, inv Inventory) {
	e.array(8)
	e.uint(uint64(inv.Class))
	e.int(inv.Total)
	e.int(inv.Reserved)
	e.int(inv.MinUnit)
	e.int(inv.MaxUnit)
	e.int(inv.StepSize)
	e.float(inv.Ratio)
	e.int(inv.UpdatedAt)
}

func decodeInventory(d *decoder) Inventory {
	d.exactly(8, "inventory")
	return Inventory{
		Class: ClassID(d.uint()), Total: d.int(), Reserved: d.int(), MinUnit: d.int(),
		MaxUnit: d.int(), StepSize: d.int(), Ratio: d.float(), UpdatedAt: d.int(),
	}
}

func decodeProvider(d *decoder) *Provider {
	d.exactly(9, "provider")
	p := &Provider{
		UUID: d.uuid(), Name: d.string(), Generation: d.int(), Parent: d.uuid(),
		CreatedAt: d.int(), UpdatedAt: d.int(),
	}
	n := d.array()
	for i := 0; i < n && d.err == nil; i++ {
		p.Inventories = append(p.Inventories, decodeInventory(d))
	}
	p.Traits, p.Aggregates = d.strings(), d.uuids()
	return p
}

func encodeConsumer(e *encoder, c *Consumer) {
	e.array(9)
	e.uuid(c.UUID)
	e.uint(c.Generation)
	e.int(c.CreatedAt)
	e.int(c.UpdatedAt)
	e.string(c.Owner.Project)
	e.string(c.Owner.User)
	e.string(c.Owner.Type)
	encodeAllocations(e, c.Allocations)
	e.int(c.ReservedUntil)
}

func encodeAllocations(e *encoder, allocations []Allocation) {
	e.array(3 * len(allocations))
	for _, a := range allocations {
		e.uuid(a.Provider)
		e.uint(uint64(a.Class))
		e.int(a.Amount)
	}
}

func decodeAllocations(d *decoder) []Allocation {
	n := d.array()
	if n%3 != 0 {
		d.fail("allocations have %d fields", n)
	}
	out := make([]Allocation, 0, n/3)
	for i := 0; i < n/3 && d.err == nil; i++ {
		out = append(out, Allocation{Provider: d.uuid(), Class: ClassID(d.uint()), Amount: d.int()})
	}
	return out
}

func decodeConsumer(d *decoder, version uint64) *Consumer {
	fields := 9
	if version == 1 {
		fields = 8 // there were no reservations
	}
	d.exactly(fields, "consumer")
	c := &Consumer{
		UUID: d.uuid(), Generation: d.uint(), CreatedAt: d.int(), UpdatedAt: d.int(),
		Owner:       &Owner{Project: d.string(), User: d.string(), Type: d.string()},
		Allocations: decodeAllocations(d),
	}
	if version > 1 {
		c.ReservedUntil = d.int()
	}
	return c
}

func encodeNode(e *encoder, n *Node) {
	e.array(13)
	e.uuid(n.UUID)
	e.uint(n.Number)
	encodeNodeDescription(e, n.NodeDescription)
	e.uuid(n.Instance)
	e.uuid(n.Allocation)
	e.string(n.ProvisionState)
	e.string(n.PowerState)
	e.bool(n.Maintenance)
	e.string(n.MaintenanceReason)
	e.strings(n.Traits)
	e.int(n.CreatedAt)
	e.int(n.UpdatedAt)
	e.int(n.ProvisionUpdatedAt)
}

func decodeNode(d *decoder) *Node {
	d.exactly(13, "node")
	return &Node{
		UUID: d.uuid(), Number: d.uint(), NodeDescription: decodeNodeDescription(d),
		Instance: d.uuid(), Allocation: d.uuid(), ProvisionState: d.string(), PowerState: d.string(),
		Maintenance: d.bool(), MaintenanceReason: d.string(), Traits: d.strings(),
		CreatedAt: d.int(), UpdatedAt: d.int(), ProvisionUpdatedAt: d.int(),
	}
}

func encodeNodeAllocation(e *encoder, a *NodeAllocation) {
	e.array(13)
	e.uuid(a.UUID)
	e.uint(a.Number)
	e.string(a.Name)
	e.string(a.ResourceClass)
	e.string(a.Owner)
	e.strings(a.Traits)
	e.uuids(a.CandidateNodes)
	e.string(string(a.Extra))
	e.string(string(a.State))
	e.string(a.LastError)
	e.uuid(a.Node)
	e.int(a.CreatedAt)
	e.int(a.UpdatedAt)
}

func decodeNodeAllocation(d *decoder) *NodeAllocation {
	d.exactly(13, "node allocation")
	return &NodeAllocation{
		UUID: d.uuid(), Number: d.uint(), Name: d.string(), ResourceClass: d.string(), Owner: d.string(),
		Traits: d.strings(), CandidateNodes: d.uuids(), Extra: d.document(),
		State: NodeAllocationState(d.string()), LastError: d.string(), Node: d.uuid(),
		CreatedAt: d.int(), UpdatedAt: d.int(),
	}
}

func (s *State) decodeNodes(d *decoder) error {
	s.nodeProviders, s.numbers = d.bool(), d.uint()
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		node := decodeNode(d)
		if d.err == nil {
			if err := s.setNode(nil, node); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
		}
	}
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		a := decodeNodeAllocation(d)
		if d.err == nil {
			if err := s.setNodeAllocation(nil, a); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
		}
	}
	return d.err
}

// DecodeState reads what Encode wrote. Damage gives an error that wraps
// ErrCorrupt or, where the parts contradict each other, ErrInvariant.
func DecodeState(data []byte) (*State, error) {
	s := NewState()
	d := newDecoder(data)
	fields := d.array()
	version := d.uint()
	if want, known := stateFields[version]; d.err == nil && (!known || fields != want) {
		d.fail("state version %d with %d fields is unknown", version, fields)
	}
	s.ledgerID = d.uuid()
	s.head = Head{Sequence: d.uint(), Digest: d.digest()}
	s.lastTime = d.int()
	s.nextClass = ClassID(d.uint())
	if err := s.decodeTables(d, version); err != nil {
		return nil, err
	}
	if version > 1 {
		if err := s.decodeNodes(d); err != nil {
			return nil, err
		}
	}
	if version > 2 {
		for i, n := 0, d.array(); i < n && d.err == nil; i++ {
			if c := decodeChassis(d); d.err == nil {
				s.setChassis(nil, c)
			}
		}
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	s.changes = Changes{}
	s.epoch++
	return s, nil
}

func (s *State) decodeTables(d *decoder, version uint64) error {
	classes := make([]Class, 0, 64)
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		d.exactly(4, "class")
		classes = append(classes, Class{ID: ClassID(d.uint()), Name: d.string(), CreatedAt: d.int(), UpdatedAt: d.int()})
	}
	s.classes = NewClassTable(classes)
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		d.exactly(2, "trait")
		s.traits.Set(&Trait{Name: d.string(), CreatedAt: d.int()})
	}
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		s.indexProvider(nil, decodeProvider(d))
	}
	if d.err != nil {
		return d.err
	}
	if err := s.decideRoots(); err != nil {
		return err
	}
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		c := decodeConsumer(d, version)
		if d.err != nil {
			break
		}
		owner, err := s.countUsage(c, 1)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		c.Owner = owner
		s.indexConsumer(nil, c)
		s.changes = Changes{}
	}
	return d.err
}

// decideRoots finds every provider's root from the parents.
func (s *State) decideRoots() error {
	var broken error
	s.providers.Scan(func(entry providerEntry) bool {
		p := entry.p
		root := p
		for depth := 0; !root.Parent.IsNil(); depth++ {
			parent, ok := s.Provider(root.Parent)
			if !ok || depth > s.providers.Len() {
				broken = fmt.Errorf("%w: provider %s has no root", ErrCorrupt, p.UUID)
				return false
			}
			root = parent
		}
		p.Root = root.UUID
		return true
	})
	return broken
}
