package demand

import (
	"maps"
	"regexp"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Bounds of a request for candidates.
const (
	// MaxGroups is how many groups a request has at most.
	MaxGroups = 64
	// maxNames bounds the traits, aggregates and classes that it names.
	maxNames = 2048
	// maxSuffix is the longest suffix of a group, in bytes.
	maxSuffix = 64
)

// CandidateRequest says what is wanted, in the words of Placement's GET
// /allocation_candidates. Its members stand in the order of their names, as
// they are kept.
type CandidateRequest struct {
	Groups        []RequestGroup `json:"groups"`
	Isolate       bool           `json:"isolate,omitempty"` // group_policy=isolate
	RootForbidden []string       `json:"root_forbidden,omitempty"`
	RootRequired  []string       `json:"root_required,omitempty"`
	SameSubtree   [][]string     `json:"same_subtree,omitempty"`
}

// RequestGroup is one request group. The one without a suffix may be served
// by several providers, every other one is served by one.
type RequestGroup struct {
	Forbidden   []string         `json:"forbidden,omitempty"`
	InTree      *ledger.UUID     `json:"in_tree,omitempty"`
	MemberOf    [][]ledger.UUID  `json:"member_of,omitempty"` // of each list, any
	NotMemberOf []ledger.UUID    `json:"not_member_of,omitempty"`
	Required    [][]string       `json:"required,omitempty"`  // of each list, any
	Resources   map[string]int64 `json:"resources,omitempty"` // class: amount
	Suffix      string           `json:"suffix,omitempty"`
}

var suffixPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]*$`)

// Check finds what is wrong with a request whatever the State.
func (q *CandidateRequest) Check() *Rejection {
	if n := len(q.Groups); n == 0 || n > MaxGroups {
		return Invalid("groups", "between 1 and %d are possible, not %d", MaxGroups, n)
	}
	names, suffixes := len(q.RootRequired)+len(q.RootForbidden), make(map[string]bool, len(q.Groups))
	resources := 0
	for i := range q.Groups {
		g := &q.Groups[i]
		if suffixes[g.Suffix] {
			return Invalid("groups", "suffix %q is given twice", g.Suffix)
		}
		suffixes[g.Suffix] = true
		if r := g.check(); r != nil {
			return r
		}
		resources += len(g.Resources)
		names += len(g.Resources) + len(g.Forbidden) + len(g.NotMemberOf)
		for _, anyOf := range g.Required {
			names += len(anyOf)
		}
		for _, anyOf := range g.MemberOf {
			names += len(anyOf)
		}
	}
	if resources == 0 {
		return Invalid("groups", "none of them asks for resources")
	}
	if names > maxNames {
		return Invalid("groups", "they name %d traits, aggregates and classes, and at most %d are possible", names, maxNames)
	}
	for _, subtree := range q.SameSubtree {
		for _, suffix := range subtree {
			if suffix == "" || !suffixes[suffix] {
				return Invalid("same_subtree", "there is no group %q", suffix)
			}
		}
	}
	return q.checkClashes()
}

func (g *RequestGroup) check() *Rejection {
	if len(g.Suffix) > maxSuffix || !suffixPattern.MatchString(g.Suffix) {
		return Invalid("groups", "suffix %q is not up to %d letters, digits, _ and -", g.Suffix, maxSuffix)
	}
	if g.Suffix == "" && len(g.Resources) == 0 {
		return Invalid("groups", "the one without a suffix needs resources")
	}
	for class, amount := range g.Resources {
		if amount < 1 || amount > ledger.MaxAmount {
			return Invalid("groups", "%d of class %q cannot be asked for", amount, class)
		}
	}
	for _, anyOf := range g.Required {
		if len(anyOf) == 0 {
			return Invalid("groups", "an empty list of required traits cannot be met")
		}
	}
	for _, anyOf := range g.MemberOf {
		if len(anyOf) == 0 {
			return Invalid("groups", "an empty list of aggregates cannot be met")
		}
	}
	return nil
}

// checkClashes finds what is required and forbidden at once.
func (q *CandidateRequest) checkClashes() *Rejection {
	for i := range q.Groups {
		g := &q.Groups[i]
		for _, anyOf := range g.Required {
			if !slices.ContainsFunc(anyOf, func(name string) bool { return !slices.Contains(g.Forbidden, name) }) {
				return Invalid("groups", "group %q requires and forbids %v", g.Suffix, anyOf)
			}
		}
	}
	for _, name := range q.RootRequired {
		if slices.Contains(q.RootForbidden, name) {
			return Invalid("root_required", "%s is forbidden, too", name)
		}
	}
	return nil
}

// Resolve looks up the classes that a request names.
func (q *CandidateRequest) Resolve(classes *ledger.ClassTable) (*wanted.Request, *Rejection) {
	request := &wanted.Request{
		Isolate: q.Isolate, SameSubtree: q.SameSubtree, RootRequired: q.RootRequired, RootForbidden: q.RootForbidden,
		Nested: true, Groups: make([]wanted.Group, 0, len(q.Groups)),
	}
	for i := range q.Groups {
		g := &q.Groups[i]
		group := wanted.Group{
			Suffix: g.Suffix, Required: g.Required, Forbidden: g.Forbidden, MemberOf: g.MemberOf, NotMemberOf: g.NotMemberOf,
			InTree: g.InTree, Resources: make([]wanted.Resource, 0, len(g.Resources)),
		}
		for _, class := range slices.Sorted(maps.Keys(g.Resources)) {
			id, known := classes.ID(class)
			if !known {
				return nil, ClassUnknown(class)
			}
			group.Resources = append(group.Resources, wanted.Resource{Class: id, Amount: g.Resources[class]})
		}
		request.Groups = append(request.Groups, group)
	}
	return request, nil
}

// Of is the inverse of Resolve: what a parsed request says in words.
func Of(req *wanted.Request, classes *ledger.ClassTable) CandidateRequest {
	q := CandidateRequest{
		Isolate: req.Isolate, SameSubtree: req.SameSubtree, RootRequired: req.RootRequired, RootForbidden: req.RootForbidden,
	}
	for i := range req.Groups {
		g := &req.Groups[i]
		group := RequestGroup{
			Suffix: g.Suffix, Required: g.Required, Forbidden: g.Forbidden, MemberOf: g.MemberOf, NotMemberOf: g.NotMemberOf,
			InTree: g.InTree,
		}
		for _, r := range g.Resources {
			if group.Resources == nil {
				group.Resources = make(map[string]int64, len(g.Resources))
			}
			group.Resources[classes.Name(r.Class)] = r.Amount
		}
		q.Groups = append(q.Groups, group)
	}
	return q
}

// Traits are the traits that a request names.
func (q *CandidateRequest) Traits() []string {
	names := slices.Concat(q.RootRequired, q.RootForbidden)
	for i := range q.Groups {
		names = append(append(names, slices.Concat(q.Groups[i].Required...)...), q.Groups[i].Forbidden...)
	}
	return names
}

// CheckTraits wants every trait that a request names to exist.
func (q *CandidateRequest) CheckTraits(s *ledger.State) *Rejection {
	for _, name := range q.Traits() {
		if !s.HasTrait(name) {
			return TraitUnknown([]string{name})
		}
	}
	return nil
}
