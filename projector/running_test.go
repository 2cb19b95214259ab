package projector

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/projector/store"
)

// TestSumsOfVersions: as of each of many versions of a provider, of which some are summed, the
// integrals are those of one sum over all changes.
func TestSumsOfVersions(t *testing.T) {
	p := empty(t)
	m, id, random := p.models.Load(), ledger.UUID{1}, rand.New(rand.NewPCG(1, 2))
	var now runs
	want, count := []runs{nil}, 0
	for sequence := uint64(1); sequence <= 300; sequence++ {
		commit := &ledger.Commit{Sequence: sequence, Records: []ledger.Record{{Time: random.Int64()}}}
		amounts := make([]ledger.ClassAmount, random.IntN(4))
		for i := range amounts {
			amounts[i] = ledger.ClassAmount{Class: ledger.ClassID(i*2 + random.IntN(2)), Amount: random.Int64N(3)}
		}
		err := m.Write(func(batch *store.Batch) error {
			w := &writer{batch: batch, p: m, commit: commit}
			before := w.sums(tableCapacity, id, amounts)
			w.set(w.version(w.idKey(tableCapacity, id)), appendCapacity(nil, amounts, before))
			if before.summed {
				count++
			}
			return w.err
		}, func() {}, m.stopped)
		ledgertest.OK(t, err)
		now.become(amounts, commit.Records[0].Time)
		want = append(want, slices.Clone(now))
	}
	if count < 10 || count > 40 {
		t.Errorf("%d of 300 versions are summed", count)
	}
	var moments []Moment
	for sequence := range want {
		moments = append(moments, Moment{Sequence: uint64(sequence)})
	}
	for apart := 1; apart < len(want); apart *= 2 { // moments near each other, and far
		var some []Moment
		for i := 0; i < len(moments); i += apart {
			some = append(some, moments[i])
		}
		got := ledgertest.Must(m.view().runsAt(idKey(tableCapacity, id), some))
		for i, moment := range some {
			if !slices.Equal(got[i], want[moment.Sequence]) {
				t.Errorf("as of %d: %v, want %v", moment.Sequence, got[i], want[moment.Sequence])
			}
		}
	}
}
