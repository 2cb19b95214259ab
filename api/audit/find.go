package audit

import (
	"context"

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

// entities answers questions about what exists, and who holds it.
type entities struct{ *Questions }

// find is GET /audit/find: it looks for a uuid, the name of a provider or node,
// or the id of a project or user.
func (q entities) find(_ context.Context, p parameters) (any, error) {
	text := p["q"]
	if text == "" || len(text) > maxFindBytes {
		return nil, rest.BadRequest("q: must have 1 to %d bytes", maxFindBytes)
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	f := &finder{view: view, found: &Found{Found: []Subject{}}}
	if id, err := ledger.ParseUUID(text); err == nil {
		f.withID(id)
		if _, isCommand, err := q.Views.Command(id); err != nil {
			return nil, err
		} else if isCommand {
			f.add(wire.OfCommand, id.String())
		}
	}
	f.withName(text)
	return f.found, f.err
}

// finder keeps the first error.
type finder struct {
	view  projector.View
	found *Found
	err   error
}

func (f *finder) add(of, name string) { f.found.Found = append(f.found.Found, Subject{of, name}) }

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
	projects, err := f.view.OwnerHistory(projector.ProjectHistory, name, 0, 1)
	if f.keep(err) && len(projects) > 0 {
		f.add(wire.OfProject, name)
	}
	users, err := f.view.OwnerHistory(projector.UserHistory, name, 0, 1)
	if f.keep(err) && len(users) > 0 {
		f.add(wire.OfUser, name)
	}
}

func (f *finder) keep(err error) bool {
	if f.err == nil {
		f.err = err
	}
	return f.err == nil
}
