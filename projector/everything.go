package projector

import (
	"bytes"
	"errors"
	"math"

	"github.com/allot-project/allot/projector/past"
)

// merged goes through the rows of read models in the order of their keys, those that
// have left included: what each epoch has, besides what lists the present.
type merged struct {
	m      *models
	epochs []*epoch
	ranges []keyRange // that old has not gone through yet

	hot, old     *cursor // over the read models, and over a range of the epochs
	atHot, atOld bool    // it stands at a row
	onHot        bool    // the next row is that of hot
	err          error
}

// everything opens a cursor over all rows from lower (nil: from the first) to upper.
func (m *models) everything(lower, upper []byte) (*merged, error) {
	hot, horizon, err := m.hotCursor(math.MaxUint64, lower, upper)
	if err != nil {
		return nil, err
	}
	it := &merged{m: m, hot: hot}
	err = m.epochs(0, func(e *epoch) (bool, error) {
		if e.last <= horizon {
			it.epochs = append(it.epochs, e)
		}
		return true, nil
	})
	if err != nil {
		return nil, finish(it.hot, err)
	}
	for table := range 256 {
		low, high := []byte{byte(table)}, []byte{byte(table) + 1}
		if !mayLeave(byte(table)) || leaveRules[table].kind == listsPresent || len(it.epochs) == 0 ||
			upper != nil && bytes.Compare(low, upper) >= 0 || bytes.Compare(high, lower) <= 0 {
			continue
		}
		if bytes.Compare(low, lower) < 0 {
			low = lower
		}
		if upper != nil && bytes.Compare(high, upper) > 0 {
			high = upper
		}
		it.ranges = append(it.ranges, keyRange{low, high})
	}
	return it, nil
}

// First moves to the first row, if there is one.
func (it *merged) First() bool {
	it.atHot = it.hot.First()
	it.atOld = it.nextRange()
	return it.choose()
}

// Next moves to the next row, if there is one.
func (it *merged) Next() bool {
	if it.onHot {
		it.atHot = it.hot.Next()
	} else if it.atOld = it.old.Next(); !it.atOld {
		it.atOld = it.nextRange()
	}
	return it.choose()
}

// nextRange opens the next range of the epochs that has a row.
func (it *merged) nextRange() bool {
	for len(it.ranges) > 0 && it.err == nil {
		if it.closeOld(); it.err != nil {
			return false
		}
		r := it.ranges[0]
		it.ranges = it.ranges[1:]
		var groups [][]past.File
		for _, e := range it.epochs {
			files, err := it.m.filesWithin(e, r)
			if it.err = errors.Join(it.err, err); len(files) > 0 {
				groups = append(groups, files)
			}
		}
		if len(groups) == 0 || it.err != nil {
			continue
		}
		if it.old, it.err = it.m.filesCursor(groups, r.lower, r.upper); it.err == nil && it.old.First() {
			return true
		}
	}
	return false
}

func (it *merged) closeOld() {
	if it.old != nil {
		it.err = finish(it.old, it.err)
		it.old = nil
	}
}

// choose finds where the next row is. A row may be in both.
func (it *merged) choose() bool {
	if it.atHot && it.atOld && bytes.Equal(it.hot.Key(), it.old.Key()) {
		if it.atOld = it.old.Next(); !it.atOld {
			it.atOld = it.nextRange()
		}
	}
	it.onHot = it.atHot && (!it.atOld || bytes.Compare(it.hot.Key(), it.old.Key()) < 0)
	return (it.atHot || it.atOld) && it.err == nil
}

// Key returns the key of the row.
func (it *merged) Key() []byte { return it.at().Key() }

// Value returns the value of the row.
func (it *merged) Value() []byte { return it.at().Value() }

func (it *merged) at() *cursor {
	if it.onHot {
		return it.hot
	}
	return it.old
}

// finish closes it, and returns its first error.
func (it *merged) finish(err error) error {
	it.closeOld()
	if err == nil {
		err = it.err
	}
	return finish(it.hot, err)
}
