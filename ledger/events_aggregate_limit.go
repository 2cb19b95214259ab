package ledger

import "fmt"

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
