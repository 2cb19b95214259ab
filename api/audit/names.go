package audit

import (
	"context"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Names is the answer of GET /audit/names: what providers and bare metal nodes
// are called, by uuid. Those that no longer exist have their last names.
type Names struct {
	Names map[string]string `json:"names"`
}

const maxNames = 500

// names is GET /audit/names?ids=UUID,UUID,...
func (q entities) names(_ context.Context, p parameters) (any, error) {
	list := strings.Split(p["ids"], ",")
	if p["ids"] == "" || len(list) > maxNames {
		return nil, rest.BadRequest("ids: give 1 to %d uuids, with commas between them", maxNames)
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	n := &Names{Names: make(map[string]string)}
	for _, text := range list {
		id, err := ledger.ParseUUID(text)
		if err != nil {
			return nil, rest.BadRequest("ids: %q is not a uuid", text)
		}
		name, err := nameOf(q.Views, view, id)
		if err != nil {
			return nil, err
		}
		if name != "" {
			n.Names[text] = name
		}
	}
	return n, nil
}

// nameOf returns the last name of a provider or node by a view; empty: it has
// none.
func nameOf(views *projector.Projector, view projector.View, id ledger.UUID) (name string, err error) {
	for _, of := range []string{wire.OfProvider, wire.OfNode} {
		if name, err = present.NameOf(views, view, of, id); err != nil || name != "" {
			return name, err
		}
	}
	return "", nil
}
