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

// limit writes a limit's step.
func (w *writer) limit(c ledger.Change[ledger.Limit]) {
	if c.After == nil {
		w.set(w.version(limitKey(c.Before.LimitKey)), nil)
		return
	}
	w.set(w.version(limitKey(c.After.LimitKey)), w.keep(binary.AppendVarint(w.scratch(), c.After.Most)))
}

// parent writes a project's step in the tree.
func (w *writer) parent(c ledger.ParentChange) {
	w.set(w.version(w.textKey(tableParent, c.Project)), w.keep(append(w.scratch(), c.After...)))
}

// Limits calls yield for every limit, those of one project side by side, as long as it returns true.
func (v View) Limits(yield func(ledger.Limit) bool) error {
	return v.each([]byte{tableLimit}, func(key []byte, _ uint64, value []byte) (bool, error) {
		limit, err := readLimit(key, value)
		if err != nil {
			return false, v.p.Judged(err)
		}
		return yield(limit), nil
	})
}

func readLimit(key, value []byte) (limit ledger.Limit, err error) {
	f := fields{data: value}
	limit.Most = f.int()
	rest := key[1:]
	for _, text := range []*string{&limit.Project, &limit.Type} {
		if len(rest) < 2 || len(rest) < 2+int(binary.BigEndian.Uint16(rest)) {
			return limit, fmt.Errorf("%w: limit key", ErrDamaged)
		}
		n := 2 + int(binary.BigEndian.Uint16(rest))
		*text, rest = string(rest[2:n]), rest[n:]
	}
	if len(rest) != 4 {
		return limit, fmt.Errorf("%w: limit key", ErrDamaged)
	}
	limit.Class = ledger.ClassID(binary.BigEndian.Uint32(rest))
	return limit, f.end("limit")
}

// ProjectParents calls yield for every project that is below another one.
func (v View) ProjectParents(yield func(ledger.ProjectParent) bool) error {
	return v.each([]byte{tableParent}, func(key []byte, _ uint64, value []byte) (bool, error) {
		return yield(ledger.ProjectParent{Project: string(key[3:]), Parent: string(value)}), nil
	})
}
