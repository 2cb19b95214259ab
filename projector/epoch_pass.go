package projector

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/allot-project/allot/ledger"
)

// epochPass goes through the read models once, and writes each row into the epochs that
// need it: the one in which it came, and those of whose views it is the newest version.
type epochPass struct {
	m      *models
	ctx    context.Context
	epochs []*epochWriter // which follow one another
	rest   breather
}

// all writes the rows of all tables, in the order of their keys.
func (p *epochPass) all() error {
	for i := range leaveRules {
		var err error
		switch table := byte(i); leaveRules[i].kind {
		case stays:
		case listsPresent:
			err = p.lists(table)
		case idsLeave:
			err = p.commands()
		case versionsLeave:
			err = p.versions(table)
		case pastLeaves:
			err = p.rows(table, func(key, value []byte) error {
				if i := p.first(leaveRules[table].version(key)); i < len(p.epochs) {
					return p.epochs[i].add(key, value)
				}
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// first returns the first epoch that ends with a sequence or later.
func (p *epochPass) first(sequence uint64) int {
	return sort.Search(len(p.epochs), func(i int) bool { return p.epochs[i].last >= sequence })
}

// rows calls yield for each row of a table.
func (p *epochPass) rows(table byte, yield func(key, value []byte) error) error {
	return p.between([]byte{table}, []byte{table + 1}, yield)
}

// between calls yield for each row from lower to upper.
func (p *epochPass) between(lower, upper []byte, yield func(key, value []byte) error) error {
	it, err := p.m.cursor(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		p.rest.breathe()
		err = cmp.Or(yield(it.Key(), it.Value()), p.ctx.Err())
	}
	return finish(it, err)
}

// eachVersion calls yield for each row of a table with versions, and the sequence from
// which on a later version, or none, is the one that views see.
func (p *epochPass) eachVersion(table byte, yield func(key, value []byte, replaced uint64) error) error {
	var base []byte
	replaced := uint64(math.MaxUint64)
	return p.rows(table, func(key, value []byte) error {
		if own := key[:len(key)-versionBytes]; !bytes.Equal(own, base) {
			base, replaced = append(base[:0], own...), math.MaxUint64
		}
		err := yield(key, value, replaced)
		replaced = versionOf(key)
		return err
	})
}

// versions writes a table with versions. Of those that came before an epoch, its views see
// the newest.
func (p *epochPass) versions(table byte) error {
	return p.eachVersion(table, func(key, value []byte, replaced uint64) error {
		version := versionOf(key)
		for _, w := range p.epochs[p.first(version):] {
			if version <= w.first && (replaced <= w.first || gone(key, value)) {
				return nil
			}
			if err := w.add(key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// seen calls yield for each row of a table with versions that is the newest at the end of
// an epoch.
func (p *epochPass) seen(table byte, yield func(epoch int, key, value []byte) error) error {
	return p.eachVersion(table, func(key, value []byte, replaced uint64) error {
		for i := p.first(versionOf(key)); i < len(p.epochs) && p.epochs[i].last < replaced; i++ {
			if gone(key, value) {
				return nil
			}
			if err := yield(i, key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// lists writes a table that lists the present as it was at the end of each epoch.
func (p *epochPass) lists(table byte) error {
	if table == tableHolding {
		return p.holdings()
	}
	for _, e := range []entityTables{nodeTables, nodeAllocationTables, chassisTables} {
		if e.now != table {
			continue
		}
		return p.seen(e.value, func(epoch int, key, _ []byte) error {
			return p.epochs[epoch].add(append([]byte{table}, key[1:len(key)-versionBytes]...), nil)
		})
	}
	return fmt.Errorf("projector: nobody knows how to list table %c", table)
}

// holdings writes who holds something of each provider. The lists of all epochs are in
// memory at a time, see epochsAlive.
func (p *epochPass) holdings() error {
	held := make([][][2]ledger.UUID, len(p.epochs)) // provider and consumer
	err := p.seen(tableConsumer, func(epoch int, key, value []byte) error {
		consumer, err := readConsumer(value)
		if err != nil {
			return p.m.judged(err)
		}
		id := ledger.UUID(key[1 : len(key)-versionBytes])
		for _, a := range consumer.Allocations {
			held[epoch] = append(held[epoch], [2]ledger.UUID{a.Provider, id})
		}
		return nil
	})
	for i, w := range p.epochs {
		slices.SortFunc(held[i], comparePairs)
		for _, one := range slices.Compact(held[i]) {
			if err == nil {
				err = w.add(append(idKey(tableHolding, one[0]), one[1][:]...), nil)
			}
		}
		held[i] = nil
	}
	return err
}

func comparePairs(a, b [2]ledger.UUID) int { return cmp.Or(a[0].Compare(b[0]), a[1].Compare(b[1])) }
