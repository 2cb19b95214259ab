package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// preference writes a preference's change.
func (w *writer) preference(c ledger.Change[ledger.Preference]) {
	if c.After == nil {
		w.set(w.version(w.textKey(tablePreference, c.Before.Name)), nil)
		return
	}
	// An empty value would mean that it is gone.
	w.set(w.version(w.textKey(tablePreference, c.After.Name)), w.keep(append(w.scratch(), c.After.Prefer.Text()...)))
}

// Preference finds a preference by its name.
func (v View) Preference(name string) (*ledger.Preference, bool, error) {
	value, _, found, err := v.version(textKey(tablePreference, name))
	if err != nil || !found {
		return nil, false, err
	}
	return preferenceOf(name, value), true, nil
}

func preferenceOf(name string, value []byte) *ledger.Preference {
	p := &ledger.Preference{Name: name}
	if text := ledger.Document(value); text != "{}" {
		p.Prefer = text
	}
	return p
}

// Preferences calls yield for every preference and the sequence of the commit
// that set it, in the order of the lengths of their names and then by name, as
// long as it returns true.
func (v View) Preferences(yield func(*ledger.Preference, uint64) bool) error {
	return v.each([]byte{tablePreference}, func(key []byte, sequence uint64, value []byte) (bool, error) {
		name, err := preferenceName(key)
		if err != nil {
			return false, v.p.Judged(err)
		}
		return yield(preferenceOf(name, value), sequence), nil
	})
}

func preferenceName(key []byte) (string, error) {
	if len(key) < 3 || len(key) != 3+int(binary.BigEndian.Uint16(key[1:])) {
		return "", fmt.Errorf("%w: preference key", ErrDamaged)
	}
	return string(key[3:]), nil
}

// PreferenceVersions calls yield for every version of a preference, the newest
// first, with the sequence of the commit that made it; nil: it was removed.
func (v View) PreferenceVersions(name string, yield func(*ledger.Preference, uint64) bool) error {
	read := func(value []byte) (*ledger.Preference, error) { return preferenceOf(name, value), nil }
	return versionsOf(v, textKey(tablePreference, name), read, yield)
}

// versionsOf calls yield for every version of a key up to the view's moment, the newest first, with the
// sequence of the commit that made it; nil: it was removed.
func versionsOf[T any](
	v View, key []byte, read func(value []byte) (*T, error), yield func(*T, uint64) bool,
) error {
	it, err := v.p.Iterate(appendVersion(append([]byte(nil), key...), v.sequence), after(key))
	if err != nil {
		return err
	}
	for ok := it.First(); ok && isVersionOf(it.Key(), key); ok = it.Next() {
		var one *T
		if len(it.Value()) > 0 {
			if one, err = read(it.Value()); err != nil {
				return it.Finish(v.p.Judged(err))
			}
		}
		if !yield(one, versionOf(it.Key())) {
			break
		}
	}
	return it.Finish(nil)
}

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
