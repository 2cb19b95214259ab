package baremetal

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// allocationKeys are the keys by which lists of allocations can be sorted.
var allocationKeys = map[string]func(*ledger.NodeAllocation) string{
	"uuid":           func(a *ledger.NodeAllocation) string { return a.UUID.String() },
	"name":           func(a *ledger.NodeAllocation) string { return a.Name },
	"state":          func(a *ledger.NodeAllocation) string { return string(a.State) },
	"owner":          func(a *ledger.NodeAllocation) string { return a.Owner },
	"resource_class": func(a *ledger.NodeAllocation) string { return a.ResourceClass },
	"last_error":     func(a *ledger.NodeAllocation) string { return a.LastError },
	"node_id":        func(a *ledger.NodeAllocation) string { return a.Node.String() },
	"created_at":     func(a *ledger.NodeAllocation) string { return sortableTime(a.CreatedAt) },
	"updated_at":     func(a *ledger.NodeAllocation) string { return sortableTime(a.UpdatedAt) },
	defaultSortKey:   func(*ledger.NodeAllocation) string { return "" },
}

// sortableTime returns a time as a text with the same order.
func sortableTime(at int64) string {
	text := strconv.FormatInt(at, 10)
	return strings.Repeat("0", max(0, 20-len(text))) + text
}

var allocationListParameters = []string{
	"node", "resource_class", "state", "owner", "fields", "limit", "marker", "sort_key", "sort_dir",
}

func (r allocations) list() (*response, error) {
	values, err := r.parameters(allocationListParameters...)
	if err != nil {
		return nil, err
	}
	asked, err := r.fields(values)
	if err != nil {
		return nil, err
	}
	if values.Has("owner") && r.version < ownerSince {
		return nil, notAcceptable()
	}
	matches, err := r.filter(values)
	if err != nil {
		return nil, err
	}
	return list(r.request, r.all(), values, "/allocations", matches, asked)
}

// filter selects the allocations that the client asked for and may see.
func (r allocations) filter(values url.Values) (func(*ledger.NodeAllocation) bool, error) {
	owner, byOwner := values.Get("owner"), values.Has("owner")
	if !r.allows("baremetal:allocation:list_all", nil) {
		if !r.allows("baremetal:allocation:list", nil) || r.Who.Project == "" {
			return nil, forbidden("baremetal:allocation:list")
		}
		if byOwner && owner != r.Who.Project {
			return nil, forbidden("baremetal:allocation:list_all")
		}
		owner, byOwner = r.Who.Project, true
	}
	var node ledger.UUID
	if ident := values.Get("node"); ident != "" {
		n, err := r.findNode(ident)
		if err != nil {
			return nil, err
		}
		if n == nil {
			return nil, nodeNotFound(http.StatusBadRequest, ident)
		}
		node = n.UUID
	}
	return func(a *ledger.NodeAllocation) bool {
		return (!byOwner || a.Owner == owner) && (node.IsNil() || a.Node == node) &&
			(!values.Has("resource_class") || a.ResourceClass == values.Get("resource_class")) &&
			(!values.Has("state") || string(a.State) == values.Get("state"))
	}, nil
}
