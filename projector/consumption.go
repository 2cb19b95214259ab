package projector

import (
	"cmp"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// Moment is a time, with the sequence of the last commit that was decided at or before it.
type Moment struct {
	Sequence uint64
	Time     int64 // Unix nanoseconds
}

// MomentAt is ViewAtTime for a Moment, which may be before the first commit: its sequence is 0 then.
func (p *Projector) MomentAt(at, now time.Time) (Moment, error) {
	view, err := p.ViewAtTime(at, now)
	if errors.Is(err, ErrBeforeFirst) {
		err = nil
	}
	return Moment{view.sequence, at.UnixNano()}, err
}

// Moment is when the view's commit was decided.
func (v View) Moment() (Moment, error) {
	if v.sequence == 0 {
		return Moment{}, nil // before the first
	}
	last, err := v.p.lastCommit(v.sequence)
	if err != nil {
		return Moment{}, err
	}
	_, at, _, err := v.CommitMark(last)
	return Moment{v.sequence, at}, err
}

// WholeNodes is the type of an owner that stands for node allocations.
const WholeNodes = "NODE"

// ConsumedClass is a resource class of consumers or, with a name, of whole nodes.
type ConsumedClass struct {
	ID    ledger.ClassID
	Nodes string // as their allocations name it
	Whole bool
}

// Compare orders classes by their numbers, those of whole nodes behind by their names.
func (c ConsumedClass) Compare(other ConsumedClass) int {
	if c.Whole != other.Whole {
		if c.Whole {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(c.ID, other.ID), cmp.Compare(c.Nodes, other.Nodes))
}

// ClassNames tells what classes are called as of a view or, once they are deleted, were called
// last. It remembers what it was asked, and is for one answer.
type ClassNames struct {
	view  View
	known map[ledger.ClassID]string
}

// ClassNames returns the names of classes as of the view.
func (v View) ClassNames() *ClassNames { return &ClassNames{v, make(map[ledger.ClassID]string)} }

// Of returns the name of a class.
func (n *ClassNames) Of(class ConsumedClass) (name string, err error) {
	if class.Whole {
		return class.Nodes, nil
	}
	name, known := n.known[class.ID]
	if !known {
		name, err = n.view.ClassName(class.ID)
		n.known[class.ID] = name
	}
	return name, err
}

// Consumed is what an owner consumed of a class: amounts times nanoseconds, from the
// ledger's beginning up to each of some moments.
type Consumed struct {
	Owner ledger.Owner
	Class ConsumedClass
	UpTo  []ledger.Integral
}

// Consumption calls yield for each class that each owner ever held before the last of some
// moments, which must ascend, as long as it returns true. With a project it is of that one
// alone, and with a user of that project's user. What is yielded must not be kept.
func (v View) Consumption(project, user string, moments []Moment, yield func(*Consumed) bool) error {
	for _, table := range [...]byte{tableUsage, tableWholeNodes} {
		prefix := []byte{table}
		if project != "" {
			prefix = textKey(table, project)
		}
		if user != "" && table == tableWholeNodes {
			return nil // they have no users
		}
		if user != "" {
			prefix = appendText(prefix, user)
		}
		for c, err := range v.consumed(prefix, moments) {
			if err != nil || !yield(c) {
				return err
			}
		}
	}
	return nil
}

// consumed yields what is at the keys of one table that begin with a prefix.
func (v View) consumed(prefix []byte, moments []Moment) iter.Seq2[*Consumed, error] {
	return func(yield func(*Consumed, error) bool) {
		one := &Consumed{UpTo: make([]ledger.Integral, len(moments))}
		err := v.atMoments(prefix, moments, func(key []byte, at []runs) (bool, error) {
			if err := one.readKey(key); err != nil {
				return false, err
			}
			for _, r := range at[len(at)-1] {
				one.Class.ID = r.Class
				fill(one.UpTo, at, moments, r.Class)
				if !yield(one, nil) {
					return false, nil
				}
			}
			return true, nil
		})
		if err != nil {
			yield(nil, err)
		}
	}
}

// readKey reads whose the amounts at a key are and, of whole nodes, of which class.
func (c *Consumed) readKey(key []byte) error {
	if key[0] == tableUsage {
		owner, err := ownerOf(key)
		if err == nil {
			c.Owner = *owner
		}
		return err
	}
	parts, _, err := textsOf(key, 2)
	if err == nil {
		c.Owner = ledger.Owner{Project: parts[0], Type: WholeNodes}
		c.Class = ConsumedClass{Nodes: parts[1], Whole: true}
	}
	return err
}

// fill computes the integrals of a class up to each moment.
func fill(upTo []ledger.Integral, at []runs, moments []Moment, class ledger.ClassID) {
	for i := range upTo {
		upTo[i] = at[i].find(class).upTo(moments[i].Time)
	}
}

// atMoments calls yield for each key that begins with a prefix, without its version, with
// the amounts there at each of some moments, which must ascend, as long as it returns true.
func (v View) atMoments(prefix []byte, moments []Moment, yield func(key []byte, at []runs) (bool, error)) error {
	it, err := v.p.Iterate(prefix, after(prefix))
	if err != nil {
		return err
	}
	var base, seek []byte
	at := make([]runs, len(moments))
	more := true
	for ok := it.First(); ok && more && err == nil; {
		base = append(base[:0], it.Key()[:len(it.Key())-versionBytes]...)
		clear(at)
		i := len(at) - 1 // the last moment without its amounts
		for ok && i >= 0 && err == nil && isVersionOf(it.Key(), base) {
			version := versionOf(it.Key())
			if version > moments[i].Sequence {
				seek = appendVersion(append(seek[:0], base...), moments[i].Sequence)
				ok = it.SeekGE(seek)
				continue
			}
			var list runs
			if len(it.Value()) > 0 {
				list, err = readRuns(base[0], it.Value())
			}
			for ; i >= 0 && version <= moments[i].Sequence; i-- {
				at[i] = list
			}
			ok = it.Next()
		}
		if ok && isVersionOf(it.Key(), base) {
			ok = it.SeekGE(after(base)) // skip older versions
		}
		if err == nil && len(at[len(at)-1]) > 0 {
			more, err = yield(base, at)
		}
	}
	return it.Finish(err)
}

// ProjectConsumption is what a project consumed of each class from the ledger's beginning
// up to a moment: of all its users and types, and of whole nodes.
type ProjectConsumption struct {
	Project string
	Classes []ClassConsumption // in order
}

// ClassConsumption is an amount times nanoseconds.
type ClassConsumption struct {
	Class ConsumedClass
	UpTo  ledger.Integral
}

// ProjectsConsumption yields every project that ever held anything, up to a moment: the
// shorter names first, and those of the same length in order. Owners of whole nodes that
// name no project are the empty one.
func (v View) ProjectsConsumption(at Moment) iter.Seq2[*ProjectConsumption, error] {
	return func(yield func(*ProjectConsumption, error) bool) {
		ofConsumers, stop := iter.Pull2(v.projects(tableUsage, at))
		defer stop()
		ofNodes, stopNodes := iter.Pull2(v.projects(tableWholeNodes, at))
		defer stopNodes()
		a, err, _ := ofConsumers()
		b, other, _ := ofNodes()
		for err = cmp.Or(err, other); err == nil && (a != nil || b != nil); {
			one := a
			switch {
			case a == nil || b != nil && compareProjects(b.Project, a.Project) < 0:
				one = b
				b, err, _ = ofNodes()
			case b != nil && b.Project == a.Project:
				one.Classes = append(one.Classes, b.Classes...)
				b, other, _ = ofNodes()
				a, err, _ = ofConsumers()
				err = cmp.Or(err, other)
			default:
				a, err, _ = ofConsumers()
			}
			if !yield(one, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (v View) projects(table byte, at Moment) iter.Seq2[*ProjectConsumption, error] {
	return func(yield func(*ProjectConsumption, error) bool) {
		var one *ProjectConsumption
		for c, err := range v.consumed([]byte{table}, []Moment{at}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if one != nil && one.Project != c.Owner.Project {
				if !yield(one, nil) {
					return
				}
				one = nil
			}
			if one == nil {
				one = &ProjectConsumption{Project: c.Owner.Project}
			}
			one.add(c.Class, c.UpTo[0])
		}
		if one != nil {
			yield(one, nil)
		}
	}
}

func (c *ProjectConsumption) add(class ConsumedClass, amount ledger.Integral) {
	i, found := slices.BinarySearchFunc(c.Classes, class, func(a ClassConsumption, class ConsumedClass) int {
		return a.Class.Compare(class)
	})
	if !found {
		c.Classes = slices.Insert(c.Classes, i, ClassConsumption{Class: class})
	}
	c.Classes[i].UpTo = c.Classes[i].UpTo.Plus(amount)
}

func compareProjects(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// ProviderConsumption is what was used of a provider's class, and what there was of it:
// amounts times nanoseconds, from the ledger's beginning up to each of some moments.
type ProviderConsumption struct {
	Provider       ledger.UUID
	Class          ledger.ClassID
	Used, Capacity []ledger.Integral
}

// ProviderConsumption calls yield for each class of which a provider ever had inventory
// before the last of some moments, which must ascend, as long as it returns true. What is
// yielded must not be kept.
func (v View) ProviderConsumption(id ledger.UUID, moments []Moment, yield func(*ProviderConsumption) bool) error {
	used, err := v.runsAt(idKey(tableProviderState, id), moments)
	if err != nil {
		return err
	}
	capacity, err := v.runsAt(idKey(tableCapacity, id), moments)
	if err != nil {
		return err
	}
	one := &ProviderConsumption{
		Provider: id, Used: make([]ledger.Integral, len(moments)), Capacity: make([]ledger.Integral, len(moments)),
	}
	for _, r := range used[len(used)-1] {
		one.Class = r.Class
		fill(one.Used, used, moments, r.Class)
		fill(one.Capacity, capacity, moments, r.Class)
		if !yield(one) {
			return nil
		}
	}
	return nil
}

// runsAt sums the amounts of a provider at a key without its version, up to each of some moments, which must ascend.
func (v View) runsAt(key []byte, moments []Moment) ([]runs, error) {
	it, err := v.p.Iterate(key, after(key))
	if err != nil {
		return nil, err
	}
	list := make([]runs, len(moments))
	var earlier uint64
	var known runs
	for i := 0; i < len(moments) && err == nil; i++ {
		known, err = sumUpTo(it, key, moments[i].Sequence, earlier, known)
		list[i], earlier = known, moments[i].Sequence
	}
	return list, it.Finish(err)
}

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
	if err != nil {
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
