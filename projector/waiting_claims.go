package projector

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// WaitingClaim is a claim that waits, or that has waited.
type WaitingClaim struct {
	ledger.WaitingClaim
	End *WaitEnd // nil: it waits
}

// WaitEnd says how the waiting of a claim has ended.
type WaitEnd struct {
	How           string // see ledger.ClaimWaitEnded
	Code, Message string
	Record        ledger.Address
	Time          int64 // of the record, Unix nanoseconds
}

// waitingClaims writes which claims begin and cease to wait. The records say where,
// so it follows them; most commits have no such claim.
func (w *writer) waitingClaims() {
	if len(w.changes.Waiting) == 0 {
		return
	}
	states := make(map[ledger.UUID]*ledger.WaitingClaim)
	for _, c := range w.changes.Waiting {
		if c.Before != nil {
			states[c.Before.UUID] = c.Before
		} else {
			states[c.After.UUID] = c.After
		}
	}
	for i := range w.commit.Records {
		record := &w.commit.Records[i]
		for _, event := range record.Events {
			switch ev := event.(type) {
			case ledger.ClaimWaits:
				w.set(w.idKey(tableClaimWaits, ev.Claim), nil)
				w.waitingClaim(&WaitingClaim{WaitingClaim: *states[ev.Claim]})
			case ledger.ClaimWaitEnded:
				at := ledger.Address{Sequence: w.commit.Sequence, Index: i}
				w.delete(w.idKey(tableClaimWaits, ev.Claim))
				w.set(append(appendVersion([]byte{tableClaimWaited}, at.Sequence), ev.Claim[:]...), nil)
				w.waitingClaim(&WaitingClaim{WaitingClaim: *states[ev.Claim], End: &WaitEnd{
					How: ev.How, Code: ev.Code, Message: ev.Message, Record: at, Time: record.Time,
				}})
			}
		}
	}
}

func (w *writer) waitingClaim(one *WaitingClaim) {
	w.set(w.version(w.idKey(tableWaitingClaim, one.UUID)), w.keep(appendWaitingClaim(w.scratch(), one)))
}

func appendWaitingClaim(b []byte, w *WaitingClaim) []byte {
	b = appendBool(b, w.End != nil)
	b = binary.AppendUvarint(b, w.Sequence)
	b = binary.AppendVarint(b, w.Since)
	b = binary.AppendVarint(b, w.Until)
	b = appendString(appendString(appendString(b, w.Project), w.User), w.Bound)
	b = binary.AppendVarint(b, w.Priority)
	b = appendString(b, string(w.Asked))
	if w.End == nil {
		return b
	}
	b = appendString(appendString(appendString(b, w.End.How), w.End.Code), w.End.Message)
	b = binary.AppendUvarint(b, w.End.Record.Sequence)
	b = binary.AppendUvarint(b, uint64(w.End.Record.Index))
	return binary.AppendVarint(b, w.End.Time)
}

func readWaitingClaim(id ledger.UUID, data []byte) (*WaitingClaim, error) {
	f := fields{data: data}
	ended := f.bool()
	w := &WaitingClaim{}
	w.UUID = id
	w.Sequence = f.uint()
	w.Since, w.Until = f.int(), f.int()
	w.Project, w.User, w.Bound = f.string(), f.string(), f.string()
	w.Priority, w.Asked = f.int(), ledger.Document(f.string())
	if ended {
		w.End = &WaitEnd{How: f.string(), Code: f.string(), Message: f.string()}
		w.End.Record = ledger.Address{Sequence: f.uint(), Index: int(f.uint())}
		w.End.Time = f.int()
	}
	return w, f.end("waiting claim")
}

// WaitingClaim finds a claim that waits, or that has waited, by the id of its command.
func (v View) WaitingClaim(id ledger.UUID) (*WaitingClaim, bool, error) {
	value, _, found, err := v.version(idKey(tableWaitingClaim, id))
	if err != nil || !found {
		return nil, false, err
	}
	w, err := readWaitingClaim(id, value)
	return w, err == nil, v.p.judged(err)
}

// WaitingIDs lists the claims that waited at the view's moment, by their ids. It
// looks at those that wait now, and at those whose waiting has ended since.
func (v View) WaitingIDs() ([]ledger.UUID, error) {
	it, err := v.iterate([]byte{tableClaimWaits}, []byte{tableClaimWaited + 1})
	if err != nil {
		return nil, err
	}
	var ids []ledger.UUID
	collect := func(from, upTo []byte) {
		for ok := it.SeekGE(from); ok && bytes.Compare(it.Key(), upTo) < 0; ok = it.Next() {
			ids = append(ids, ledger.UUID(it.Key()[len(it.Key())-len(ledger.UUID{}):]))
		}
	}
	collect([]byte{tableClaimWaits}, []byte{tableClaimWaits + 1})
	now := len(ids)
	collect([]byte{tableClaimWaited}, appendVersion([]byte{tableClaimWaited}, v.sequence))
	if err := finish(it, nil); err != nil {
		return nil, err
	}
	if v.sequence == v.p.view().sequence && now == len(ids) {
		return ids, nil
	}
	slices.SortFunc(ids, ledger.UUID.Compare)
	var then []ledger.UUID
	for _, id := range slices.Compact(ids) {
		w, found, err := v.WaitingClaim(id)
		if err != nil {
			return nil, err
		}
		if found && w.End == nil {
			then = append(then, id)
		}
	}
	return then, nil
}
