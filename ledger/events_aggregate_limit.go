package ledger

import (
	"cmp"
	"fmt"
	"slices"
)

// AggregateLimitSet says how much of a class all consumers together may hold on
// the providers of an aggregate.
type AggregateLimitSet struct {
	Aggregate UUID   `json:"aggregate"`
	Class     string `json:"class"`
	Most      int64  `json:"most"`
}

func (ev *AggregateLimitSet) form(c *coder) {
	c.eventFields(3).uuid(&ev.Aggregate).text(&ev.Class).int(&ev.Most)
}

func (ev AggregateLimitSet) apply(s *State, _ moment) error {
	key, err := s.aggregateKey(ev.Aggregate, ev.Class)
	if err != nil {
		return err
	}
	if ev.Most < 0 {
		return fmt.Errorf("%w: a limit of %d", ErrInvariant, ev.Most)
	}
	if before, exists := s.AggregateLimit(key); exists {
		s.editAggregateLimit(before).Most = ev.Most
		return nil
	}
	replace(s.aggregateLimits, &s.changes.AggregateLimits, nil, &AggregateLimit{
		AggregateKey: key, Most: ev.Most, Used: s.usedIn(key), epoch: s.epoch,
	})
	return nil
}

// AggregateLimitRemoved says that there is such a limit no more.
type AggregateLimitRemoved struct {
	Aggregate UUID   `json:"aggregate"`
	Class     string `json:"class"`
}

func (ev *AggregateLimitRemoved) form(c *coder) { c.eventFields(2).uuid(&ev.Aggregate).text(&ev.Class) }

func (ev AggregateLimitRemoved) apply(s *State, _ moment) error {
	key, err := s.aggregateKey(ev.Aggregate, ev.Class)
	if err != nil {
		return err
	}
	before, exists := s.AggregateLimit(key)
	if !exists {
		return fmt.Errorf("%w: there is no limit of %s in aggregate %s", ErrInvariant, ev.Class, ev.Aggregate)
	}
	replace(s.aggregateLimits, &s.changes.AggregateLimits, before, nil)
	return nil
}

func (s *State) aggregateKey(aggregate UUID, class string) (AggregateKey, error) {
	id, known := s.classes.ID(class)
	if !known || aggregate.IsNil() {
		return AggregateKey{}, fmt.Errorf("%w: a limit of class %q in aggregate %s", ErrInvariant, class, aggregate)
	}
	return AggregateKey{aggregate, id}, nil
}

// AggregateKey is a class on the providers of an aggregate.
type AggregateKey struct {
	Aggregate UUID
	Class     ClassID
}

// Compare orders by aggregate, then by class.
func (k AggregateKey) Compare(other AggregateKey) int {
	return cmp.Or(k.Aggregate.Compare(other.Aggregate), cmp.Compare(k.Class, other.Class))
}

// AggregateLimit is how much of a class all consumers together may hold on the
// providers of an aggregate, and how much they do.
type AggregateLimit struct {
	AggregateKey
	Most int64
	// Used follows from the consumers, as that of an inventory. It is kept only of
	// what is limited.
	Used  int64
	epoch uint64
}

// AggregatesLimited reports whether any aggregate has a limit.
func (s *State) AggregatesLimited() bool { return s.aggregateLimits.Len() > 0 }

// AggregateLimit finds the limit of a class in an aggregate.
func (s *State) AggregateLimit(key AggregateKey) (*AggregateLimit, bool) {
	return s.aggregateLimits.Get(&AggregateLimit{AggregateKey: key})
}

// AggregateLimits calls yield for each limit of an aggregate, in order, until it
// returns false.
func (s *State) AggregateLimits(yield func(*AggregateLimit) bool) { s.aggregateLimits.Scan(yield) }

// AggregatesOf are those for which counts what is held on a provider: its own,
// and those of its root, for what a root is in, its tree is in.
func (s *State) AggregatesOf(p *Provider) []UUID {
	if p.Root == p.UUID {
		return p.Aggregates
	}
	root, _ := s.Provider(p.Root)
	return WithRoot(p, root)
}

// WithRoot are the aggregates of a provider and those of its root, each once.
func WithRoot(p, root *Provider) []UUID {
	all := p.Aggregates
	if root == nil || root.UUID == p.UUID {
		return all
	}
	for _, id := range root.Aggregates {
		if !slices.Contains(all, id) {
			all = append(slices.Clip(all), id)
		}
	}
	return all
}

// countAggregates adds to what is held in the limited aggregates of a provider.
func (s *State) countAggregates(p *Provider, class ClassID, amount int64) {
	if !s.AggregatesLimited() || amount == 0 {
		return
	}
	for _, id := range s.AggregatesOf(p) {
		if before, limited := s.AggregateLimit(AggregateKey{id, class}); limited {
			s.editAggregateLimit(before).Used += amount
		}
	}
}

// countTree adds what is held on a provider and on those below it to their limited
// aggregates, or with sign -1 takes it away: before and after a change of what
// they are in.
func (s *State) countTree(id UUID, sign int64) {
	if !s.AggregatesLimited() {
		return
	}
	p, exists := s.Provider(id)
	if !exists {
		return
	}
	for i := range p.Inventories {
		s.countAggregates(p, p.Inventories[i].Class, sign*p.Inventories[i].Used)
	}
	s.Children(id, func(child UUID) bool {
		s.countTree(child, sign)
		return true
	})
}

// usedIn counts what is held of a class in an aggregate, which takes as long as
// there are providers: only a new limit asks.
func (s *State) usedIn(key AggregateKey) (used int64) {
	s.Providers(func(p *Provider) bool {
		if i, has := p.findInventory(key.Class); has && p.Inventories[i].Used != 0 &&
			slices.Contains(s.AggregatesOf(p), key.Aggregate) {
			used += p.Inventories[i].Used
		}
		return true
	})
	return used
}

// editAggregateLimit returns this commit's copy, which the caller may change.
func (s *State) editAggregateLimit(before *AggregateLimit) *AggregateLimit {
	if before.epoch == s.epoch {
		return before
	}
	after := *before
	after.epoch = s.epoch
	replace(s.aggregateLimits, &s.changes.AggregateLimits, before, &after)
	return &after
}

// form leaves out what is used, which follows from the consumers.
func (l *AggregateLimit) form(c *coder) {
	c.fields("aggregate limit", 3).uuid(&l.Aggregate).class(&l.Class).int(&l.Most)
}

// countAllAggregates counts what is held, for limits that were read.
func (s *State) countAllAggregates() error {
	s.Providers(func(p *Provider) bool {
		for i := range p.Inventories {
			s.countAggregates(p, p.Inventories[i].Class, p.Inventories[i].Used)
		}
		return true
	})
	return nil
}
