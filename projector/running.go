package projector

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/store"
)

// running is an amount of a class with what tells its integral over time. A commit's
// changes take effect at the time of its last record.
type running struct {
	Class  ledger.ClassID // 0 where there is one class only
	Amount int64
	// Moment is the sum, over all changes, of the amount's change times the time of it in
	// Unix nanoseconds. With it the time of the last change need not be kept.
	Moment ledger.Integral
}

// upTo returns the integral of the amount from its beginning up to a time.
func (r running) upTo(at int64) ledger.Integral { return ledger.Product(r.Amount, at).Minus(r.Moment) }

func (r *running) become(amount, at int64) {
	if amount != r.Amount {
		r.Moment = r.Moment.Plus(ledger.Product(amount, at)).Minus(ledger.Product(r.Amount, at))
		r.Amount = amount
	}
}

// runs are the amounts of every class that something ever had, sorted by class.
type runs []running

// become changes the amounts at a time to those of a list that is sorted by class.
func (l *runs) become(amounts []ledger.ClassAmount, at int64) {
	i := 0
	for _, a := range amounts {
		for ; i < len(*l) && (*l)[i].Class < a.Class; i++ {
			(*l)[i].become(0, at)
		}
		if i == len(*l) || (*l)[i].Class != a.Class {
			*l = slices.Insert(*l, i, running{Class: a.Class})
		}
		(*l)[i].become(a.Amount, at)
		i++
	}
	for ; i < len(*l); i++ {
		(*l)[i].become(0, at)
	}
}

func (l runs) find(class ledger.ClassID) running {
	i, found := slices.BinarySearchFunc(l, class, func(r running, class ledger.ClassID) int {
		return int(r.Class) - int(class)
	})
	if !found {
		return running{}
	}
	return l[i]
}

func appendRuns(b []byte, list runs) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, r := range list {
		b = binary.AppendUvarint(b, uint64(r.Class))
		b = binary.AppendVarint(b, r.Amount)
		b = r.Moment.AppendTo(b)
	}
	return b
}

func (f *fields) runs() runs {
	n := f.count()
	list := make(runs, 0, n)
	for i := 0; i < n && !f.bad; i++ {
		list = append(list, running{ledger.ClassID(f.uint()), f.int(), f.integral()})
	}
	return list
}

func (f *fields) integral() ledger.Integral {
	n, size := ledger.ReadIntegral(f.data)
	f.pass(size)
	return n
}

// readRuns reads the amounts from a value of a table whose versions all have their integrals.
func readRuns(table byte, value []byte) (list runs, err error) {
	f := fields{data: value}
	if table == tableUsage {
		f.int() // consumers
	}
	list = f.runs()
	return list, f.end("running integrals")
}

// sums are what a version of a provider's state or capacity says of the time before it: since
// when its amounts are what they are or, in one of 16, integrals. So the fold reads older
// versions, of a million providers, once in so many times, and who asks reads as many.
type sums struct {
	summed bool
	list   runs  // if summed
	since  int64 // Unix nanoseconds, unless summed
}

// summed reports whether the version of a provider that a commit writes has integrals. That
// must be the same in every fold, and come for each provider, whatever is its turn in the log.
func summed(id ledger.UUID, sequence uint64) bool {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio spreads what is near
	return (sequence^binary.BigEndian.Uint64(id[:]))*golden>>60 == 0
}

func (s sums) appendTo(b []byte) []byte {
	b = appendBool(b, s.summed)
	if s.summed {
		return appendRuns(b, s.list)
	}
	return binary.AppendVarint(b, s.since)
}

func (f *fields) sums() (s sums) {
	if s.summed = f.bool(); s.summed {
		s.list = f.runs()
	} else {
		s.since = f.int()
	}
	return s
}

func appendCapacity(b []byte, amounts []ledger.ClassAmount, before sums) []byte {
	b = binary.AppendUvarint(b, uint64(len(amounts)))
	for _, a := range amounts {
		b = binary.AppendVarint(binary.AppendUvarint(b, uint64(a.Class)), a.Amount)
	}
	return before.appendTo(b)
}

// readAmounts reads the amounts of a version of a provider's state or capacity.
func readAmounts(table byte, value []byte) (amounts []ledger.ClassAmount, before sums, err error) {
	f := fields{data: value}
	if table == tableProviderState {
		var p ledger.Provider
		before = f.providerState(&p)
		for _, inv := range p.Inventories {
			amounts = append(amounts, ledger.ClassAmount{Class: inv.Class, Amount: inv.Used})
		}
		f.data = nil // the records
		return amounts, before, f.end("provider state")
	}
	for i, n := 0, f.count(); i < n && !f.bad; i++ {
		amounts = append(amounts, ledger.ClassAmount{Class: ledger.ClassID(f.uint()), Amount: f.int()})
	}
	before = f.sums()
	return amounts, before, f.end("capacity")
}

// sumUpTo sums the amounts of a provider's versions up to a sequence. The key has no version. What they are as of an
// earlier sequence may be known.
func sumUpTo(it *store.Iterator, key []byte, sequence, earlier uint64, known runs) (list runs, err error) {
	type version struct {
		amounts []ledger.ClassAmount
		since   int64
	}
	var newer []version // newest first
	for ok := it.SeekGE(appendVersion(slices.Clone(key), sequence)); ok; ok = it.Next() {
		if versionOf(it.Key()) <= earlier {
			list = slices.Clone(known)
			break
		}
		amounts, before, err := readAmounts(key[0], it.Value())
		if err != nil {
			return nil, err
		}
		if before.summed {
			list = before.list
			break
		}
		newer = append(newer, version{amounts, before.since})
	}
	for _, v := range slices.Backward(newer) {
		list.become(v.amounts, v.since)
	}
	return list, nil
}

// recentRuns is the number of lists that are kept in memory for the commits to come. A list
// that is not there is read.
const recentRuns = 100_000

// runsOf returns the newest amounts at a key without its version, for the fold alone.
func (m *models) runsOf(key []byte) (list *runs, err error) {
	if list = m.recent[string(key)]; list != nil {
		return list, nil
	}
	if list = m.older[string(key)]; list != nil {
		m.recent[string(key)] = list
		return list, nil
	}
	it, err := m.Iterate(key, after(key))
	if err != nil {
		return nil, err
	}
	list = new(runs)
	if it.First() && len(it.Value()) > 0 {
		*list, err = readRuns(key[0], it.Value())
	}
	m.recent[string(key)] = list
	return list, it.Finish(err)
}

// forget keeps the memory for recent lists bounded.
func (m *models) forget() {
	if len(m.recent) > recentRuns/2 {
		m.age()
	}
}

// age drops the lists that were not used since it did so last.
func (m *models) age() { m.recent, m.older = make(map[string]*runs), m.recent }

// become changes the amounts at a key without its version, as of this commit.
func (w *writer) become(key []byte, amounts []ledger.ClassAmount) runs {
	list, err := w.p.runsOf(key)
	if err != nil {
		w.err = err
		return nil
	}
	list.become(amounts, w.at())
	return *list
}

// at is when the commit's changes take effect.
func (w *writer) at() int64 { return w.commit.Records[len(w.commit.Records)-1].Time }

// sums are those of a provider's version in this commit.
func (w *writer) sums(table byte, id ledger.UUID, amounts []ledger.ClassAmount) sums {
	if !summed(id, w.commit.Sequence) {
		return sums{since: w.at()}
	}
	key := w.idKey(table, id)
	it, err := w.p.Iterate(key, after(key))
	if err != nil {
		w.err = cmp.Or(w.err, err)
		return sums{}
	}
	list, err := sumUpTo(it, key, w.commit.Sequence-1, 0, nil)
	w.err = cmp.Or(w.err, it.Finish(err))
	list.become(amounts, w.at())
	return sums{summed: true, list: list}
}

func (w *writer) capacity(c ledger.ProviderChange) {
	if sameCapacity(c.Before, c.After) {
		return
	}
	id, amounts := w.amountsOf(c, ledger.Inventory.Units)
	before := w.sums(tableCapacity, id, amounts)
	w.set(w.version(w.idKey(tableCapacity, id)), w.keep(appendCapacity(w.scratch(), amounts, before)))
}

// amountsOf lists an amount of each inventory of a changed provider.
func (w *writer) amountsOf(
	c ledger.ProviderChange, of func(ledger.Inventory) int64,
) (id ledger.UUID, amounts []ledger.ClassAmount) {
	w.p.amounts = w.p.amounts[:0]
	if c.After == nil {
		return c.Before.UUID, nil
	}
	for _, inv := range c.After.Inventories {
		w.p.amounts = append(w.p.amounts, ledger.ClassAmount{Class: inv.Class, Amount: of(inv)})
	}
	return c.After.UUID, w.p.amounts
}

func sameCapacity(a, b *ledger.Provider) bool {
	var none ledger.Provider
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	return slices.EqualFunc(a.Inventories, b.Inventories, func(a, b ledger.Inventory) bool {
		return a.Class == b.Class && a.Units() == b.Units()
	})
}

// wholeNode counts the nodes that allocations hold, for their owner and class.
func (w *writer) wholeNode(c ledger.Change[ledger.NodeAllocation]) {
	had, has := holdsNode(c.Before), holdsNode(c.After)
	if had && has && c.Before.Owner == c.After.Owner && c.Before.ResourceClass == c.After.ResourceClass {
		return
	}
	if had {
		w.countNode(c.Before, -1)
	}
	if has {
		w.countNode(c.After, 1)
	}
}

func holdsNode(a *ledger.NodeAllocation) bool {
	return a != nil && a.State == ledger.NodeAllocationActive && !a.Node.IsNil()
}

func (w *writer) countNode(a *ledger.NodeAllocation, change int64) {
	w.p.key = appendText(w.textKey(tableWholeNodes, a.Owner), a.ResourceClass)
	list, err := w.p.runsOf(w.p.key)
	if err != nil {
		w.err = err
		return
	}
	list.become([]ledger.ClassAmount{{Amount: list.find(0).Amount + change}}, w.at())
	w.set(w.version(w.p.key), w.keep(appendRuns(w.scratch(), *list)))
}
