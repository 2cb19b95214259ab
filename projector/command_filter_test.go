package projector

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// idAt makes an id of version 7 with a time.
func idAt(at time.Time, random *rand.Rand) (id ledger.UUID) {
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16|0x7000|random.Uint64()&0xfff)
	binary.BigEndian.PutUint64(id[8:], 0x8<<60|random.Uint64()>>4)
	return id
}

// bytes returns how much memory the ids take.
func (f *commandFilter) bytes() (n uint64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, layer := range append(slices.Clone(f.layers), f.early) {
		if layer != nil {
			n += uint64(layer.ids.Cap()) / 8
		}
	}
	return n
}

// keeps makes sure that no id that was folded is said to be new.
func keeps(t *testing.T, f *commandFilter, folded []ledger.UUID) {
	t.Helper()
	for i, id := range folded {
		if f.excludes(id) {
			t.Fatalf("id %d, %x, was folded, and is excluded", i, id)
		}
	}
}

// TestFilterNeverExcludesWhatWasFolded: whatever ids were folded, in whatever order
// of their times, none is said to be new, and the memory is bounded.
func TestFilterNeverExcludesWhatWasFolded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Unix(1_700_000_000, 0)
	const size = layerIDs / 16
	f := &commandFilter{ready: true, size: size}
	var folded []ledger.UUID
	most := uint64(0)
	for i := range (mostLayers + 3) * size {
		now = now.Add(2 * time.Millisecond)
		at := now
		switch i % 1000 {
		case 1: // a retry, or a client whose clock is behind
			at = now.Add(-time.Duration(random.Int64N(int64(100 * time.Hour))))
		case 2: // one whose clock is ahead
			at = now.Add(time.Duration(random.Int64N(int64(100 * time.Hour))))
		}
		id := idAt(at, random)
		if i%1000 == 3 { // no time
			binary.BigEndian.PutUint64(id[:8], random.Uint64()&^0xf000|0x4000)
		}
		f.add(id, now)
		if i%1000 < 4 || i%50 == 9 {
			folded = append(folded, id)
		}
		most = max(most, f.bytes())
	}
	keeps(t, f, folded)
	found := 0
	for range 100_000 {
		now = now.Add(time.Millisecond)
		if !f.excludes(idAt(now, random)) {
			found++
		}
	}
	if found > 100_000*(mostLayers+1)*2/1000 {
		t.Errorf("%d of 100,000 new ids are looked up on the disk", found)
	}
	if bound := uint64((mostLayers + 1) * size * 15 / 8); most > bound {
		t.Errorf("it took %d bytes, more than %d", most, bound)
	}
	t.Logf("%d ids in %d bytes at most, and %d of 100,000 new ones are looked up", (mostLayers+3)*size, most, found)
}

// TestFilterIsLoaded: after a start the filter excludes no id that is in the read
// models, whatever its time, and new ones it does.
func TestFilterIsLoaded(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	p := empty(t)
	now := time.Unix(1_700_000_000, 0)
	m := p.models.Load()
	var folded []ledger.UUID
	for i := range 500 {
		at := now.Add(-time.Duration(i) * time.Hour)
		if i%100 == 7 {
			at = now.Add(time.Duration(i) * time.Hour)
		}
		id := idAt(at, random)
		if i%100 == 8 {
			binary.BigEndian.PutUint64(id[:8], random.Uint64()&^0xf000|0x4000)
		}
		folded = append(folded, id)
		ledgertest.OK(t, m.Use(func(db *pebble.DB) error { return db.Set(idKey(tableCommand, id), []byte{1}, nil) }))
	}
	f := new(commandFilter)
	if f.excludes(idAt(now, random)) {
		t.Error("an id is excluded before the filter was loaded")
	}
	ledgertest.OK(t, f.load(m.view(), m.stopped, now))
	keeps(t, f, folded)
	if !f.excludes(idAt(now.Add(time.Millisecond), random)) {
		t.Error("a new id is not excluded")
	}
	closed := make(chan struct{})
	close(closed)
	f = new(commandFilter)
	if f.load(m.view(), closed, now) != nil || f.excludes(idAt(now.Add(time.Millisecond), random)) {
		t.Error("a filter that was not loaded excludes something")
	}
}
