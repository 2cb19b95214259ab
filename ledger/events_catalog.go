package ledger

import "fmt"

// LedgerCreated is the first event of every log. Its id tells one ledger from
// another, so that a swapped stream is noticed.
type LedgerCreated struct {
	Ledger UUID `json:"ledger"`
}

func (ev *LedgerCreated) form(c *coder) { c.eventFields(1).uuid(&ev.Ledger) }

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

func (sc *StandardClass) form(c *coder) { c.class(&sc.ID).text(&sc.Name) }

// StandardNamesAdded states which standard traits and resource classes exist from now on.
// It is recorded when a server that knows more of them starts. So the State follows from
// the log alone, whichever release replays it.
type StandardNamesAdded struct {
	Classes []StandardClass `json:"classes,omitempty"`
	Traits  []string        `json:"traits,omitempty"`
}

func (ev *StandardNamesAdded) form(c *coder) {
	c.eventFields(2)
	flat(c, "standard classes", 2, &ev.Classes, (*StandardClass).form)
	c.strings(&ev.Traits)
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
	replace(s.traits, &s.changes.Traits, nil, &Trait{Name: name, CreatedAt: at.time})
	return nil
}

// TraitCreated states that a custom trait exists.
type TraitCreated struct {
	Name string `json:"name"`
}

func (ev *TraitCreated) form(c *coder) { c.eventFields(1).text(&ev.Name) }

func (ev TraitCreated) apply(s *State, at moment) error { return s.addTrait(ev.Name, at) }

// TraitDeleted states that a custom trait is gone. No provider had it.
type TraitDeleted struct {
	Name string `json:"name"`
}

func (ev *TraitDeleted) form(c *coder) { c.eventFields(1).text(&ev.Name) }

func (ev TraitDeleted) apply(s *State, _ moment) error {
	trait, ok := s.traits.Get(&Trait{Name: ev.Name})
	if !ok || s.TraitInUse(ev.Name) {
		return fmt.Errorf("%w: trait %s cannot go", ErrInvariant, ev.Name)
	}
	replace(s.traits, &s.changes.Traits, trait, nil)
	return nil
}

// ClassCreated states that a custom resource class exists.
type ClassCreated struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

func (ev *ClassCreated) form(c *coder) { c.eventFields(2).class(&ev.ID).text(&ev.Name) }

func (ev ClassCreated) apply(s *State, at moment) error {
	if ev.ID < s.nextClass {
		return fmt.Errorf("%w: custom class %s numbered %d", ErrInvariant, ev.Name, ev.ID)
	}
	return s.addClass(ev.ID, ev.Name, at)
}

// ClassRenamed states the new name of a custom resource class (microversions
// 1.2-1.6). Inventories and allocations of the class stay.
type ClassRenamed struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

func (ev *ClassRenamed) form(c *coder) { c.eventFields(2).class(&ev.ID).text(&ev.Name) }

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

// ClassDeleted states that a custom resource class is gone. No provider had
// inventory of it.
type ClassDeleted struct {
	ID   ClassID `json:"id"`
	Name string  `json:"name"`
}

func (ev *ClassDeleted) form(c *coder) { c.eventFields(2).class(&ev.ID).text(&ev.Name) }

func (ev ClassDeleted) apply(s *State, _ moment) error {
	if _, ok := s.classes.Get(ev.ID); !ok || s.ClassInUse(ev.ID) {
		return fmt.Errorf("%w: resource class %s cannot go", ErrInvariant, ev.Name)
	}
	s.setClasses(s.classes.without(ev.ID), s.nextClass)
	return nil
}
