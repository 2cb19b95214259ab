package present

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Walk goes through the history of a subject, or through all records, newest first.
type Walk struct {
	View    projector.View
	Subject projector.Subject // zero: all records
	Before  ledger.Address    // the last record that was returned; zero: go from the newest
	Page    int               // records that are looked up at once; 0: 100

	waiting []ledger.Address
	commit  []*ledger.Record // of all records: those of the commit that was read last
}

// Next returns the next record, without its events; nil: there are no more.
func (w *Walk) Next() (at ledger.Address, r *ledger.Record, err error) {
	if len(w.waiting) == 0 {
		if err = w.fill(); err != nil || len(w.waiting) == 0 {
			return at, nil, err
		}
	}
	at, w.waiting = w.waiting[0], w.waiting[1:]
	w.Before = at
	if w.Subject.Kind == 0 {
		return at, w.commit[at.Index], nil
	}
	r, err = recordIn(w.View, at)
	return at, r, err
}

// recordIn reads a record that must be there.
func recordIn(view projector.View, at ledger.Address) (*ledger.Record, error) {
	record, found, err := view.Record(at)
	if err == nil && !found {
		err = fmt.Errorf("the read models have no record %s", at)
	}
	return record, err
}

// fill finds the next addresses, all of them before the last.
func (w *Walk) fill() error {
	if w.Subject.Kind == 0 {
		return w.fillAll()
	}
	upTo := w.Before.Sequence
	if w.Before.Index > 0 {
		upTo++ // the commit of the address may have earlier records
	}
	for limit := cmp.Or(w.Page, 100); ; limit *= 4 {
		list, err := w.View.HistoryOf(w.Subject, upTo, limit)
		whole := len(list) < limit
		w.waiting = slices.DeleteFunc(list, func(a ledger.Address) bool {
			return a.Sequence == w.Before.Sequence && a.Index >= w.Before.Index
		})
		if err != nil || len(w.waiting) > 0 || whole {
			return err
		}
	}
}

// fillAll finds the records of one commit.
func (w *Walk) fillAll() (err error) {
	if w.Before == (ledger.Address{}) {
		w.Before.Sequence = w.View.Sequence() + 1
	}
	for len(w.waiting) == 0 && (w.Before.Sequence > 1 || w.Before.Index > 0) {
		if w.Before.Index == 0 {
			w.Before = ledger.Address{Sequence: w.Before.Sequence - 1, Index: math.MaxInt}
		}
		if w.commit, err = w.View.RecordsOf(w.Before.Sequence); err != nil {
			return err
		}
		for i := min(w.Before.Index, len(w.commit)) - 1; i >= 0; i-- {
			w.waiting = append(w.waiting, ledger.Address{Sequence: w.Before.Sequence, Index: i})
		}
		w.Before.Index = 0
	}
	return nil
}
