package audit

import (
	"context"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/projector"
)

// Names is the answer of GET /audit/names: what providers, bare metal nodes and their
// allocations, aggregates, projects and users are called, by uuid or id. Those that no
// longer exist have their last names.
type Names struct {
	Names map[string]string `json:"names"`
}

const maxNames = 500

// names is GET /audit/names?ids=ID,ID,...
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
