package projector

import (
	"encoding/binary"

	"github.com/allot-project/allot/ledger"
)

// topology writes a topology's change.
func (w *writer) topology(c ledger.Change[ledger.Topology]) {
	if c.After == nil {
		w.set(w.version(w.textKey(tableTopology, c.Before.Name)), nil)
		return
	}
	w.set(w.version(w.textKey(tableTopology, c.After.Name)), w.keep(appendTopology(w.scratch(), c.After)))
}

func appendTopology(b []byte, t *ledger.Topology) []byte {
	b = binary.AppendUvarint(appendStrings(b, t.Levels), uint64(len(t.Members)))
	for i := range t.Members {
		m := &t.Members[i]
		b = append(append(b, m.Aggregate[:]...), m.Parent[:]...)
		b = appendString(binary.AppendUvarint(b, m.Level), m.Name)
	}
	return b
}

func readTopology(name string, value []byte) (*ledger.Topology, error) {
	f := fields{data: value}
	t := &ledger.Topology{Name: name, Levels: f.strings()}
	for i, n := 0, f.count(); i < n && !f.bad; i++ {
		t.Members = append(t.Members, ledger.TopologyMember{
			Aggregate: f.uuid(), Parent: f.uuid(), Level: f.uint(), Name: f.string(),
		})
	}
	return t, f.end("topology")
}

// Topologies calls yield for every topology and the sequence of the commit that set it, in
// the order of the lengths of their names and then by name, as long as it returns true.
func (v View) Topologies(yield func(*ledger.Topology, uint64) bool) error {
	return v.each([]byte{tableTopology}, func(key []byte, sequence uint64, value []byte) (bool, error) {
		name, err := preferenceName(key)
		if err != nil {
			return false, v.p.Judged(err)
		}
		t, err := readTopology(name, value)
		if err != nil {
			return false, v.p.Judged(err)
		}
		return yield(t, sequence), nil
	})
}

// Topology finds a topology by its name.
func (v View) Topology(name string) (t *ledger.Topology, exists bool, err error) {
	err = v.TopologyVersions(name, func(newest *ledger.Topology, _ uint64) bool {
		t = newest
		return false
	})
	return t, t != nil, err
}

// TopologyVersions calls yield for every version of a topology, the newest first, with the
// sequence of the commit that made it; nil: it was removed.
func (v View) TopologyVersions(name string, yield func(*ledger.Topology, uint64) bool) error {
	read := func(value []byte) (*ledger.Topology, error) { return readTopology(name, value) }
	return versionsOf(v, textKey(tableTopology, name), read, yield)
}
