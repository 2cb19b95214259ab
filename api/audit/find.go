package audit

import (
	"context"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Found is the answer of GET /audit/find?q=TEXT: everything with a history and
// this uuid, id or name.
type Found struct {
	Found []Subject `json:"found"`
}

// Subject is an entity that a history can be about.
type Subject struct {
	Of   string `json:"of"`   // consumer, provider, ...
	Name string `json:"name"` // uuid or id, in the form that histories take
}

// maxFindBytes is the size of the longest text to look for, in bytes.
const maxFindBytes = 255

type entities struct{ *Questions }

// find is GET /audit/find: it looks for a uuid, a name, or the id of a project or
// user; and if nothing has it, for the beginning of a uuid, as Keystone's ids are, too.
func (q entities) find(_ context.Context, p *parameters) (any, error) {
	text := p.given["q"]
	if text == "" || len(text) > maxFindBytes {
		return nil, rest.BadRequest("q: must have 1 to %d bytes", maxFindBytes)
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	f := &finder{view: view, directory: q.Directory, most: maxMeant}
	if id, err := ledger.ParseUUID(text); err == nil {
		f.withID(id)
		if _, isCommand, err := q.Views.Command(id); err != nil {
			return nil, err
		} else if isCommand {
			f.add(wire.OfCommand, id.String())
		}
	}
	f.withName(text)
	for _, of := range resolved {
		if len(f.found) == 0 {
			f.withPrefix(of, text)
		}
	}
	return &Found{append([]Subject{}, f.found...)}, f.err
}

// finder keeps the first error.
type finder struct {
	view      projector.View
	directory present.Directory // nil: there is none
	found     []Subject
	most      int  // so many are enough
	cut       bool // not all were looked at
	err       error
}

func (f *finder) add(of, name string) { f.found = append(f.found, Subject{of, name}) }

func (f *finder) withID(id ledger.UUID) {
	for _, one := range []struct {
		of   string
		kind projector.Kind
	}{
		{wire.OfConsumer, projector.ConsumerHistory}, {wire.OfProvider, projector.ProviderHistory},
		{wire.OfNode, projector.NodeHistory}, {wire.OfNodeAllocation, projector.NodeAllocationHistory},
		{wire.OfChassis, projector.ChassisHistory},
	} {
		list, err := f.view.History(one.kind, id, 0, 1)
		if f.keep(err) && len(list) > 0 {
			f.add(one.of, id.String())
		}
	}
}

func (f *finder) withName(name string) {
	p, found, err := f.view.ProviderNamed(name)
	if f.keep(err) && found {
		f.add(wire.OfProvider, p.UUID.String())
	}
	n, found, err := f.view.NodeNamed(name)
	if f.keep(err) && found {
		f.add(wire.OfNode, n.UUID.String())
	}
	a, found, err := f.view.NodeAllocationNamed(name)
	if f.keep(err) && found {
		f.add(wire.OfNodeAllocation, a.UUID.String())
	}
	f.keep(f.view.Topologies(func(t *ledger.Topology, _ uint64) bool {
		for _, member := range t.Members {
			if member.Name == name {
				f.take(present.OfAggregate, member.Aggregate.String())
			}
		}
		return true
	}))
	projects, err := f.view.HistoryOf(projector.Subject{Kind: projector.ProjectHistory, Name: name}, 0, 1)
	if f.keep(err) && len(projects) > 0 {
		f.add(wire.OfProject, name)
	}
	users, err := f.view.HistoryOf(projector.Subject{Kind: projector.UserHistory, Name: name}, 0, 1)
	if f.keep(err) && len(users) > 0 {
		f.add(wire.OfUser, name)
	}
	for _, of := range []string{wire.OfProject, wire.OfUser} {
		if f.directory == nil || slices.Contains(f.found, Subject{of, name}) {
			continue
		}
		for _, id := range f.directory.Named(of, name) {
			f.add(of, id)
		}
	}
}

// withPrefix finds those of a kind whose uuids begin with a text. An id that is no uuid is not found by
// its beginning: demo is not demo-2.
func (f *finder) withPrefix(of, text string) {
	digits := strings.ReplaceAll(strings.ToLower(text), "-", "")
	first, err := ledger.ParseUUID(digits + strings.Repeat("0", max(0, 32-len(digits))))
	if len(digits) < leastPrefix || len(digits) >= 32 || err != nil {
		return
	}
	isSorted := of == wire.OfProvider || of == wire.OfConsumer
	looked := 0
	f.keep(walks[of](f.view, before(first), func(kind, id, _ string) bool {
		if looked++; looked > maxSearched {
			f.cut = true
			return false
		}
		whole, err := ledger.ParseUUID(id)
		switch {
		case kind != of || err != nil:
			return true
		case strings.HasPrefix(strings.ReplaceAll(whole.String(), "-", ""), digits):
			return f.take(of, id)
		}
		return !isSorted
	}))
}

// take adds what a text may mean, and reports whether to go on.
func (f *finder) take(of, name string) bool {
	if one := (Subject{of, name}); !slices.Contains(f.found, one) {
		f.found = append(f.found, one)
	}
	return len(f.found) <= f.most
}

func (f *finder) keep(err error) bool {
	if f.err == nil {
		f.err = err
	}
	return f.err == nil
}

// maxMeant is how many things a text may mean before they are not all listed.
const maxMeant = 5

// resolved are the kinds of parameters for which names and beginnings of uuids are
// accepted.
var resolved = []string{
	wire.OfConsumer, wire.OfProvider, wire.OfNode, wire.OfNodeAllocation, wire.OfChassis, wire.OfProject, wire.OfUser,
}

// resolve puts uuids and ids in the place of names and beginnings, as of the question's
// moment.
func (q *Questions) resolve(p *parameters) error {
	for _, of := range resolved {
		if p.given[of] == "" {
			continue
		}
		if _, err := ledger.ParseUUID(p.given[of]); err == nil {
			continue
		}
		view, err := q.view(p)
		if err != nil {
			return err
		}
		if p.given[of], err = q.meant(view, of, p.given[of]); err != nil {
			return err
		}
	}
	return nil
}

// meant returns the uuid or id that a text means.
func (q *Questions) meant(view projector.View, of, text string) (string, error) {
	f := &finder{view: view, directory: q.Directory, most: maxMeant}
	f.withName(text)
	only := func(of string) {
		f.found = slices.DeleteFunc(f.found, func(s Subject) bool { return s.Of != of })
	}
	if of == wire.OfProvider && !slices.ContainsFunc(f.found, func(s Subject) bool { return s.Of == of }) {
		only(wire.OfNode) // a node has the uuid of its provider
	} else {
		only(of)
	}
	if len(f.found) == 0 {
		f.withPrefix(of, text)
	}
	switch {
	case f.err != nil:
		return "", f.err
	case f.cut && len(f.found) > 0:
		return "", rest.BadRequest("%s: %q may be of more than were looked at: give the whole id", of, text)
	case len(f.found) == 1:
		return f.found[0].Name, nil
	case len(f.found) > 1:
		return "", rest.BadRequest("%s: %q may be %s: give more of it", of, text, q.listed(view, f.found))
	case of == wire.OfProject || of == wire.OfUser:
		return text, nil
	}
	return "", rest.BadRequest("%s: %q is not a uuid, and no name or beginning of a uuid of one that exists", of, text)
}

func (q *Questions) listed(view projector.View, list []Subject) string {
	var texts []string
	for _, one := range list[:min(maxMeant, len(list))] {
		text := one.Name
		if name, err := q.nameOf(view, one.Name); err == nil && name != "" {
			text += " (" + name + ")"
		}
		texts = append(texts, text)
	}
	if len(list) > maxMeant {
		texts = append(texts, "others")
	}
	return strings.Join(texts, ", ")
}

// Names is the answer of GET /audit/names: what providers, bare metal nodes and their
// allocations, aggregates, projects and users are called, by uuid or id. Those that no
// longer exist have their last names.
type Names struct {
	Names map[string]string `json:"names"`
}

const maxNames = 500

func (q entities) names(_ context.Context, p *parameters) (any, error) {
	list := strings.Split(p.given["ids"], ",")
	if p.given["ids"] == "" || len(list) > maxNames {
		return nil, rest.BadRequest("ids: give 1 to %d uuids or ids, with commas between them", maxNames)
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	n := &Names{Names: make(map[string]string)}
	for _, id := range list {
		name, err := q.nameOf(view, id)
		if err != nil {
			return nil, err
		}
		if name != "" {
			n.Names[id] = name
		}
	}
	return n, nil
}

// nameOf returns the last name by a view of what has a uuid or id; empty: it has none.
func (q *Questions) nameOf(view projector.View, id string) (name string, err error) {
	telling := present.Telling{Views: q.Views, Directory: q.Directory}
	for _, of := range []string{
		wire.OfProvider, wire.OfNode, wire.OfNodeAllocation, present.OfAggregate, wire.OfProject, wire.OfUser,
	} {
		if name, err = telling.Called(view, of, id); err != nil || name != "" {
			return name, err
		}
	}
	return "", nil
}
