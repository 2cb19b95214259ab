package ledger

import "fmt"

// ContentsImported states that the contents of something else are in this ledger
// from now on: of a Placement, of an Ironic, or of a file. The records of the import name the record with
// this event as their cause, so each says where it came from.
type ContentsImported struct {
	Kind    string `json:"kind"`             // what was read: "placement", "ironic", "jsonl"
	Source  string `json:"source"`           // which one, without credentials
	Schema  string `json:"schema,omitempty"` // the version of its schema
	ReadAt  int64  `json:"read_at"`          // when it was read, in Unix nanoseconds
	Rows    uint64 `json:"rows"`
	LeftOut uint64 `json:"left_out"`
	// Rules are the rules that changed or noted rows, sorted by their names.
	Rules []ImportRule `json:"rules,omitempty"`
}

// ImportRule is how many rows an import's rule applied to.
type ImportRule struct {
	Name string `json:"name"`
	Rows uint64 `json:"rows"`
}

func (r *ImportRule) form(c *coder) { c.text(&r.Name).uint(&r.Rows) }

func (ev *ContentsImported) form(c *coder) {
	c.eventFields(7).text(&ev.Kind).text(&ev.Source).text(&ev.Schema).int(&ev.ReadAt).uint(&ev.Rows).uint(&ev.LeftOut)
	flat(c, "rules", 2, &ev.Rules, (*ImportRule).form)
}

func (ev ContentsImported) apply(_ *State, at moment) error {
	if ev.Kind == "" || ev.ReadAt > at.time || ev.LeftOut > ev.Rows {
		return fmt.Errorf("%w: import of %q, read at %d, with %d of %d rows left out",
			ErrInvariant, ev.Kind, ev.ReadAt, ev.LeftOut, ev.Rows)
	}
	return nil
}

// ImportedInventory is an inventory as it was in the source.
type ImportedInventory struct {
	InventoryRecord
	UpdatedAt int64 `json:"updated_at"` // Unix nanoseconds
}

func (r *ImportedInventory) form(c *coder) {
	c.fields("imported inventory", 2)
	r.InventoryRecord.form(c)
	c.int(&r.UpdatedAt)
}

// ProviderImported states that a provider exists as it was in the source of an
// import: its generation goes on, and its times are those of the source.
// ProviderCreated and the events about inventories, traits and aggregates cannot
// say so: they begin at generation 0, at the time of their record.
type ProviderImported struct {
	Provider    UUID                `json:"provider"`
	Name        string              `json:"name"`
	Parent      UUID                `json:"parent,omitzero"` // NilUUID: the root of a new tree
	Generation  int64               `json:"generation"`
	CreatedAt   int64               `json:"created_at"` // Unix nanoseconds
	UpdatedAt   int64               `json:"updated_at"` // Unix nanoseconds
	Inventories []ImportedInventory `json:"inventories,omitempty"`
	Traits      []string            `json:"traits,omitempty"`     // sorted, without duplicates
	Aggregates  []UUID              `json:"aggregates,omitempty"` // in order, without duplicates
	Counters    []Counter           `json:"counters,omitempty"`   // sorted by name
	Draws       []DrawRecord        `json:"draws,omitempty"`
	Origin      string              `json:"origin"` // the row in the source
}

func (ev ProviderImported) topic() Topic { return Topic{OfProvider, ev.Provider} }

func (ev *ProviderImported) form(c *coder) {
	c.eventFields(12).uuid(&ev.Provider).text(&ev.Name).uuid(&ev.Parent).int(&ev.Generation)
	c.int(&ev.CreatedAt).int(&ev.UpdatedAt)
	list(c, &ev.Inventories, (*ImportedInventory).form)
	c.strings(&ev.Traits).uuids(&ev.Aggregates)
	flat(c, "counters", 2, &ev.Counters, (*Counter).form)
	flat(c, "draws", 4, &ev.Draws, (*DrawRecord).form)
	c.text(&ev.Origin)
}

func (ev ProviderImported) apply(s *State, at moment) error {
	if err := validTimes(ev.CreatedAt, ev.UpdatedAt, at); err != nil {
		return err
	}
	// The provider is created in the past, because lists are in the order of
	// creation.
	made := ProviderCreated{Provider: ev.Provider, Name: ev.Name, Parent: ev.Parent}
	if err := made.apply(s, moment{sequence: at.sequence, time: ev.CreatedAt}); err != nil {
		return err
	}
	then := moment{sequence: at.sequence, time: ev.UpdatedAt}
	for _, r := range ev.Inventories {
		p, err := s.editProvider(ev.Provider)
		if err != nil {
			return err
		}
		if err := p.addInventory(r.InventoryRecord, s.classes, r.UpdatedAt); err != nil {
			return err
		}
	}
	traits := ProviderTraitsReplaced{Provider: ev.Provider, Generation: ev.Generation, Traits: ev.Traits}
	if err := traits.apply(s, then); err != nil {
		return err
	}
	aggregates := ProviderAggregatesReplaced{
		Provider: ev.Provider, Generation: ev.Generation, Aggregates: ev.Aggregates,
	}
	if err := aggregates.apply(s, then); err != nil || len(ev.Counters)+len(ev.Draws) == 0 {
		return err
	}
	return ProviderCountersReplaced{
		Provider: ev.Provider, Generation: ev.Generation, Counters: ev.Counters, Draws: ev.Draws,
	}.apply(s, then)
}

// validTimes refuses times of a source that come after their record, or that
// contradict each other.
func validTimes(created, updated int64, at moment) error {
	if created > updated || updated > at.time {
		return fmt.Errorf("%w: created at %d and updated at %d, in a record of %d", ErrInvariant, created, updated, at.time)
	}
	return nil
}

// ConsumerImported is AllocationsReplaced for what a consumer held in the source
// of an import. Its times are those of the source. Its generation is the sequence
// of the commit, as for every consumer.
type ConsumerImported struct {
	AllocationsReplaced
	Counted   int64  `json:"counted"`    // the generation that the source had counted
	CreatedAt int64  `json:"created_at"` // Unix nanoseconds
	UpdatedAt int64  `json:"updated_at"` // Unix nanoseconds
	Origin    string `json:"origin"`     // the row in the source
}

func (ev *ConsumerImported) form(c *coder) {
	c.eventFields(5)
	ev.AllocationsReplaced.form(c)
	c.int(&ev.Counted).int(&ev.CreatedAt).int(&ev.UpdatedAt).text(&ev.Origin)
}

func (ev ConsumerImported) apply(s *State, at moment) error {
	if err := validTimes(ev.CreatedAt, ev.UpdatedAt, at); err != nil {
		return err
	}
	if _, exists := s.consumerToEdit(ev.Consumer); exists {
		return fmt.Errorf("%w: consumer %s imported twice", ErrInvariant, ev.Consumer)
	}
	return ev.replace(s, moment{sequence: at.sequence, time: ev.UpdatedAt}, ev.CreatedAt, 0, nil)
}
