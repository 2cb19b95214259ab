package ledger

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/allot-project/allot/ledger/ordered"
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
	f := &stateForm{coder: &newEncoder().form, w: w}
	s.form(f)
	f.flushAt(0)
	return f.err
}

// DecodeState reads what Encode wrote. Damage gives an error that wraps
// ErrCorrupt or, where the parts contradict each other, ErrInvariant.
func DecodeState(data []byte) (*State, error) {
	s, d := NewState(), newDecoder(data)
	f := &stateForm{coder: &d.form}
	s.form(f)
	if err := cmp.Or(f.err, d.end(), s.term.known()); err != nil {
		return nil, err
	}
	s.changes = Changes{}
	s.epoch++
	return s, nil
}

func (s *State) form(f *stateForm) {
	f.fields("state", stateFields).version("state", stateVersion)
	f.uuid(&s.ledgerID).uint(&s.head.Sequence).digest(&s.head.Digest).int(&s.lastTime).class(&s.nextClass)
	var classes []Class
	table(f, len(s.classes.byID), s.classes.each, (*Class).form, func(class *Class) error {
		classes = append(classes, *class)
		return nil
	})
	f.onceRead(func() error {
		s.classes = NewClassTable(classes)
		return nil
	})
	table(f, s.traits.Len(), s.Traits, (*Trait).form, into(s.traits))
	table(f, s.providers.Len(), s.Providers, (*Provider).form, func(p *Provider) error {
		s.indexProvider(nil, p)
		return nil
	})
	f.onceRead(s.decideRoots)
	table(f, s.consumers.Len(), s.Consumers, (*Consumer).form, s.readConsumer)
	f.bool(&s.nodeProviders).uint(&s.numbers)
	table(f, s.nodes.Len(), s.Nodes, (*Node).form, func(n *Node) error { return s.setNode(nil, n) })
	table(f, s.allocations.Len(), s.NodeAllocations, (*NodeAllocation).form, func(a *NodeAllocation) error {
		return s.setNodeAllocation(nil, a)
	})
	table(f, s.chassis.Len(), s.AllChassis, (*Chassis).form, into(s.chassis))
	s.term.form(f.coder)
	f.int(&s.consumptionAt)
	f.onceRead(s.checkTerm)
	table(f, s.limits.Len(), s.Limits, (*Limit).form, into(s.limits))
	table(f, s.parents.Len(), func(yield func(*ProjectParent) bool) {
		s.ProjectParents(func(p ProjectParent) bool { return yield(&p) })
	}, (*ProjectParent).form, func(p *ProjectParent) error {
		s.parents.Set(*p)
		return nil
	})
	f.onceRead(s.checkParents)
	table(f, s.preferences.Len(), s.Preferences, (*Preference).form, into(s.preferences))
	table(f, s.aggregateLimits.Len(), s.AggregateLimits, (*AggregateLimit).form, into(s.aggregateLimits))
	f.onceRead(s.countAllAggregates)
	table(f, s.topologies.Len(), s.Topologies, (*Topology).form, into(s.topologies))
}

func (s *State) checkTerm() error {
	if s.term.Number == 0 && s.term != (Term{}) {
		return fmt.Errorf("%w: there is no term, but %q leads it at level %d", ErrCorrupt, s.term.Leader, s.term.Level)
	}
	return nil
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

// stateForm visits a State, and passes an encoder's output on, in pieces.
type stateForm struct {
	*coder
	w   io.Writer // nil: reading
	err error
}

// onceRead does something with what was read, unless that was damaged.
func (f *stateForm) onceRead(do func() error) {
	if f.d == nil || f.err != nil {
		return
	}
	if f.err = f.d.err; f.err == nil {
		f.err = do()
	}
}

func (f *stateForm) flushAt(n int) bool {
	if f.err == nil {
		f.err = f.e.err
	}
	if f.err == nil && f.e.buf.Len() >= n {
		_, f.err = f.w.Write(f.e.buf.Bytes())
		f.e.buf.Reset()
	}
	return f.err == nil
}

// table visits a table: its length, and each entry, which take takes when it was read.
func table[T any](f *stateForm, n int, each func(func(*T) bool), form func(*T, *coder), take func(*T) error) {
	if f.e != nil {
		f.e.array(n)
		each(func(one *T) bool {
			form(one, f.coder)
			return f.flushAt(stateFlushBytes)
		})
	}
	f.onceRead(func() error {
		for i, n := 0, f.d.array(); i < n; i++ {
			one := new(T)
			if form(one, f.coder); f.d.err != nil {
				break
			}
			if err := take(one); err != nil {
				return fmt.Errorf("%w: %w", ErrCorrupt, err)
			}
		}
		return f.d.err
	})
}

// into returns the function that puts what was read into a table.
func into[T any](table ordered.Tree[*T]) func(*T) error {
	return func(one *T) error {
		table.Set(one)
		return nil
	}
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
