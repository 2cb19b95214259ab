package audit

import (
	"context"
	"iter"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Diff is the answer of GET /audit/diff?from=MOMENT&to=MOMENT.
type Diff struct {
	From uint64 `json:"from"` // sequences
	To   uint64 `json:"to"`
	// Providers and Consumers are the first that differ, the counts are of all.
	Providers     []ProviderDiff `json:"providers"`
	ProviderCount int            `json:"provider_count"`
	Consumers     []ConsumerDiff `json:"consumers"`
	ConsumerCount int            `json:"consumer_count"`
	// Incomplete means that there are more differences than one answer holds.
	Incomplete bool `json:"incomplete,omitempty"`
	// AtLeast means that there are more entities than are examined, and that the
	// counts are of those that were.
	AtLeast bool `json:"at_least,omitempty"`
}

// ProviderDiff is a provider that differs; null: it did not exist.
type ProviderDiff struct {
	Before *wire.Provider `json:"before"`
	After  *wire.Provider `json:"after"`
}

// ConsumerDiff is a consumer whose allocations differ; null: it held nothing.
type ConsumerDiff struct {
	Text   string            `json:"text"` // what differs, in words
	Words  sentences.Words   `json:"words"`
	Before *wire.Allocations `json:"before"`
	After  *wire.Allocations `json:"after"`
}

const (
	maxDifferences = 1000 // per kind
	maxCompared    = 2_000_000
)

func (q *Questions) diff(ctx context.Context, p *parameters) (any, error) {
	if p.given["from"] == "" {
		return nil, rest.BadRequest("from: is needed")
	}
	from, err := q.viewAt(p.given["from"])
	if err != nil {
		return nil, err
	}
	to, err := q.viewAt(p.given["to"])
	if err != nil {
		return nil, err
	}
	d := &Diff{From: from.Sequence(), To: to.Sequence(), Providers: []ProviderDiff{}, Consumers: []ConsumerDiff{}}
	telling := q.telling(p)
	if p.fault != nil {
		return nil, p.fault
	}
	if err := d.providers(ctx, from, to); err != nil {
		return nil, err
	}
	return d, d.consumers(ctx, from, to, telling)
}

func (d *Diff) providers(ctx context.Context, from, to projector.View) error {
	id := func(p *ledger.Provider) ledger.UUID { return p.UUID }
	return differences(ctx, sequence(from.Providers), sequence(to.Providers), id,
		(*ledger.Provider).Same, func(before, after *ledger.Provider) error {
			if d.ProviderCount++; d.ProviderCount > maxDifferences {
				d.Incomplete = true
				return nil
			}
			var one ProviderDiff
			var err error
			if before != nil {
				one.Before, err = present.Provider(from, before.UUID, nil)
			}
			if after != nil && err == nil {
				one.After, err = present.Provider(to, after.UUID, nil)
			}
			d.Providers = append(d.Providers, one)
			return err
		}, &d.AtLeast)
}

func (d *Diff) consumers(ctx context.Context, from, to projector.View, telling present.Telling) error {
	was, err := from.Classes()
	if err != nil {
		return err
	}
	is, err := to.Classes()
	if err != nil {
		return err
	}
	same := func(a, b *ledger.Consumer) bool { return a.Generation == b.Generation }
	return differences(ctx, consumersOf(from), consumersOf(to), func(c *ledger.Consumer) ledger.UUID { return c.UUID },
		same, func(before, after *ledger.Consumer) error {
			if d.ConsumerCount++; d.ConsumerCount > maxDifferences {
				d.Incomplete = true
				return nil
			}
			var one ConsumerDiff
			var id ledger.UUID
			if before != nil {
				id, one.Before = before.UUID, present.AllocationsOf(before, was)
			}
			if after != nil {
				id, one.After = after.UUID, present.AllocationsOf(after, is)
			}
			var err error
			one.Words, err = telling.Consumer(to, id, one.Before, one.After)
			one.Text = one.Words.String()
			d.Consumers = append(d.Consumers, one)
			return err
		}, &d.AtLeast)
}

// sequence makes a sequence of what is yielded.
func sequence[T any](each func(yield func(*T) bool) error) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		stopped := false
		err := each(func(one *T) bool { stopped = !yield(one, nil); return !stopped })
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

func consumersOf(v projector.View) iter.Seq2[*ledger.Consumer, error] {
	return sequence(func(yield func(*ledger.Consumer) bool) error { return v.Consumers(ledger.NilUUID, yield) })
}

// differences walks through two lists in the order of their ids, side by side,
// and reports what differs.
func differences[T any](
	ctx context.Context, from, to iter.Seq2[*T, error], id func(*T) ledger.UUID, same func(a, b *T) bool,
	report func(before, after *T) error, atLeast *bool,
) error {
	nextBefore, stopBefore := iter.Pull2(from)
	defer stopBefore()
	nextAfter, stopAfter := iter.Pull2(to)
	defer stopAfter()
	before, err, _ := nextBefore()
	if err != nil {
		return err
	}
	after, err, _ := nextAfter()
	for compared := 0; err == nil && (before != nil || after != nil); compared++ {
		if compared == maxCompared {
			*atLeast = true
			return nil
		}
		one, other := before, after
		switch {
		case before == nil:
		case after == nil:
		case id(before).Compare(id(after)) < 0:
			other = nil
		case id(before).Compare(id(after)) > 0:
			one = nil
		}
		if one == nil || other == nil || !same(one, other) {
			if err := report(one, other); err != nil {
				return err
			}
		}
		if one != nil {
			before, err, _ = nextBefore()
		}
		if other != nil && err == nil {
			after, err, _ = nextAfter()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return err
}
