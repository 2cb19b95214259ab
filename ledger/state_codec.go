package ledger

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
)

// stateVersion is the version of the State's form, and stateFields are its fields.
const (
	stateVersion = 1
	stateFields  = 22
)

// stateFlushBytes is how many bytes of a State are encoded before they are
// written out.
const stateFlushBytes = 1 << 16

// Encode writes the State in its one canonical form: equal States give equal
// bytes. It does not change the State, and may run on a fork while the original
// goes on.
func (s *State) Encode(w io.Writer) error {
	out := &stateWriter{w: w, e: newEncoder()}
	s.beginning(&out.e.form)
	writeEach(out, len(s.classes.byID), s.classes.each, (*Class).form)
	writeEach(out, s.traits.Len(), s.Traits, (*Trait).form)
	writeEach(out, s.providers.Len(), s.Providers, (*Provider).form)
	writeEach(out, s.consumers.Len(), s.Consumers, (*Consumer).form)
	out.e.form.bool(&s.nodeProviders).uint(&s.numbers)
	writeEach(out, s.nodes.Len(), s.Nodes, (*Node).form)
	writeEach(out, s.allocations.Len(), s.NodeAllocations, (*NodeAllocation).form)
	writeEach(out, s.chassis.Len(), s.AllChassis, (*Chassis).form)
	s.term.form(&out.e.form)
	out.e.form.int(&s.consumptionAt)
	writeEach(out, s.limits.Len(), s.Limits, (*Limit).form)
	writeEach(out, s.parents.Len(), func(yield func(*ProjectParent) bool) {
		s.ProjectParents(func(p ProjectParent) bool { return yield(&p) })
	}, (*ProjectParent).form)
	writeEach(out, s.preferences.Len(), s.Preferences, (*Preference).form)
	writeEach(out, s.aggregateLimits.Len(), s.AggregateLimits, (*AggregateLimit).form)
	writeEach(out, s.topologies.Len(), s.Topologies, (*Topology).form)
	out.flushAt(0)
	return out.err
}

// DecodeState reads what Encode wrote. Damage gives an error that wraps
// ErrCorrupt or, where the parts contradict each other, ErrInvariant.
func DecodeState(data []byte) (*State, error) {
	s := NewState()
	d := newDecoder(data)
	s.beginning(&d.form)
	if err := s.readTables(d); err != nil {
		return nil, err
	}
	d.form.bool(&s.nodeProviders).uint(&s.numbers)
	if err := s.readNodes(d); err != nil {
		return nil, err
	}
	s.term.form(&d.form)
	d.form.int(&s.consumptionAt)
	if s.term.Number == 0 && s.term != (Term{}) {
		d.fail("there is no term, but %q leads it at level %d", s.term.Leader, s.term.Level)
	}
	err := cmp.Or(
		s.readLimits(d), readTable(d, (*Preference).form, s.preferences), s.readAggregateLimits(d),
		readTable(d, (*Topology).form, s.topologies), d.end(), s.term.known(),
	)
	if err != nil {
		return nil, err
	}
	s.changes = Changes{}
	s.epoch++
	return s, nil
}

// beginning visits the fields before the tables.
func (s *State) beginning(c *coder) {
	c.fields("state", stateFields).version("state", stateVersion)
	c.uuid(&s.ledgerID).uint(&s.head.Sequence).digest(&s.head.Digest).int(&s.lastTime).class(&s.nextClass)
}

func (s *State) readTables(d *decoder) error {
	classes := make([]Class, 0, 64)
	if err := readEach(d, (*Class).form, func(class *Class) error {
		classes = append(classes, *class)
		return nil
	}); err != nil {
		return err
	}
	s.classes = NewClassTable(classes)
	if err := readTable(d, (*Trait).form, s.traits); err != nil {
		return err
	}
	if err := readEach(d, (*Provider).form, func(p *Provider) error {
		s.indexProvider(nil, p)
		return nil
	}); err != nil {
		return err
	}
	if err := s.decideRoots(); err != nil {
		return err
	}
	return readEach(d, (*Consumer).form, s.readConsumer)
}

// readConsumer adds a consumer, and counts its usages.
func (s *State) readConsumer(u *Consumer) error {
	owner, err := s.countUsage(u, 1)
	if err != nil {
		return err
	}
	u.Owner = owner
	s.indexConsumer(nil, u)
	s.changes = Changes{}
	return nil
}

func (s *State) readNodes(d *decoder) error {
	if err := readEach(d, (*Node).form, func(n *Node) error { return s.setNode(nil, n) }); err != nil {
		return err
	}
	take := func(a *NodeAllocation) error { return s.setNodeAllocation(nil, a) }
	if err := readEach(d, (*NodeAllocation).form, take); err != nil {
		return err
	}
	return readTable(d, (*Chassis).form, s.chassis)
}

// writeEach writes a table: its length, and each entry.
func writeEach[T any](out *stateWriter, n int, each func(func(*T) bool), form func(*T, *coder)) {
	out.e.array(n)
	each(func(one *T) bool {
		form(one, &out.e.form)
		return out.flushAt(stateFlushBytes)
	})
}

// readEach reads what writeEach wrote.
func readEach[T any](d *decoder, form func(*T, *coder), take func(*T) error) error {
	for i, n := 0, d.array(); i < n && d.err == nil; i++ {
		one := new(T)
		form(one, &d.form)
		if d.err != nil {
			break
		}
		if err := take(one); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	return d.err
}

// stateWriter passes an encoder's output on, in pieces.
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

// Digest returns the SHA-256 of the State's canonical form.
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

func (t *Class) form(c *coder) {
	c.fields("class", 4).class(&t.ID).text(&t.Name).int(&t.CreatedAt).int(&t.UpdatedAt)
}

func (t *Trait) form(c *coder) { c.fields("trait", 2).text(&t.Name).int(&t.CreatedAt) }

func (p *Provider) form(c *coder) {
	c.fields("provider", 11).uuid(&p.UUID).text(&p.Name).int(&p.Generation).uuid(&p.Parent)
	c.int(&p.CreatedAt).int(&p.UpdatedAt)
	list(c, &p.Inventories, (*Inventory).form)
	c.strings(&p.Traits).speltUUIDs(&p.Aggregates, &p.Spelt)
	flat(c, "counters", 2, &p.Counters, (*Counter).form)
	flat(c, "draws", 4, &p.Draws, (*Draw).form)
}

// form leaves out the inventory's usage, which follows from the consumers.
func (inv *Inventory) form(c *coder) {
	c.fields("inventory", 8).class(&inv.Class).int(&inv.Total).int(&inv.Reserved).int(&inv.MinUnit)
	c.int(&inv.MaxUnit).int(&inv.StepSize).float(&inv.Ratio).int(&inv.UpdatedAt)
}

func (u *Consumer) form(c *coder) {
	if u.Owner == nil { // it is being read
		u.Owner = &Owner{}
	}
	c.fields("consumer", 10).uuid(&u.UUID).uint(&u.Generation).int(&u.CreatedAt).int(&u.UpdatedAt)
	c.text(&u.Owner.Project).text(&u.Owner.User).text(&u.Owner.Type)
	flat(c, "allocations", 3, &u.Allocations, (*Allocation).form)
	c.int(&u.ReservedUntil).names(&u.Projects)
}

func (a *Allocation) form(c *coder) { c.uuid(&a.Provider).class(&a.Class).int(&a.Amount) }

func (n *Node) form(c *coder) {
	c.fields("node", 13).uuid(&n.UUID).uint(&n.Number)
	n.NodeDescription.form(c)
	c.uuid(&n.Instance).uuid(&n.Allocation).text(&n.ProvisionState).text(&n.PowerState)
	c.bool(&n.Maintenance).text(&n.MaintenanceReason).strings(&n.Traits)
	c.int(&n.CreatedAt).int(&n.UpdatedAt).int(&n.ProvisionUpdatedAt)
}

func (a *NodeAllocation) form(c *coder) {
	c.fields("node allocation", 13).uuid(&a.UUID).uint(&a.Number).text(&a.Name).text(&a.ResourceClass).text(&a.Owner)
	c.strings(&a.Traits).uuids(&a.CandidateNodes).document(&a.Extra).text((*string)(&a.State)).text(&a.LastError)
	c.uuid(&a.Node).int(&a.CreatedAt).int(&a.UpdatedAt)
}

// decideRoots derives every provider's root from the parents.
func (s *State) decideRoots() error {
	var broken error
	s.Providers(func(p *Provider) bool {
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
