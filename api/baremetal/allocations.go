package baremetal

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// allocationFields are the fields of an allocation, in Ironic's order.
var allocationFields = []string{
	"uuid", "created_at", "updated_at", "candidate_nodes", "extra", "last_error", "name", "owner", "resource_class",
	"state", "traits", "links", "node_uuid",
}

type allocations struct{ *request }

// describe returns an allocation in the form that clients see.
func (r allocations) describe(a *ledger.NodeAllocation, fields []string) (object, error) {
	doc := object{
		{"uuid", a.UUID},
		{"created_at", timeText(a.CreatedAt)},
		{"updated_at", timeText(a.UpdatedAt)},
		{"candidate_nodes", orEmpty(a.CandidateNodes)},
		{"extra", a.Extra},
		{"last_error", orNull(a.LastError)},
		{"name", orNull(a.Name)},
		{"owner", orNull(a.Owner)},
		{"resource_class", orNull(a.ResourceClass)},
		{"state", a.State},
		{"traits", orEmpty(a.Traits)},
		{"links", r.links("/allocations/" + a.UUID.String())},
		{"node_uuid", uuidOrNull(a.Node)},
	}
	if r.version < ownerSince {
		doc = doc.without("owner")
	}
	return doc.only(fields), nil
}

func missingIdent(*request) (*response, error) {
	return nil, rest.BadRequest("Missing mandatory parameter: allocation_ident")
}

// checkVersion hides allocations from clients whose microversion does not have
// them, and patches likewise.
func (r allocations) checkVersion() *rest.Failure {
	switch {
	case r.version < allocationsSince && r.Method == http.MethodGet:
		return rest.NotFound("The API version does not allow allocations")
	case r.version < allocationsSince:
		return rest.Errorf(http.StatusMethodNotAllowed, "The API version does not allow allocations")
	case r.version < updateSince && r.Method == http.MethodPatch:
		return rest.Errorf(http.StatusMethodNotAllowed, "The API version does not allow updating allocations")
	}
	return nil
}

type allocationBody struct {
	CandidateNodes []string        `json:"candidate_nodes"`
	Extra          ledger.Document `json:"extra"`
	Name           string          `json:"name"`
	Owner          *string         `json:"owner"`
	ResourceClass  string          `json:"resource_class"`
	Traits         []string        `json:"traits"`
	UUID           string          `json:"uuid"`
	Node           string          `json:"node"`
}

func (r allocations) create() (*response, error) {
	if !r.allows("baremetal:allocation:create", nil) && !r.mayCreateOwn() {
		return nil, forbidden("baremetal:allocation:create")
	}
	var b allocationBody
	doc, err := r.body("allocation", allocationSchema, &b)
	if err != nil {
		return nil, err
	}
	if _, given := doc.(m)["owner"]; given && r.version < ownerSince {
		return nil, notAcceptable()
	}
	if b.Node != "" && r.version < backfillSince {
		return nil, rest.BadRequest("Cannot set node when creating an allocation in this API version")
	}
	if b.Node == "" && b.ResourceClass == "" {
		return nil, rest.BadRequest("The resource_class field is mandatory when not backfilling")
	}
	if b.Name != "" && !commands.IsIdent(b.Name) {
		return nil, rest.BadRequest("Cannot create allocation with invalid name '%s'", b.Name)
	}
	owner, failure := r.ownerOfNew(&b)
	if failure != nil {
		return nil, failure
	}
	var id ledger.UUID
	if b.UUID != "" {
		var isUUID bool
		if id, isUUID = parseUUID(b.UUID); !isUUID {
			return nil, rest.BadRequest("Expected UUID for uuid: %s", b.UUID)
		}
	}
	candidates, err := r.candidateNodes(b.CandidateNodes)
	if err != nil {
		return nil, err
	}
	wanted := commands.NodeRequest{
		Name: b.Name, ResourceClass: b.ResourceClass, Traits: b.Traits, CandidateNodes: candidates, Owner: owner,
		Extra: b.Extra,
	}
	if b.Node != "" {
		return r.backfill(b.Node, id, wanted)
	}
	if id.IsNil() {
		id = rest.NewID(r.Request, "allocation")
	}
	return r.made(
		&commands.RequestNodeAllocation{Allocation: id, NodeRequest: wanted},
		func() (ledger.UUID, error) { return id, nil },
	)
}

// ownerOfNew returns the owner of a new allocation. A client that may only create
// allocations of its own project gets that project.
func (r allocations) ownerOfNew(b *allocationBody) (string, *rest.Failure) {
	owner := ""
	if b.Owner != nil {
		owner = *b.Owner
	}
	if r.allows("baremetal:allocation:create", nil) {
		return owner, nil
	}
	if !r.mayCreateOwn() {
		return "", forbidden("baremetal:allocation:create")
	}
	if owner != "" && owner != r.Who.Project {
		return "", rest.Errorf(
			http.StatusForbidden,
			"Cannot create allocation with an owner Project ID value %s not matching the requestor Project ID %s. Policy baremetal:allocation:create is required for this capability.",
			owner, r.Who.Project,
		)
	}
	return r.Who.Project, nil
}

func (r allocations) mayCreateOwn() bool {
	return r.Who.Project != "" && r.allows("baremetal:allocation:create_restricted", nil)
}

func (r allocations) candidateNodes(idents []string) ([]ledger.UUID, error) {
	if len(idents) > ledger.MaxCandidateNodes {
		return nil, rest.BadRequest("At most %d candidate_nodes can be named, not %d", ledger.MaxCandidateNodes, len(idents))
	}
	var ids []ledger.UUID
	var missing []string
	for _, ident := range idents {
		n, err := r.findNode(ident)
		if err != nil {
			return nil, err
		}
		if n == nil {
			missing = append(missing, ident)
			continue
		}
		ids = append(ids, n.UUID)
	}
	if missing != nil {
		return nil, rest.BadRequest("Nodes cannot be found: %s", strings.Join(missing, ", "))
	}
	return ids, nil
}

func (r allocations) backfill(ident string, id ledger.UUID, wanted commands.NodeRequest) (*response, error) {
	n, err := r.findNode(ident)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, nodeNotFound(http.StatusBadRequest, ident)
	}
	fresh := rest.NewID(r.Request, "allocation")
	made := func() (ledger.UUID, error) {
		if !id.IsNil() {
			return id, nil
		}
		if _, found, err := r.writtenAllocation(fresh); found || err != nil {
			return fresh, err
		}
		n, _, err := r.writtenNode(n.UUID)
		if err != nil || n == nil {
			return fresh, err
		}
		return n.Instance, nil
	}
	return r.made(
		&commands.BackfillNodeAllocation{Node: n.UUID, Allocation: id, NewAllocation: fresh, NodeRequest: wanted}, made,
	)
}

// made submits a request for an allocation, whose uuid is found after it.
func (r allocations) made(c commands.Command, find func() (ledger.UUID, error)) (*response, error) {
	return r.created("allocation", c, nil, func() (*response, error) {
		id, err := find()
		if err != nil {
			return nil, err
		}
		a, found, err := r.writtenAllocation(id)
		if err == nil && found && a.State == ledger.NodeAllocationError {
			err = rest.Errorf(http.StatusConflict, "%s", a.LastError)
		}
		if err != nil {
			return nil, err
		}
		return showWritten(r.all(), id, http.StatusCreated)
	})
}

func (r allocations) show(find func() (*ledger.NodeAllocation, error)) (*response, error) {
	return show(r.request, r.all(), find)
}

func (r allocations) fields(values url.Values) ([]string, error) {
	asked, err := fields(values, allocationFields)
	if err == nil && r.version < ownerSince && slices.Contains(asked, "owner") {
		return nil, notAcceptable()
	}
	return asked, err
}

func (r allocations) update() (*response, error) {
	a, err := r.find()
	if err != nil {
		return nil, err
	}
	if !r.allows("baremetal:allocation:update", policy.Target{"allocation.owner": a.Owner}) {
		return nil, forbidden("baremetal:allocation:update")
	}
	ops, err := r.patch("patch", allocationValues, []string{"name", "extra"}, nil)
	if err != nil {
		return nil, err
	}
	words := aboutName("Cannot update allocation with invalid name")
	if _, err := r.carry("allocation", &commands.UpdateNodeAllocation{Allocation: a.UUID, Patch: ops}, words); err != nil {
		return nil, err
	}
	return showWritten(r.all(), a.UUID, http.StatusOK)
}

func (r allocations) release(find func() (*ledger.NodeAllocation, error)) (*response, error) {
	a, err := find()
	if err != nil {
		return nil, err
	}
	if !r.allows("baremetal:allocation:delete", policy.Target{"allocation.owner": a.Owner}) {
		return nil, forbidden("baremetal:allocation:delete")
	}
	return r.accepted("allocation", &commands.ReleaseNodeAllocation{Allocation: a.UUID}, noContent())
}

// ofNode finds a node's allocation. missing is the status for a missing node,
// which differs between Ironic's methods.
func (r allocations) ofNode(missing int) func() (*ledger.NodeAllocation, error) {
	return func() (*ledger.NodeAllocation, error) {
		n, err := r.findNode(r.ident)
		if err != nil {
			return nil, err
		}
		if n == nil {
			return nil, nodeNotFound(missing, r.ident)
		}
		a, found, err := r.allocationByID(n.Allocation)
		if err == nil && !found {
			err = rest.NotFound("Allocation for node %s was not found", r.ident)
		}
		return a, err
	}
}

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
