package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
)

// Versions of the State's form: 2 added nodes and reservations, 3 chassis, 4 the
// order of consumers' allocations, which older versions sorted, 5 the term, 6
// limits and the tree of projects, 7 preferences, and 8 limits of aggregates. Older
// versions can still be read, and the oldest one from 5 on is written that has all
// there is.
const (
	limitlessVersion      = 5 // without limits and a tree
	limitVersion          = 6
	preferenceVersion     = 7
	aggregateLimitVersion = 8
)

// sortedVersion is the last version with sorted allocations.
const sortedVersion = 3

// stateFlushBytes is how many bytes of a State are encoded before they are
// written out.
const stateFlushBytes = 1 << 16

// stateFields is the number of fields of each version of the form.
var stateFields = map[uint64]int{1: 10, 2: 14, 3: 15, 4: 15, 5: 16, 6: 18, 7: 19, 8: 20}

// Encode writes the State in its one canonical form: equal States give equal
// bytes. It does not change the State, and may run on a fork while the original
// goes on. A State that is not Ordered is written in version 3, which has no
// order.
func (s *State) Encode(w io.Writer) error {
	out := &stateWriter{w: w, e: newEncoder()}
	version := s.version()
	out.e.array(stateFields[version])
	out.e.uint(version)
	s.position(&out.e.form)
	writeEach(out, len(s.classes.byID), s.classes.each, (*Class).form)
	writeEach(out, s.traits.Len(), s.Traits, (*Trait).form)
	writeEach(out, s.providers.Len(), s.Providers, (*Provider).form)
	writeEach(out, s.consumers.Len(), s.Consumers, (*Consumer).form)
	out.e.form.bool(&s.nodeProviders).uint(&s.numbers)
	writeEach(out, s.nodes.Len(), s.Nodes, (*Node).form)
	writeEach(out, s.allocations.Len(), s.NodeAllocations, (*NodeAllocation).form)
	writeEach(out, s.chassis.Len(), s.AllChassis, (*Chassis).form)
	if version > 4 {
		s.term.form(&out.e.form)
	}
	if version > 5 {
		writeEach(out, s.limits.Len(), s.Limits, (*Limit).form)
		writeEach(out, s.parents.Len(), func(yield func(*ProjectParent) bool) {
			s.ProjectParents(func(p ProjectParent) bool { return yield(&p) })
		}, (*ProjectParent).form)
	}
	if version >= preferenceVersion {
		writeEach(out, s.preferences.Len(), s.Preferences, (*Preference).form)
	}
	if version >= aggregateLimitVersion {
		writeEach(out, s.aggregateLimits.Len(), s.AggregateLimits, (*AggregateLimit).form)
	}
	out.flushAt(0)
	return out.err
}

// version is that of the form in which the State is written.
func (s *State) version() uint64 {
	switch {
	case s.sorted:
		return sortedVersion
	case s.aggregateLimits.Len() > 0:
		return aggregateLimitVersion
	case s.preferences.Len() > 0:
		return preferenceVersion
	case s.limits.Len()+s.parents.Len() > 0:
		return limitVersion
	}
	return limitlessVersion
}

// DecodeState reads what Encode wrote. Damage gives an error that wraps
// ErrCorrupt or, where the parts contradict each other, ErrInvariant.
func DecodeState(data []byte) (*State, error) {
	s := NewState()
	d := newDecoder(data)
	fields, version := d.array(), d.uint()
	if want, known := stateFields[version]; d.err == nil && (!known || fields != want) {
		d.fail("state version %d with %d fields is unknown", version, fields)
	}
	s.sorted = version <= sortedVersion
	s.position(&d.form)
	if err := s.readTables(d, version); err != nil {
		return nil, err
	}
	if version > 1 {
		d.form.bool(&s.nodeProviders).uint(&s.numbers)
		if err := s.readNodes(d); err != nil {
			return nil, err
		}
	}
	if version > 2 {
		if err := readEach(d, (*Chassis).form, s.readChassis); err != nil {
			return nil, err
		}
	}
	if version > 4 {
		s.term.form(&d.form)
		if s.term.Number == 0 && s.term != (Term{}) {
			d.fail("there is no term, but %q leads it at level %d", s.term.Leader, s.term.Level)
		}
	}
	for _, part := range []struct {
		since uint64
		read  func(*decoder, uint64) error
	}{
		{limitVersion, s.readLimits}, {preferenceVersion, s.readPreferences},
		{aggregateLimitVersion, s.readAggregateLimits},
	} {
		if version < part.since {
			continue
		}
		if err := part.read(d, version); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(d.end(), s.term.known()); err != nil {
		return nil, err
	}
	s.changes = Changes{}
	s.epoch++
	return s, nil
}

// Ordered reports whether the State knows the order of consumers' allocations. A
// State read from version 3 or older has them sorted, unlike any replay of the
// log. It can be compared with a replay (see Sorted), but nothing can be built
// upon it.
func (s *State) Ordered() bool { return !s.sorted }

// Sorted returns the State in the form of versions up to 3, without the order of
// consumers' allocations. It must be called between commits.
func (s *State) Sorted() *State {
	sorted := s.Fork()
	sorted.sorted = true
	s.Consumers(func(c *Consumer) bool {
		if !slices.IsSortedFunc(c.Allocations, compareAllocations) {
			other := *c
			other.Allocations = sortedAllocations(c.Allocations)
			sorted.indexConsumer(c, &other)
		}
		return true
	})
	return sorted
}

// position visits the fields before the tables.
func (s *State) position(c *coder) {
	c.uuid(&s.ledgerID).uint(&s.head.Sequence).digest(&s.head.Digest).int(&s.lastTime).class(&s.nextClass)
}

func (s *State) readTables(d *decoder, version uint64) error {
	classes := make([]Class, 0, 64)
	if err := readEach(d, (*Class).form, func(class *Class) error {
		classes = append(classes, *class)
		return nil
	}); err != nil {
		return err
	}
	s.classes = NewClassTable(classes)
	if err := readEach(d, (*Trait).form, func(trait *Trait) error {
		s.traits.Set(trait)
		return nil
	}); err != nil {
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
	consumer := (*Consumer).form
	if version == 1 {
		consumer = (*Consumer).formV1
	}
	return readEach(d, consumer, s.readConsumer)
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

func (s *State) readChassis(c *Chassis) error {
	s.setChassis(nil, c)
	return nil
}

func (s *State) readNodes(d *decoder) error {
	if err := readEach(d, (*Node).form, func(n *Node) error { return s.setNode(nil, n) }); err != nil {
		return err
	}
	return readEach(d, (*NodeAllocation).form, func(a *NodeAllocation) error { return s.setNodeAllocation(nil, a) })
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
	c.fields("provider", 9).uuid(&p.UUID).text(&p.Name).int(&p.Generation).uuid(&p.Parent)
	c.int(&p.CreatedAt).int(&p.UpdatedAt)
	list(c, &p.Inventories, (*Inventory).form)
	c.strings(&p.Traits).uuids(&p.Aggregates)
}

// form leaves out the inventory's usage, which follows from the consumers.
func (inv *Inventory) form(c *coder) {
	c.fields("inventory", 8).class(&inv.Class).int(&inv.Total).int(&inv.Reserved).int(&inv.MinUnit)
	c.int(&inv.MaxUnit).int(&inv.StepSize).float(&inv.Ratio).int(&inv.UpdatedAt)
}

func (u *Consumer) form(c *coder) {
	u.formBeforeReservations(c.fields("consumer", 9))
	c.int(&u.ReservedUntil)
}

// formV1 is from before there were reservations.
func (u *Consumer) formV1(c *coder) { u.formBeforeReservations(c.fields("consumer", 8)) }

func (u *Consumer) formBeforeReservations(c *coder) {
	if u.Owner == nil { // it is being read
		u.Owner = &Owner{}
	}
	c.uuid(&u.UUID).uint(&u.Generation).int(&u.CreatedAt).int(&u.UpdatedAt)
	c.text(&u.Owner.Project).text(&u.Owner.User).text(&u.Owner.Type)
	flat(c, "allocations", 3, &u.Allocations, (*Allocation).form)
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
