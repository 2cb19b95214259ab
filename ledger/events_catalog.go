package ledger

import "fmt"

// LedgerCreated is the first event of every log. Its id tells one ledger from
// another, so that a swapped stream is noticed.
type LedgerCreated struct {
	Ledger UUID `json:"ledger"`
}

// EventKind implements Event.
func (LedgerCreated) EventKind() string { return "LedgerCreated" }
func (LedgerCreated) code() eventCode   { return codeLedgerCreated }

func (ev LedgerCreated) encode(e *encoder) {
	e.array(1)
	e.uuid(ev.Ledger)
}

func decodeLedgerCreated(d *decoder) Event {
	d.exactly(1, "LedgerCreated")
	return LedgerCreated{Ledger: d.uuid()}
}

func (ev LedgerCreated) apply(s *State, _ moment) error {
	if !s.ledgerID.IsNil() || ev.Ledger.IsNil() {
		return fmt.Errorf("%w: ledger created twice", ErrInvariant)
	}
	s.ledgerID = ev.Ledger
	return nil
}

// StandardClass is a standard resource class and its place in Placement's list.
type StandardClass struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

// StandardNamesAdded says which standard traits and resource classes exist
// from now on. It is recorded when a server that knows more of them starts,
// so that the State follows from the log alone, whoever replays it.
type StandardNamesAdded struct {
	Classes []StandardClass `json:"classes,omitempty"`
	Traits  []string        `json:"traits,omitempty"`
}

// EventKind implements Event.
func (StandardNamesAdded) EventKind() string { return "StandardNamesAdded" }
func (StandardNamesAdded) code() eventCode   { return codeStandardNamesAdded }

func (ev StandardNamesAdded) encode(e *encoder) {
	e.array(2)
	e.array(2 * len(ev.Classes))
	for _, c := range ev.Classes {
		e.uint(uint64(c.ID))
		e.string(c.Name)
	}
	e.strings(ev.Traits)
}

func decodeStandardNamesAdded(d *decoder) Event {
	d.exactly(2, "StandardNamesAdded")
	n := d.array()
	if n%2 != 0 {
		d.fail("standard classes have %d fields", n)
	}
	ev := StandardNamesAdded{}
	for i := 0; i < n/2 && d.err == nil; i++ {
		ev.Classes = append(ev.Classes, StandardClass{ID: ClassID(d.uint()), Name: d.string()})
	}
	ev.Traits = d.strings()
	return ev
}

func (ev StandardNamesAdded) apply(s *State, at moment) error {
	for _, c := range ev.Classes {
		if c.ID >= FirstCustomClass {
			return fmt.Errorf("%w: standard class %s numbered %d", ErrInvariant, c.Name, c.ID)
		}
		if err := s.addClass(c.ID, c.Name, at); err != nil {
			return err
		}
	}
	for _, name := range ev.Traits {
		if err := s.addTrait(name, at); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) addClass(id ClassID, name string, at moment) error {
	_, named := s.classes.ID(name)
	_, numbered := s.classes.Get(id)
	if named || numbered {
		return fmt.Errorf("%w: resource class %s (%d) created twice", ErrInvariant, name, id)
	}
	next := s.nextClass
	if id >= next {
		next = id + 1
	}
	s.setClasses(s.classes.with(Class{ID: id, Name: name, CreatedAt: at.time, UpdatedAt: at.time}), next)
	return nil
}

func (s *State) addTrait(name string, at moment) error {
	if s.HasTrait(name) {
		return fmt.Errorf("%w: trait %s created twice", ErrInvariant, name)
	}
	s.setTrait(nil, &Trait{Name: name, CreatedAt: at.time})
	return nil
}

// TraitCreated says that a custom trait exists.
type TraitCreated struct {
	Name string `json:"name"`
}

// EventKind implements Event.
func (TraitCreated) EventKind() string { return "TraitCreated" }
func (TraitCreated) code() eventCode   { return codeTraitCreated }

func (ev TraitCreated) encode(e *encoder) {
	e.array(1)
	e.string(ev.Name)
}

func decodeTraitCreated(d *decoder) Event {
	d.exactly(1, "TraitCreated")
	return TraitCreated{Name: d.string()}
}

func (ev TraitCreated) apply(s *State, at moment) error { return s.addTrait(ev.Name, at) }

// TraitDeleted says that a custom trait, which no provider had, is gone.
type TraitDeleted struct {
	Name string `json:"name"`
}

// EventKind implements Event.
func (TraitDeleted) EventKind() string { return "TraitDeleted" }
func (TraitDeleted) code() eventCode   { return codeTraitDeleted }

func (ev TraitDeleted) encode(e *encoder) {
	e.array(1)
	e.string(ev.Name)
}

func decodeTraitDeleted(d *decoder) Event {
	d.exactly(1, "TraitDeleted")
	return TraitDeleted{Name: d.string()}
}

func (ev TraitDeleted) apply(s *State, _ moment) error {
	trait, ok := s.traits.Get(&Trait{Name: ev.Name})
	if !ok || s.TraitInUse(ev.Name) {
		return fmt.Errorf("%w: trait %s cannot go", ErrInvariant, ev.Name)
	}
	s.setTrait(trait, nil)
	return nil
}

// ClassCreated says that a custom resource class exists.
type ClassCreated struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

// EventKind implements Event.
func (ClassCreated) EventKind() string { return "ClassCreated" }
func (ClassCreated) code() eventCode   { return codeClassCreated }

func (ev ClassCreated) encode(e *encoder) {
	e.array(2)
	e.uint(uint64(ev.ID))
	e.string(ev.Name)
}

func decodeClassCreated(d *decoder) Event {
	d.exactly(2, "ClassCreated")
	return ClassCreated{ID: ClassID(d.uint()), Name: d.string()}
}

func (ev ClassCreated) apply(s *State, at moment) error {
	if ev.ID < s.nextClass {
		return fmt.Errorf("%w: custom class %s numbered %d", ErrInvariant, ev.Name, ev.ID)
	}
	return s.addClass(ev.ID, ev.Name, at)
}

// ClassRenamed says that a custom resource class has another name
// (microversions 1.2-1.6). Inventories and allocations of it are the same.
type ClassRenamed struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

// EventKind implements Event.
func (ClassRenamed) EventKind() string { return "ClassRenamed" }
func (ClassRenamed) code() eventCode   { return codeClassRenamed }

func (ev ClassRenamed) encode(e *encoder) {
	e.array(2)
	e.uint(uint64(ev.ID))
	e.string(ev.Name)
}

func decodeClassRenamed(d *decoder) Event {
	d.exactly(2, "ClassRenamed")
	return ClassRenamed{ID: ClassID(d.uint()), Name: d.string()}
}

func (ev ClassRenamed) apply(s *State, at moment) error {
	class, ok := s.classes.Get(ev.ID)
	if !ok {
		return fmt.Errorf("%w: no resource class %d", ErrInvariant, ev.ID)
	}
	if holder, taken := s.classes.ID(ev.Name); taken && holder != ev.ID {
		return fmt.Errorf("%w: resource class name %s used twice", ErrInvariant, ev.Name)
	}
	class.Name, class.UpdatedAt = ev.Name, at.time
	s.setClasses(s.classes.with(class), s.nextClass)
	return nil
}

// ClassDeleted says that a custom resource class, of which no provider had
// inventory, is gone.
type ClassDeleted struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

// EventKind implements Event.
func (ClassDeleted) EventKind() string { return "ClassDeleted" }
func (ClassDeleted) code() eventCode   { return codeClassDeleted }

func (ev ClassDeleted) encode(e *encoder) {
	e.array(2)
	e.uint(uint64(ev.ID))
	e.string(ev.Name)
}

func decodeClassDeleted(d *decoder) Event {
	d.exactly(2, "ClassDeleted")
	return ClassDeleted{ID: ClassID(d.uint()), Name: d.string()}
}

func (ev ClassDeleted) apply(s *State, _ moment) error {
	if _, ok := s.classes.Get(ev.ID); !ok || s.ClassInUse(ev.ID) {
		return fmt.Errorf("%w: resource class %s cannot go", ErrInvariant, ev.Name)
	}
	s.setClasses(s.classes.without(ev.ID), s.nextClass)
	return nil
}
