package projector

import (
	"encoding/binary"
	"fmt"

	"github.com/allot-project/allot/ledger"
)

// titled is a kind of things that have a name.
type titled[T any] struct {
	table byte
	read  func(name string, value []byte) (*T, error)
}

var (
	preferences = titled[ledger.Preference]{tablePreference, readPreference}
	topologies  = titled[ledger.Topology]{tableTopology, readTopology}
)

// find finds the thing of a name.
func (t titled[T]) find(v View, name string) (one *T, exists bool, err error) {
	err = t.versions(v, name, func(newest *T, _ uint64) bool {
		one = newest
		return false
	})
	return one, one != nil, err
}

// list yields things in the order of the lengths of their names and then by name.
func (t titled[T]) list(v View, yield func(*T, uint64) bool) error {
	return v.each([]byte{t.table}, func(key []byte, sequence uint64, value []byte) (bool, error) {
		names, rest, err := textsOf(key, 1)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%w: a key of table %c", ErrDamaged, key[0])
		}
		if err != nil {
			return false, err
		}
		one, err := t.read(names[0], value)
		return err == nil && yield(one, sequence), err
	})
}

func (t titled[T]) versions(v View, name string, yield func(*T, uint64) bool) error {
	read := func(value []byte) (*T, error) { return t.read(name, value) }
	return versionsOf(v, textKey(t.table, name), read, yield)
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
				return it.Finish(err)
			}
		}
		if !yield(one, versionOf(it.Key())) {
			break
		}
	}
	return it.Finish(nil)
}

// appendPreference writes a preference: an empty value would mean that it is gone.
func appendPreference(b []byte, p *ledger.Preference) []byte { return append(b, p.Prefer.Text()...) }

func readPreference(name string, value []byte) (*ledger.Preference, error) {
	p := &ledger.Preference{Name: name}
	if text := ledger.Document(value); text != "{}" {
		p.Prefer = text
	}
	return p, nil
}

// Preference finds a preference by its name.
func (v View) Preference(name string) (*ledger.Preference, bool, error) {
	return preferences.find(v, name)
}

// Preferences calls yield for every preference and the sequence of the commit
// that set it, in the order of the lengths of their names and then by name, as
// long as it returns true.
func (v View) Preferences(yield func(*ledger.Preference, uint64) bool) error {
	return preferences.list(v, yield)
}

// PreferenceVersions calls yield for every version of a preference, the newest
// first, with the sequence of the commit that made it; nil: it was removed.
func (v View) PreferenceVersions(name string, yield func(*ledger.Preference, uint64) bool) error {
	return preferences.versions(v, name, yield)
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

// Topology finds a topology by its name.
func (v View) Topology(name string) (*ledger.Topology, bool, error) { return topologies.find(v, name) }

// Topologies is Preferences for topologies.
func (v View) Topologies(yield func(*ledger.Topology, uint64) bool) error {
	return topologies.list(v, yield)
}

// TopologyVersions is PreferenceVersions for a topology.
func (v View) TopologyVersions(name string, yield func(*ledger.Topology, uint64) bool) error {
	return topologies.versions(v, name, yield)
}
