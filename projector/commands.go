package projector

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/bits-and-blooms/bloom/v3"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/store"
)

func (m *models) command(id ledger.UUID) (result ledger.CommandResult, found bool, err error) {
	if m.commands.excludes(id) {
		return result, false, nil
	}
	found, err = m.Get(idKey(tableCommand, id), func(value []byte) (err error) {
		result, err = readCommand(value)
		return err
	})
	return result, found, err
}

func readCommand(value []byte) (result ledger.CommandResult, err error) {
	f := fields{data: value}
	result.Address = ledger.Address{Sequence: f.uint(), Index: int(f.uint())}
	copy(result.Fingerprint[:], f.take(uint64(len(result.Fingerprint))))
	return result, f.end("command")
}

// Command finds the record of a command id.
func (p *Projector) Command(id ledger.UUID) (ledger.CommandResult, bool, error) {
	return p.models.Load().command(id)
}

// Record finds the record at an address.
func (p *Projector) Record(at ledger.Address) (*ledger.Record, bool, error) {
	return p.View().Record(at)
}

// commandFilter knows of most new command ids that they were never folded, which
// saves the writer a look on the disk for each: that took a tenth of its time.
//
// It does not grow with history. An id of version 7 begins with the time at which
// it was made, and the filter keeps the ids with the newest times: each that was
// folded and was made at some time or later. A new id is one of these. Whether an
// older one, or one without a time, was folded is found on the disk, so a command
// is carried out once, however late it comes again.
type commandFilter struct {
	size uint // ids in a layer; 0: layerIDs

	mu     sync.RWMutex
	layers []*idLayer // the oldest first, at most mostLayers; guarded by mu
	early  *idLayer   // ids whose time had not come when they were folded; nil: there are none; guarded by mu
	since  uint64     // the ids from this time on are in the filter, in Unix milliseconds; guarded by mu
	ready  bool       // it has what was there at the start; guarded by mu
}

// idLayer is a set of ids, of which so many more fit into it.
type idLayer struct {
	ids    *bloom.BloomFilter
	free   uint
	newest uint64 // time of an id of these
}

const (
	layerIDs       = 1 << 18
	mostLayers     = 16 // with 15 bits an id: 8 MiB
	falsePositives = 0.001
	// early is how far ahead of this machine's clock an id may be. A client whose
	// clock is wrong must not make the filter forget the ids of the others.
	early = uint64(time.Minute / time.Millisecond)
)

// timeOf returns the time at which an id was made; false: the id does not say.
func timeOf(id ledger.UUID) (milliseconds uint64, ok bool) {
	return binary.BigEndian.Uint64(id[:8]) >> 16, id[6]>>4 == 7
}

func (f *commandFilter) newLayer() *idLayer {
	size := cmp.Or(f.size, layerIDs)
	return &idLayer{ids: bloom.NewWithEstimates(size, falsePositives), free: size}
}

func (l *idLayer) add(id ledger.UUID, at uint64) {
	l.ids.Add(id[:])
	l.free--
	l.newest = max(l.newest, at)
}

func (f *commandFilter) add(id ledger.UUID, now time.Time) {
	at, ok := timeOf(id)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if at < f.since {
		return
	}
	if at > uint64(now.UnixMilli())+early {
		f.addEarly(id, at)
		return
	}
	if n := len(f.layers); n == 0 || f.layers[n-1].free == 0 {
		f.layers = append(f.layers, f.newLayer())
		f.bound()
	}
	f.layers[len(f.layers)-1].add(id, at)
}

// addEarly adds an id whose time has not come. The caller holds mu.
func (f *commandFilter) addEarly(id ledger.UUID, at uint64) {
	if f.early != nil && f.early.free == 0 {
		f.since = max(f.since, f.early.newest+1)
		f.early = nil
	}
	if at < f.since {
		return
	}
	if f.early == nil {
		f.early = f.newLayer()
	}
	f.early.add(id, at)
}

// bound forgets the oldest layers. The caller holds mu.
func (f *commandFilter) bound() {
	for len(f.layers) > mostLayers {
		f.since = max(f.since, f.layers[0].newest+1)
		f.layers = slices.Delete(f.layers, 0, 1)
	}
}

// excludes reports whether the id was certainly never folded. False leaves that
// open.
func (f *commandFilter) excludes(id ledger.UUID) bool {
	at, ok := timeOf(id)
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !ok || !f.ready || at < f.since || f.early != nil && f.early.ids.Test(id[:]) {
		return false
	}
	for _, layer := range slices.Backward(f.layers) {
		if layer.ids.Test(id[:]) {
			return false
		}
	}
	return true
}

// load reads the ids that are there, the newest first, and no more than it keeps.
// Commits may be folded meanwhile: Fold adds their ids itself, and adding an id
// twice does no harm.
func (f *commandFilter) load(v View, stopped <-chan struct{}, now time.Time) error {
	it, err := v.p.Iterate([]byte{tableCommand}, []byte{tableCommand + 1})
	if err != nil {
		return err
	}
	from := append([]byte{tableCommand}, timeKey(uint64(now.UnixMilli())+early+1)...)
	older, since := f.newestOf(it, from, stopped)
	for ok := it.SeekGE(from); ok && !isClosed(stopped); ok = it.Next() {
		f.add(ledger.UUID(it.Key()[1:]), now) // its time has not come, or it says none
	}
	if err := it.Finish(nil); err != nil || isClosed(stopped) {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.layers = append(older, f.layers...)
	f.since = max(f.since, since)
	f.bound()
	f.ready = true
	return nil
}

// newestOf fills layers, the oldest first, with the ids before a key, and returns
// the time from which on these are all.
func (f *commandFilter) newestOf(
	it *store.Iterator, before []byte, stopped <-chan struct{},
) (layers []*idLayer, since uint64) {
	var last *idLayer
	for ok := it.SeekLT(before); ok && !isClosed(stopped); ok = it.Prev() {
		id := ledger.UUID(it.Key()[1:])
		at, hasTime := timeOf(id)
		if !hasTime {
			continue
		}
		if last == nil || last.free == 0 {
			if len(layers) == mostLayers {
				since = at + 1
				break
			}
			last = f.newLayer()
			layers = append(layers, last)
		}
		last.add(id, at)
	}
	slices.Reverse(layers)
	return layers, since
}

// timeKey returns how the ids of a time begin.
func timeKey(milliseconds uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, milliseconds)[2:]
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
