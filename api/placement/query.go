package placement

import (
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

// checkQuery validates the query string against the schema of the operation. Of a
// repeated parameter it checks the last value, which counts.
func checkQuery(r *request) *rest.Failure {
	flat := make(m)
	for _, key := range r.Query.Keys() {
		flat[key] = r.Query.Get(key)
	}
	if text := schemaFor(r.op.query, r.version).Check(flat); text != "" {
		return rest.BadRequest("Invalid query string parameters: %s", text)
	}
	return nil
}

// Microversions of the query language.
const (
	forbiddenTraitsSince     version = 22
	repeatedMemberOfSince    version = 24
	forbiddenAggregatesSince version = 32
	anyTraitsSince           version = 39
)

// providerQuery is what GET /resource_providers asks for: providers that satisfy
// a request group alone, and have this name and uuid if given.
type providerQuery struct {
	name string
	uuid *ledger.UUID
	candidates.Group
}

func parseProviderQuery(r *request) (*providerQuery, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	params := r.Query
	q := &providerQuery{name: params.Get("name")}
	if params.Has("uuid") {
		id, _ := parseUUID(params.Get("uuid"))
		q.uuid = &id
	}
	if params.Has("in_tree") {
		id, _ := parseUUID(params.Get("in_tree"))
		q.InTree = &id
	}
	if failure := q.parseMemberOf(r.version, "", params.All("member_of")); failure != nil {
		return nil, failure
	}
	if failure := q.parseAllRequired(r.version, params.All("required")); failure != nil {
		return nil, failure
	}
	var wanted []namedResource // well-formed; as upstream, whether the names are known is checked after all forms
	if params.Has("resources") {
		var failure *rest.Failure
		if wanted, failure = parseResources(params.Get("resources")); failure != nil {
			return nil, failure
		}
	}
	if failure := q.tooMany(len(wanted)); failure != nil {
		return nil, failure
	}
	unknown, err := unknownTraits(r.View, slices.Concat(q.Required, [][]string{q.Forbidden}))
	if err != nil {
		return nil, err
	}
	if unknown != nil {
		return nil, rest.BadRequest(
			"Invalid trait(s) in \"required\" parameter: No such trait(s): %s.", strings.Join(unknown, ", "),
		)
	}
	return q, q.findResources(r.View, wanted)
}

// maxFilters is how many traits, aggregates and resource classes a list of
// providers may be filtered by. Each is looked up, and without a bound a URL has
// room for thousands.
const maxFilters = 2048

// tooMany refuses a query with filters that would take long to look up.
func (q *providerQuery) tooMany(classes int) *rest.Failure {
	n := classes + len(q.Forbidden) + len(q.NotMemberOf)
	for _, anyOf := range q.Required {
		n += len(anyOf)
	}
	for _, anyOf := range q.MemberOf {
		n += len(anyOf)
	}
	if n > maxFilters {
		return tooManyFilters(n)
	}
	return nil
}

func tooManyFilters(n int) *rest.Failure {
	return rest.BadRequest(
		"Invalid query string parameters: %d traits, aggregates and resource classes, and there may be %d", n, maxFilters,
	)
}

func (q *providerQuery) parseMemberOf(v version, suffix string, values []string) *rest.Failure {
	if len(values) > 1 && v < repeatedMemberOfSince {
		return rest.BadRequest("Multiple member_of parameters are not supported")
	}
	for _, value := range values {
		list := value
		forbidden := strings.HasPrefix(list, "!")
		list = strings.TrimPrefix(list, "!")
		names := []string{list}
		if strings.HasPrefix(list, "in:") {
			names = strings.Split(strings.TrimPrefix(list, "in:"), ",")
		} else if strings.Contains(list, ",") {
			return rest.BadRequest("Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword "+
				"using the valid microversion. Got: %s", value)
		}
		ids := make([]ledger.UUID, len(names))
		for i, name := range names {
			id, valid := parseUUID(name)
			if !valid {
				return rest.BadRequest(
					"Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). Got: %s", name,
				)
			}
			ids[i] = id
		}
		if forbidden && v < forbiddenAggregatesSince {
			return rest.BadRequest("Forbidden member_of%s parameters are not supported in the specified microversion", suffix)
		}
		if forbidden {
			q.NotMemberOf = append(q.NotMemberOf, ids...)
		} else {
			q.MemberOf = append(q.MemberOf, ids)
		}
	}
	return nil
}

func (q *providerQuery) parseRequired(v version, value string) *rest.Failure {
	const prefix = "Invalid query string parameters: "
	form := "HW_CPU_X86_VMX,CUSTOM_MAGIC"
	if v >= forbiddenTraitsSince {
		form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC"
	}
	if strings.HasPrefix(value, "in:") {
		if v < anyTraitsSince {
			return rest.BadRequest(
				prefix+"The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got: %s", value,
			)
		}
		var anyOf []string
		for _, name := range strings.Split(strings.TrimPrefix(value, "in:"), ",") {
			name = strings.TrimSpace(name)
			if name == "" {
				return rest.BadRequest(
					prefix+"Expected 'required' parameter value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: %s",
					value,
				)
			}
			if strings.HasPrefix(name, "!") {
				return rest.BadRequest(
					prefix+"The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got: %s", value,
				)
			}
			anyOf = append(anyOf, name)
		}
		q.Required = append(q.Required, anyOf)
		return nil
	}
	for _, name := range strings.Split(value, ",") {
		name = strings.TrimSpace(name)
		bare := strings.TrimSpace(strings.TrimLeft(name, "!"))
		switch {
		case bare == "":
			return rest.BadRequest(
				prefix+"Expected 'required' parameter value of the form: %s. Got an empty trait in: %s", form, value,
			)
		case bare != name && v < forbiddenTraitsSince:
			return rest.BadRequest(prefix+"Expected 'required' parameter value of the form: %s. Got: %s", form, value)
		case bare != name:
			q.Forbidden = append(q.Forbidden, bare)
		default:
			q.Required = append(q.Required, []string{bare})
		}
	}
	return nil
}

// parseAllRequired reads a repeated parameter. Below 1.39 only the last value
// counts.
func (q *providerQuery) parseAllRequired(v version, values []string) *rest.Failure {
	if v < anyTraitsSince && len(values) > 1 {
		values = values[len(values)-1:]
	}
	for _, value := range values {
		if failure := q.parseRequired(v, value); failure != nil {
			return failure
		}
	}
	return nil
}

func unknownTraits(view projector.View, lists [][]string) ([]string, error) {
	var unknown []string
	names := slices.Concat(lists...)
	if n := len(names); n > maxFilters {
		return nil, tooManyFilters(n)
	}
	for _, name := range names {
		_, found, err := view.Trait(name)
		if err != nil {
			return nil, err
		}
		if !found {
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}

func (q *providerQuery) findResources(view projector.View, wanted []namedResource) error {
	classes, err := view.Classes()
	if err != nil {
		return err
	}
	for _, want := range wanted {
		id, known := classes.ID(want.name)
		if !known {
			return rest.BadRequest("Invalid resource class in resources parameter: No such resource class %s.", want.name)
		}
		q.setResource(candidates.Resource{Class: id, Amount: want.amount})
	}
	return nil
}

type namedResource struct {
	name   string
	amount int64
}

// parseResources reads CLASS:AMOUNT,CLASS:AMOUNT without looking up the classes.
func parseResources(value string) ([]namedResource, *rest.Failure) {
	var wanted []namedResource
	badly := func(got string) *rest.Failure {
		return rest.BadRequest("Badly formed resources parameter. Expected resources query string parameter in form: "+
			"?resources=VCPU:2,MEMORY_MB:1024. Got: %s.", got)
	}
	if strings.TrimSpace(value) == "" {
		return nil, badly("empty string")
	}
	for _, part := range strings.Split(value, ",") {
		name, amountText, found := strings.Cut(part, ":")
		if !found || strings.Contains(amountText, ":") {
			return nil, badly(part)
		}
		amount, ok := parsePythonInt(amountText)
		if !ok {
			return nil, rest.BadRequest("Requested resource %s expected positive integer amount. Got: %s.", name, amountText)
		}
		if amount < 1 {
			return nil, rest.BadRequest("Requested resource %s requires amount >= 1. Got: %d.", name, amount)
		}
		wanted = append(wanted, namedResource{name, amount})
	}
	return wanted, nil
}

// setResource sets the amount of a class. If a class is repeated, the last amount
// counts.
func (q *providerQuery) setResource(want candidates.Resource) {
	for i := range q.Resources {
		if q.Resources[i].Class == want.Class {
			q.Resources[i] = want
			return
		}
	}
	q.Resources = append(q.Resources, want)
}

// parsePythonInt reads what Python's int() reads: blanks around the number, a
// sign, and single underscores between digits.
func parsePythonInt(text string) (int64, bool) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "__") || strings.HasPrefix(text, "_") || strings.HasSuffix(text, "_") {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	return n, err == nil
}

// find lists the providers that match, in the order of their creation.
func (q *providerQuery) find(view projector.View, world *candidates.World) ([]*ledger.Provider, error) {
	id := q.uuid
	if q.name != "" {
		named, found, err := view.ProviderNamed(q.name)
		if err != nil || !found || id != nil && *id != named.UUID {
			return nil, err
		}
		id = &named.UUID
	}
	if id == nil {
		return world.Serving(&q.Group), nil
	}
	if p, found := world.Serves(*id, &q.Group); found {
		return []*ledger.Provider{p}, nil
	}
	return nil, nil
}
