package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// limitKey is where a limit is: those of one project are side by side.
func limitKey(key ledger.LimitKey) []byte {
	return binary.BigEndian.AppendUint32(appendText(textKey(tableLimit, key.Project), key.Type), uint32(key.Class))
}

// Limits calls yield for every limit, those of one project side by side, as long as it returns true.
func (v View) Limits(yield func(ledger.Limit) bool) error {
	return eachOf(v, []byte{tableLimit}, []byte{tableLimit}, readLimit, yield)
}

func appendLimit(b []byte, l *ledger.Limit) []byte { return binary.AppendVarint(b, l.Most) }

func readLimit(key []byte, _ uint64, value []byte) (limit ledger.Limit, err error) {
	texts, rest, err := textsOf(key, 2)
	if err != nil || len(rest) != 4 {
		return limit, fmt.Errorf("%w: limit key", ErrDamaged)
	}
	limit.Project, limit.Type, limit.Class = texts[0], texts[1], ledger.ClassID(binary.BigEndian.Uint32(rest))
	f := fields{data: value}
	limit.Most = f.int()
	return limit, f.end("limit")
}

// ProjectParents calls yield for every project that is below another one.
func (v View) ProjectParents(yield func(ledger.ProjectParent) bool) error {
	return v.each([]byte{tableParent}, func(key []byte, _ uint64, value []byte) (bool, error) {
		return yield(ledger.ProjectParent{Project: string(key[3:]), Parent: string(value)}), nil
	})
}

// aggregateKey is where a limit of an aggregate is, or what is held there.
func aggregateKey(table byte, key ledger.AggregateKey) []byte {
	return binary.BigEndian.AppendUint32(idKey(table, key.Aggregate), uint32(key.Class))
}

// aggregateLimits writes the steps of limits, and of what is held of what they limit. A
// limit has versions of its own, so that each stands for one command that set it.
func (w *writer) aggregateLimits() {
	set := make(map[ledger.AggregateKey]bool)
	for _, c := range w.changes.AggregateLimits {
		if c.After != nil && (c.Before == nil || c.Before.Most != c.After.Most) {
			set[c.After.AggregateKey] = true
		}
	}
	for _, c := range w.changes.AggregateLimits {
		if c.After == nil {
			w.set(w.version(aggregateKey(tableAggregate, c.Before.AggregateKey)), nil)
			w.set(w.version(aggregateKey(tableAggregateUse, c.Before.AggregateKey)), nil)
			continue
		}
		key := c.After.AggregateKey
		if set[key] {
			w.set(w.version(aggregateKey(tableAggregate, key)), w.keep(binary.AppendVarint(w.scratch(), c.After.Most)))
		}
		w.set(w.version(aggregateKey(tableAggregateUse, key)), w.keep(binary.AppendVarint(w.scratch(), c.After.Used)))
	}
}

// AggregateLimits calls yield for the limit of each class in each aggregate, with what is
// held of it, as long as it returns true.
func (v View) AggregateLimits(yield func(ledger.AggregateLimit) bool) error {
	return v.each([]byte{tableAggregate}, func(key []byte, _ uint64, value []byte) (bool, error) {
		limit, err := readAggregateLimit(key, value)
		if err != nil {
			return false, err
		}
		used, _, found, err := v.version(aggregateKey(tableAggregateUse, limit.AggregateKey))
		if err != nil {
			return false, err
		}
		f := fields{data: used}
		if limit.Used = f.int(); !found || f.end("use of an aggregate") != nil {
			return false, fmt.Errorf("%w: use of aggregate %s", ErrDamaged, limit.Aggregate)
		}
		return yield(limit), nil
	})
}

func readAggregateLimit(key, value []byte) (limit ledger.AggregateLimit, err error) {
	if len(key) != 1+len(limit.Aggregate)+4 {
		return limit, fmt.Errorf("%w: key of an aggregate's limit", ErrDamaged)
	}
	copy(limit.Aggregate[:], key[1:])
	limit.Class = ledger.ClassID(binary.BigEndian.Uint32(key[1+len(limit.Aggregate):]))
	f := fields{data: value}
	limit.Most = f.int()
	return limit, f.end("limit of an aggregate")
}

// LimitVersions calls yield for every version of a limit of projects, the newest
// first, with the sequence of the commit that set it; nil: it was removed.
func (v View) LimitVersions(key ledger.LimitKey, yield func(most *int64, sequence uint64) bool) error {
	return v.limitVersions(limitKey(key), yield)
}

// AggregateLimitVersions is LimitVersions for the limit of an aggregate.
func (v View) AggregateLimitVersions(key ledger.AggregateKey, yield func(most *int64, sequence uint64) bool) error {
	return v.limitVersions(aggregateKey(tableAggregate, key), yield)
}

func (v View) limitVersions(key []byte, yield func(*int64, uint64) bool) error {
	return versionsOf(v, key, func(value []byte) (*int64, error) {
		f := fields{data: value}
		most := f.int()
		return &most, f.end("limit")
	}, yield)
}
