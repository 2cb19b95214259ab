package audit

import (
	"context"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// atOnce is how many providers or consumers are read at a time. They are read
// before they are written, so that a slow client keeps no place from others.
const atOnce = 1000

// contentBytes is what one takes in memory, about.
const contentBytes = 512

// contents is GET /audit/contents: all that allot-migrate import jsonl takes, as of one
// moment. Commands that need everything ask it instead of asking for each provider
// and each consumer.
func (q *Questions) contents(p *parameters) (func(context.Context, *lines) error, error) {
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, to *lines) error {
		classes, err := view.Classes()
		if err != nil {
			return err
		}
		if err := tellNames(view, classes, to); err != nil {
			return err
		}
		tell := contentsTeller{q: q, classes: classes, to: to}
		providers := func(after ledger.UUID, yield func(present.Content, ledger.UUID) bool) error {
			return view.ProvidersAfter(after, func(p *ledger.Provider) bool { return yield(tell.provider(p), p.UUID) })
		}
		if err := tell.all(ctx, providers); err != nil {
			return err
		}
		return tell.all(ctx, func(after ledger.UUID, yield func(present.Content, ledger.UUID) bool) error {
			return view.Consumers(after, func(c *ledger.Consumer) bool { return yield(tell.consumer(c), c.UUID) })
		})
	}, nil
}

// tellNames writes the classes, in the order of their numbers, and the traits.
func tellNames(view projector.View, classes *ledger.ClassTable, to *lines) error {
	var list []present.Content
	for _, class := range classes.All() {
		list = append(list, present.Content{Kind: present.KindClass, Name: class.Name, CreatedAt: nanoTime(class.CreatedAt)})
	}
	err := view.Traits(func(t *ledger.Trait) bool {
		list = append(list, present.Content{Kind: present.KindTrait, Name: t.Name, CreatedAt: nanoTime(t.CreatedAt)})
		return true
	})
	if err != nil {
		return err
	}
	return writeLines(to, list)
}

func writeLines(to *lines, list []present.Content) error {
	if err := to.hold(len(list) * contentBytes); err != nil {
		return err
	}
	for i := range list {
		if err := to.line(ledger.Address{}, &list[i]); err != nil {
			return err
		}
	}
	return to.flush()
}

// contentsTeller writes what a view holds, a part after the other.
type contentsTeller struct {
	q       *Questions
	classes *ledger.ClassTable
	to      *lines
}

// all writes the parts that each yields, each of which begins after the last
// entity of the one before, until one is empty. It has a place while it reads.
func (t *contentsTeller) all(
	ctx context.Context, each func(after ledger.UUID, yield func(present.Content, ledger.UUID) bool) error,
) error {
	for after := ledger.NilUUID; ; {
		work, err := t.q.Fair.Long(ctx, t.to.asker)
		if err != nil {
			return err
		}
		var list []present.Content
		err = each(after, func(one present.Content, id ledger.UUID) bool {
			list, after = append(list, one), id
			return len(list) < atOnce
		})
		work.End()
		if err != nil || len(list) == 0 {
			return err
		}
		if err := writeLines(t.to, list); err != nil {
			return err
		}
	}
}

func (t *contentsTeller) provider(p *ledger.Provider) present.Content {
	line := present.Content{
		Kind: present.KindProvider, UUID: p.UUID.String(), Name: p.Name, Generation: p.Generation, Traits: p.Traits,
		CreatedAt: nanoTime(p.CreatedAt), UpdatedAt: nanoTime(p.UpdatedAt), Counters: p.Counters,
		Draws: present.DrawsOf(t.classes, p),
	}
	if !p.Parent.IsNil() {
		line.Parent = p.Parent.String()
	}
	for _, id := range p.Aggregates {
		line.Aggregates = append(line.Aggregates, id.String())
	}
	for i := range p.Inventories {
		inv := &p.Inventories[i]
		line.Inventories = append(line.Inventories, present.Inventory{
			Class: t.classes.Name(inv.Class), Total: &inv.Total, Reserved: inv.Reserved, MinUnit: &inv.MinUnit,
			MaxUnit: &inv.MaxUnit, StepSize: &inv.StepSize, Ratio: &inv.Ratio, UpdatedAt: nanoTime(inv.UpdatedAt),
		})
	}
	return line
}

func (t *contentsTeller) consumer(c *ledger.Consumer) present.Content {
	line := present.Content{
		Kind: present.KindConsumer, UUID: c.UUID.String(), Project: c.Owner.Project, User: c.Owner.User, Type: c.Owner.Type,
		Generation: int64(c.Generation), CreatedAt: nanoTime(c.CreatedAt), UpdatedAt: nanoTime(c.UpdatedAt),
	}
	for _, a := range c.Allocations {
		line.Allocations = append(line.Allocations, present.Allocation{
			Provider: a.Provider.String(), Class: t.classes.Name(a.Class), Amount: a.Amount,
		})
	}
	return line
}

// nanoTime returns a time in Unix nanoseconds as lines have it; 0: there is none.
func nanoTime(nanoseconds int64) *time.Time {
	if nanoseconds == 0 {
		return nil
	}
	return new(time.Unix(0, nanoseconds).UTC())
}
