package projector

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// digester hashes a list of byte strings so that different lists give different
// hashes.
type digester struct {
	h      hash.Hash
	length [8]byte
}

func newDigester() *digester { return &digester{h: sha256.New()} }

func (d *digester) add(b []byte) {
	binary.BigEndian.PutUint64(d.length[:], uint64(len(b)))
	d.h.Write(d.length[:])
	d.h.Write(b)
}

func (d *digester) digest() (sum ledger.Digest) {
	d.h.Sum(sum[:0])
	return sum
}

// Digest returns the digest that the read models had when the view's commit was
// their newest: what Projector.Digest would have returned then. Keys with a
// version, or of a commit, never change, so later ones are left out. Lists of the
// present are rebuilt as they were then. Digest reads everything up to the view's
// commit, each consumer once more for each of its providers, and less than 256
// records of the log.
func (v View) Digest(ctx context.Context, log ledger.Log) (ledger.Digest, error) {
	head, _, err := v.position()
	if err != nil {
		return ledger.Digest{}, err
	}
	tree, err := v.Tree(ctx, log)
	if err != nil {
		return ledger.Digest{}, err
	}
	sum := newDigester()
	d := &pastRows{View: v, ctx: ctx, head: head, tree: tree, add: func(key, value []byte) {
		sum.add(key)
		sum.add(value)
	}}
	for _, t := range pastTables {
		if err := t.add(d, t.table); err != nil {
			return ledger.Digest{}, err
		}
	}
	return sum.digest(), nil
}

// pastRows adds the rows that the read models had, in the order of their keys.
type pastRows struct {
	View
	ctx  context.Context
	add  func(key, value []byte)
	head ledger.Head
	tree *proof.Tree // of all records then
}

// pastTable says how to find the keys that a table had. Every table must be among
// pastTables; without one the digest differs.
type pastTable struct {
	table byte
	add   func(d *pastRows, table byte) error
}

var pastTables = sortedTables([]pastTable{
	{tableCheckpoint, (*pastRows).checkpoint},
	{tableCommit, (*pastRows).commits},
	{tableTree, (*pastRows).kept},
	{tableCommand, (*pastRows).commands},
	{tableProvider, versioned}, {tableProviderState, versioned}, {tableName, versioned}, {tableConsumer, versioned},
	{tableUsage, versioned}, {tableCapacity, versioned}, {tableWholeNodes, versioned},
	{tableClasses, versioned}, {tableTrait, versioned},
	{tableLimit, versioned}, {tableParent, versioned}, {tablePreference, versioned}, {tableTopology, versioned},
	{tableAggregate, versioned}, {tableAggregateUse, versioned}, {tableHistory, versioned},
	{tableConsumptionRoot, versioned},
	{tableHeld, until(len(ledger.UUID{}))},
	{tableHolding, (*pastRows).holdings},
	{tableReservation, (*pastRows).reservations},
	{tableWaiting, (*pastRows).waiting},
}, pastEntities(nodeTables), pastEntities(nodeAllocationTables), pastEntities(chassisTables))

func sortedTables(lists ...[]pastTable) []pastTable {
	tables := slices.Concat(lists...)
	slices.SortFunc(tables, func(a, b pastTable) int { return cmp.Compare(a.table, b.table) })
	return tables
}

func pastEntities(t entityTables) []pastTable {
	list := []pastTable{
		{t.value, versioned},
		{t.id, versioned},
		{t.until, until(0)},
		{t.now, func(d *pastRows, table byte) error {
			return d.each([]byte{t.value}, func(key []byte, _ uint64, _ []byte) (bool, error) {
				d.add(append([]byte{table}, key[1:]...), nil)
				return true, d.ctx.Err()
			})
		}},
	}
	if t.name != 0 {
		list = append(list, pastTable{t.name, versioned})
	}
	return list
}

// rows adds the keys that a table had.
func (d *pastRows) rows(table byte, were func(key, value []byte) bool) error {
	return d.between([]byte{table}, []byte{table + 1}, were)
}

// between adds the keys from lower to upper that were there.
func (d *pastRows) between(lower, upper []byte, were func(key, value []byte) bool) error {
	it, err := d.p.Iterate(lower, upper)
	if err != nil {
		return err
	}
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if key, value := it.Key(), it.Value(); were(key, value) {
			d.add(key, value)
		}
		err = d.ctx.Err()
	}
	return it.Finish(err)
}

// versioned adds a table whose keys end with a version.
func versioned(d *pastRows, table byte) error {
	return d.rows(table, func(key, _ []byte) bool { return versionOf(key) <= d.sequence })
}

// until adds a table whose keys have the version after the table's letter and a
// number of other bytes.
func until(skipped int) func(*pastRows, byte) error {
	return func(d *pastRows, table byte) error {
		return d.rows(table, func(key, _ []byte) bool { return versionOf(key[:1+skipped+versionBytes]) <= d.sequence })
	}
}

func (d *pastRows) commits(table byte) error {
	return d.between([]byte{table}, after(commitKey(d.sequence)), func(_, _ []byte) bool { return true })
}

// kept adds the hashes of the Merkle tree that were kept then.
func (d *pastRows) kept(table byte) error {
	return d.rows(table, func(key, _ []byte) bool {
		return int64(binary.BigEndian.Uint64(key[2:])) < proof.KeptCount(int(key[1]), d.tree.Size())
	})
}

func (d *pastRows) checkpoint(table byte) error {
	d.add([]byte{table}, appendCheckpoint(nil, d.head, d.tree))
	return nil
}

func (d *pastRows) commands(table byte) error {
	return d.rows(table, func(_, value []byte) bool {
		sequence, size := binary.Uvarint(value)
		return size > 0 && sequence <= d.sequence
	})
}

// holdings adds the lists of the providers' holders at that moment.
func (d *pastRows) holdings(table byte) error {
	var providers []ledger.UUID
	err := d.each([]byte{tableProvider}, func(key []byte, _ uint64, _ []byte) (bool, error) {
		providers = append(providers, ledger.UUID(key[1:]))
		return true, d.ctx.Err()
	})
	for _, id := range providers {
		if err != nil {
			return err
		}
		err = d.ProviderConsumers(id, func(c *ledger.Consumer) bool {
			d.add(append(idKey(table, id), c.UUID[:]...), nil)
			return d.ctx.Err() == nil
		})
		err = cmp.Or(err, d.ctx.Err())
	}
	return err
}

// reservations adds the reservations of that moment, by their end.
func (d *pastRows) reservations(byte) error {
	var keys [][]byte
	err := d.Consumers(ledger.NilUUID, func(c *ledger.Consumer) bool {
		if c.ReservedUntil > 0 {
			keys = append(keys, reservationKey(c))
		}
		return d.ctx.Err() == nil
	})
	slices.SortFunc(keys, bytes.Compare)
	for _, key := range keys {
		d.add(key, nil)
	}
	return cmp.Or(err, d.ctx.Err())
}

// waiting adds the node allocations that waited for a node at that moment.
func (d *pastRows) waiting(table byte) error {
	return d.each([]byte{nodeAllocationTables.value}, func(key []byte, _ uint64, value []byte) (bool, error) {
		number := binary.BigEndian.Uint64(key[1:])
		a, err := readNodeAllocation(number, value)
		if err != nil {
			return false, fmt.Errorf("node allocation %d: %w", number, err)
		}
		if a.State == ledger.NodeAllocating {
			d.add(numberKey(table, number), nil)
		}
		return true, d.ctx.Err()
	})
}
