package audit

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Why is the answer of GET /audit/why: the records that explain what a consumer
// holds of a provider.
type Why struct {
	Sequence uint64           `json:"sequence"` // sequence of the commit that the answer holds for
	Consumer ledger.UUID      `json:"consumer"`
	Provider ledger.UUID      `json:"provider"`
	Text     string           `json:"text"` // what it holds, in words
	Words    sentences.Words  `json:"words"`
	Holds    map[string]int64 `json:"holds"` // amounts by class
	// Changes are the records since the consumer held nothing of the provider,
	// newest first. If it holds nothing now, the first one is the record that
	// removed the last of it.
	Changes []WhyChange `json:"changes"`
	// Inventories are the records that last set the provider's inventories of
	// those classes.
	Inventories []WhyInventory `json:"inventories"`
	// Incomplete means that the histories have more records than one answer may
	// examine.
	Incomplete bool `json:"incomplete,omitempty"`
}

// WhyChange is a record that changed what the consumer held of the provider.
type WhyChange struct {
	Told
	Before map[string]int64 `json:"before"` // amounts by class
	After  map[string]int64 `json:"after"`
}

// WhyInventory is the record that last changed an inventory.
type WhyInventory struct {
	Class string `json:"class"`
	Told
	Before *wire.Inventory `json:"before"` // null: there was none
	After  *wire.Inventory `json:"after"`
}

// maxWhy is how many records are examined for each part of an answer.
const maxWhy = 20_000

type reasons struct {
	*Questions
	telling present.Telling
}

func (q *Questions) why(ctx context.Context, p *parameters) (any, error) {
	consumer, provider, telling := p.uuid("consumer"), p.uuid("provider"), q.telling(p)
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	w := &Why{
		Sequence: view.Sequence(), Consumer: consumer, Provider: provider, Changes: []WhyChange{},
		Inventories: []WhyInventory{},
	}
	if w.Holds, err = held(view, consumer, provider); err != nil {
		return nil, err
	}
	if w.Words, err = telling.Holds(view, consumer, provider); err != nil {
		return nil, err
	}
	w.Text = w.Words.String()
	r := reasons{q, telling}
	changes, err := r.whyChanges(ctx, view, w)
	if err != nil {
		return nil, err
	}
	if len(w.Changes) == 0 && changes {
		return nil, rest.NotFound("consumer %s never held anything of provider %s", consumer, provider)
	}
	inventories, err := r.whyInventories(ctx, view, w)
	w.Incomplete = !changes || !inventories
	return w, err
}

func held(view projector.View, consumer, provider ledger.UUID) (map[string]int64, error) {
	amounts := make(map[string]int64)
	all, err := present.Allocations(view, consumer)
	if err != nil || all == nil {
		return amounts, err
	}
	for _, a := range all.Allocations {
		if a.Provider == provider {
			amounts[a.Class] = a.Amount
		}
	}
	return amounts, nil
}

// around reads something by class as it was before and after a commit. Before the first commit there was nothing.
func around[T any](
	q reasons, at ledger.Address, read func(projector.View) (map[string]T, error),
) (before, after map[string]T, err error) {
	view, err := q.Views.ViewAt(at.Sequence)
	if err != nil {
		return nil, nil, err
	}
	if after, err = read(view); err != nil || at.Sequence == 1 {
		return make(map[string]T), after, err
	}
	if view, err = q.Views.ViewAt(at.Sequence - 1); err != nil {
		return nil, nil, err
	}
	before, err = read(view)
	return before, after, err
}

func (q reasons) whyChanges(ctx context.Context, view projector.View, w *Why) (complete bool, err error) {
	subject := projector.Subject{Kind: projector.ConsumerHistory, ID: w.Consumer}
	return q.backwards(ctx, view, subject, func(at ledger.Address, _ *ledger.Record) (bool, error) {
		before, after, err := around(q, at, func(view projector.View) (map[string]int64, error) {
			return held(view, w.Consumer, w.Provider)
		})
		if err != nil {
			return false, err
		}
		if !maps.Equal(before, after) {
			told, _, err := q.tell(ctx, q.telling, at, subject)
			if err != nil {
				return false, err
			}
			w.Changes = append(w.Changes, WhyChange{told, before, after})
		}
		begun := len(before) == 0 && len(w.Changes) > 0
		return !begun && (len(w.Holds) > 0 || len(w.Changes) == 0), nil
	})
}

// backwards calls yield for the records of a history, newest first, as long as it
// returns true. complete is false if the history has more records than may be
// examined.
func (q reasons) backwards(
	ctx context.Context, view projector.View, of projector.Subject,
	yield func(ledger.Address, *ledger.Record) (bool, error),
) (complete bool, err error) {
	walk := present.Walk{View: view, Subject: of}
	for range maxWhy {
		at, record, err := walk.Next()
		if err != nil || record == nil || ctx.Err() != nil {
			return true, errors.Join(err, ctx.Err())
		}
		if more, err := yield(at, record); err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// whyInventories finds the records that last changed the inventories of the
// classes that w is about.
func (q reasons) whyInventories(ctx context.Context, view projector.View, w *Why) (complete bool, err error) {
	wanted := make(map[string]bool)
	for _, change := range w.Changes {
		for _, amounts := range []map[string]int64{change.Before, change.After} {
			for class := range amounts {
				wanted[class] = true
			}
		}
	}
	// Allocations of a node's provider decide how much of it is reserved.
	ofNode, err := view.History(projector.NodeHistory, w.Provider, 0, 1)
	if err != nil {
		return false, err
	}
	isNode := len(ofNode) > 0
	subject := projector.Subject{Kind: projector.ProviderHistory, ID: w.Provider}
	return q.backwards(ctx, view, subject, func(at ledger.Address, r *ledger.Record) (bool, error) {
		if !isNode && commands.OnlyHoldings(r.Command) {
			return true, nil
		}
		before, after, err := around(q, at, func(view projector.View) (map[string]*wire.Inventory, error) {
			return inventories(view, w.Provider)
		})
		if err != nil {
			return false, err
		}
		for _, class := range slices.Sorted(maps.Keys(wanted)) {
			was, is := before[class], after[class]
			if sameInventory(was, is) {
				continue
			}
			told, _, err := q.tell(ctx, q.telling, at, subject)
			if err != nil {
				return false, err
			}
			w.Inventories = append(w.Inventories, WhyInventory{class, told, was, is})
			delete(wanted, class)
		}
		return len(wanted) > 0, nil
	})
}

func inventories(view projector.View, provider ledger.UUID) (map[string]*wire.Inventory, error) {
	all := make(map[string]*wire.Inventory)
	p, err := present.Provider(view, provider, nil)
	if err != nil || p == nil {
		return all, err
	}
	for i := range p.Inventories {
		all[p.Inventories[i].Class] = &p.Inventories[i]
	}
	return all, nil
}

// sameInventory compares two inventories, except for their usage.
func sameInventory(a, b *wire.Inventory) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Used, y.Used = 0, 0
	return x == y
}
