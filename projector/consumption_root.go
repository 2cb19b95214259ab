package projector

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// consumptionRoots writes where the roots of consumption of a record are.
func (w *writer) consumptionRoots(index int, r *ledger.Record) {
	for _, event := range r.Events {
		if set, is := event.(ledger.ConsumptionRootSet); is {
			w.p.key = append(w.p.key[:0], numberKey(tableConsumptionRoot, uint64(set.At))...)
			w.set(w.version(w.p.key), w.keep(binary.AppendUvarint(w.scratch(), uint64(index))))
		}
	}
}

// ConsumptionRecord finds the record with the root of what was consumed up to a moment, in
// Unix nanoseconds.
func (v View) ConsumptionRecord(at int64) (where ledger.Address, found bool, err error) {
	value, sequence, found, err := v.version(numberKey(tableConsumptionRoot, uint64(at)))
	if err != nil || !found {
		return where, false, err
	}
	f := fields{data: value}
	where = ledger.Address{Sequence: sequence, Index: int(f.uint())}
	return where, true, v.p.Judged(f.end("root of consumption"))
}

// ConsumptionRoots returns the first and the newest moment of a root of consumption, in Unix
// nanoseconds; 0: there is none.
func (v View) ConsumptionRoots() (first, newest int64, err error) {
	it, err := v.p.Iterate([]byte{tableConsumptionRoot}, []byte{tableConsumptionRoot + 1})
	if err != nil {
		return 0, 0, err
	}
	seen := func() bool { return versionOf(it.Key()) <= v.sequence }
	at := func() int64 { return int64(binary.BigEndian.Uint64(it.Key()[1:])) }
	if it.First() && seen() {
		first = at()
	}
	for ok := it.Last(); ok && newest == 0; ok = it.Prev() {
		if seen() {
			newest = at()
		}
	}
	return first, newest, it.Finish(nil)
}

// earliestRoot is how long ago the first root of a ledger may be.
const earliestRoot = 32 * 24 * int64(time.Hour)

// NextConsumptionRoot returns the moment of the root that is to come, in Unix nanoseconds: an
// hour after the newest one. In a ledger without any it is the first hour after the first
// commit, or the first of the last 32 days.
func (p *Projector) NextConsumptionRoot(now int64) (int64, error) {
	view := p.View()
	_, newest, err := view.ConsumptionRoots()
	if err != nil || newest > 0 {
		return newest + ledger.ConsumptionPeriod, err
	}
	_, first, found, err := view.CommitMark(1)
	if !found {
		first = now
	}
	begin := max(first, now-earliestRoot)
	return begin - begin%ledger.ConsumptionPeriod + ledger.ConsumptionPeriod, err
}

// ConsumptionRoot makes the root of what was consumed up to a moment that is over, in Unix
// nanoseconds. last is the sequence of the newest commit, if a later one may still count; 0: it
// was decided at the moment or later.
func (p *Projector) ConsumptionRoot(at int64) (root ledger.ConsumptionRoot, last uint64, err error) {
	newest, err := p.View().Moment()
	if err != nil {
		return root, 0, err
	}
	if newest.Time < at {
		last = newest.Sequence
	}
	moment, err := p.MomentAt(time.Unix(0, at), time.Unix(0, at))
	if err != nil && !errors.Is(err, ErrBeforeFirst) {
		return root, 0, err
	}
	tree, _, err := p.View().ConsumptionTree(moment, "")
	if err == nil {
		root.At = at
		root.Root, root.Projects = tree.Root()
	}
	return root, last, err
}

// ConsumptionTree makes the tree of what all projects have consumed up to a moment, and tells
// what one of them has; nil: it has never held anything by then.
func (v View) ConsumptionTree(at Moment, project string) (*proof.ConsumptionTree, *proof.Consumption, error) {
	names := View{p: v.p, sequence: at.Sequence}.ClassNames()
	tree := new(proof.ConsumptionTree)
	var asked *proof.Consumption
	for c, err := range v.ProjectsConsumption(at) {
		if err != nil {
			return nil, nil, err
		}
		one, err := c.proven(names)
		if err != nil {
			return nil, nil, err
		}
		if c.Project == project {
			asked = one
		}
		if err := tree.Add(one); err != nil {
			return nil, nil, err
		}
	}
	return tree, asked, nil
}

// proven is the consumption in the form that the tree has, with the names that classes had or,
// once they are deleted, had last.
func (c *ProjectConsumption) proven(names *ClassNames) (*proof.Consumption, error) {
	one := &proof.Consumption{Project: c.Project, Classes: make([]proof.ClassConsumed, len(c.Classes))}
	for i, used := range c.Classes {
		name, err := names.Of(used.Class)
		if err != nil {
			return nil, err
		}
		one.Classes[i] = proof.ClassConsumed{ID: int64(used.Class.ID), Class: name, AmountNS: used.UpTo.String()}
		if used.Class.Whole {
			one.Classes[i].ID = -1
		}
	}
	return one, nil
}
