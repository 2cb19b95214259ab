package placement

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/schema"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

const (
	codeDuplicateKey = "placement.query.duplicate_key"
	codeBadValue     = "placement.query.bad_value"
	codeMissingValue = "placement.query.missing_value"

	candidatesDictSince     version = 12
	summaryTraitsSince      version = 17
	allClassesSince         version = 27
	nestedCandidatesSince   version = 29
	mappingsSince           version = 34
	resourcelessGroupsSince version = 36

	maxCandidateGroups = 64
)

var groupKeyPattern = regexp.MustCompile(`^(resources|required|member_of|in_tree)(.*)$`)

func candidateSchemas() map[schemaName]m {
	anything := m{}
	limit := m{"type": "string", "pattern": "^[1-9][0-9]*$", "minLength": 1}
	policy := m{"type": "string", "enum": []any{"none", "isolate"}}
	plain := m{"resources": anything}
	sources := map[schemaName]m{{"candidates", 10}: closed(plain, "resources")}
	for _, step := range []struct {
		from version
		key  string
		rule m
	}{{16, "limit", limit}, {17, "required", anything}, {21, "member_of", anything}} {
		plain = with(plain, step.key, step.rule)
		sources[schemaName{"candidates", step.from}] = closed(plain, "resources")
	}
	grouped := func(from version, suffix string, keys []string, extra ...string) {
		s := closed(m{"limit": limit, "group_policy": policy})
		for _, key := range extra {
			s["properties"].(m)[key] = anything
		}
		patterns := m{}
		for _, key := range keys {
			patterns["^"+key+"("+suffix+")?$"] = anything
		}
		s["patternProperties"] = patterns
		sources[schemaName{"candidates", from}] = s
	}
	numbers, names := "[1-9][0-9]*", "[a-zA-Z0-9_-]{1,64}"
	keys := []string{"member_of", "required", "resources"}
	treed := append([]string{"in_tree"}, keys...)
	grouped(25, numbers, keys)
	grouped(31, numbers, treed)
	grouped(33, names, treed)
	grouped(35, names, treed, "root_required")
	grouped(36, names, treed, "root_required", "same_subtree")
	by := m{"type": "string", "enum": []any{"aggregate", "topology"}}
	own := with(sources[schemaName{"candidates", 36}]["properties"].(m), "by", by)
	own = with(own, "topology", text(1, 64))
	capacity := closed(with(own, "marker", m{"type": "string", "format": "uuid"}))
	capacity["patternProperties"] = sources[schemaName{"candidates", 36}]["patternProperties"]
	sources[schemaName{"capacity", 0}] = capacity
	return sources
}

// candidateQuery is a parsed request with the texts of its groups.
type candidateQuery struct {
	request  candidates.Request
	suffixes []string
	groups   map[string]*providerQuery
	keys     map[string]map[string]bool // suffix -> the keys that were given
	explain  bool
	prefer   *demand.ClaimPreference // nil: in the order of the search
	marker   string                  // where the page begins; empty: at the best
}

func newCandidateQuery() *candidateQuery {
	return &candidateQuery{groups: map[string]*providerQuery{}, keys: map[string]map[string]bool{}}
}

// CandidateOptions bounds and orders candidates, for all requests alike.
type CandidateOptions struct {
	// Max ends every search after this many candidates, whatever limit the client
	// gives (upstream's max_allocation_candidates). 0: no bound.
	Max int
	// MaxSteps is the work that one request may take, in steps; 0:
	// DefaultCandidateSteps.
	MaxSteps int
	// Order is upstream's allocation_candidates_generation_strategy.
	Order candidates.Order
	// Shuffle finds candidates in random order (upstream's
	// randomize_allocation_candidates). Without it the order only changes with
	// the providers.
	Shuffle bool
}

// DefaultCandidateSteps takes about a second.
const DefaultCandidateSteps = 50_000_000

func listCandidates(r *request) (*response, error) {
	q := newCandidateQuery()
	var err error
	if q.explain, err = r.Query.TakeBool("explain"); err != nil {
		return nil, rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if err := q.takePreference(r.Query); err != nil {
		return nil, rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	world, err := r.world()
	if err != nil {
		return nil, err
	}
	if err := q.parse(r, r.Query); err != nil {
		return nil, err
	}
	q.orderClasses(world)
	q.bound(r.h.Candidates)
	return candidatesAnswer(r, world, q)
}

// takePreference takes Allot's own parameters of an order: what is better, as the
// JSON of a claim's prefer, and the marker of a page.
func (q *candidateQuery) takePreference(params *rest.Query) error {
	text, given, err := params.TakeText("prefer")
	if err != nil {
		return err
	}
	if given {
		if len(text) > ledger.MaxDocumentBytes {
			return fmt.Errorf("prefer: %d bytes, and at most %d are read", len(text), ledger.MaxDocumentBytes)
		}
		q.prefer = &demand.ClaimPreference{}
		if err := document.Decode([]byte(text), q.prefer); err != nil {
			return fmt.Errorf("prefer: %w", err)
		}
	}
	q.marker, given, err = params.TakeText("marker")
	if err == nil && given && (q.marker == "" || q.prefer == nil) {
		err = errors.New("marker: pages are in the order of a preference: give the marker that an answer had, and prefer")
	}
	return err
}

// orderClasses puts the classes of the group without a suffix in Placement's
// order: that of their numbers where providers have parents or share with others,
// otherwise that of the request, as in other groups.
func (q *candidateQuery) orderClasses(world *candidates.World) {
	if !world.Nested() && !world.TraitInUse(candidates.SharingTrait) {
		return
	}
	for i := range q.request.Groups {
		if g := &q.request.Groups[i]; g.Suffix == "" {
			slices.SortFunc(g.Resources, func(a, b candidates.Resource) int { return cmp.Compare(a.Class, b.Class) })
		}
	}
}

func (q *candidateQuery) bound(o CandidateOptions) {
	q.request.Pause = fair.Pause
	q.request.MaxSteps = cmp.Or(o.MaxSteps, DefaultCandidateSteps)
	if o.Max > 0 && (q.request.Limit == 0 || q.request.Limit > o.Max) {
		q.request.Limit = o.Max
	}
	q.request.Order, q.request.Shuffle = o.Order, o.Shuffle
	if o.Shuffle {
		q.request.Seed = rand.Uint64()
	}
}

func (q *candidateQuery) parse(r *request, params *rest.Query) error {
	if failure := q.parseRoot(r, params); failure != nil {
		return failure
	}
	if failure := q.parseSubtrees(params); failure != nil {
		return failure
	}
	if failure := q.parseGroups(r, params); failure != nil {
		return failure
	}
	if failure := q.checkGroups(r.version, params); failure != nil {
		return failure
	}
	if err := checkTraitsExist(r.View, [][]string{q.request.RootRequired, q.request.RootForbidden}); err != nil {
		return err
	}
	for _, suffix := range q.suffixes {
		g := q.groups[suffix]
		if q.keys[suffix]["resources"] {
			wanted, failure := parseResources(params.Get("resources" + suffix))
			if failure != nil {
				return failure
			}
			if err := g.findResources(r.View, wanted); err != nil {
				return err
			}
		}
		if err := checkTraitsExist(r.View, slices.Concat(g.Required, [][]string{g.Forbidden})); err != nil {
			return err
		}
		q.request.Groups = append(q.request.Groups, g.Group)
	}
	if params.Has("limit") {
		limit, err := strconv.Atoi(params.First("limit"))
		if err != nil {
			limit = math.MaxInt // the schema lets only digits through
		}
		q.request.Limit = limit
	}
	q.request.Isolate = params.First("group_policy") == "isolate"
	q.request.Nested = r.version >= nestedCandidatesSince
	return nil
}

func checkTraitsExist(view projector.View, lists [][]string) error {
	unknown, err := unknownTraits(view, lists)
	if err == nil && unknown != nil {
		return rest.BadRequest("No such trait(s): %s.", strings.Join(unknown, ", "))
	}
	return err
}

func (q *candidateQuery) parseRoot(r *request, params *rest.Query) *rest.Failure {
	values := params.All("root_required")
	if len(values) > 1 {
		return badRequest(codeDuplicateKey, "Query parameter 'root_required' may be specified only once.")
	}
	if len(values) == 0 {
		return nil
	}
	root := &providerQuery{}
	v := r.version
	if strings.HasPrefix(values[0], "in:") {
		v = anyTraitsSince - 1 // any-of is not supported here at any microversion
	}
	if failure := root.parseRequired(v, values[0]); failure != nil {
		return failure
	}
	var clash []string
	for _, anyOf := range root.Required {
		q.request.RootRequired = append(q.request.RootRequired, anyOf...)
		if slices.Contains(root.Forbidden, anyOf[0]) {
			clash = append(clash, anyOf[0])
		}
	}
	q.request.RootForbidden = root.Forbidden
	if clash != nil {
		sort.Strings(clash)
		return badRequest(codeBadValue,
			"Conflicting required and forbidden traits found in root_required: %s", strings.Join(clash, ", "))
	}
	return nil
}

func (q *candidateQuery) parseSubtrees(params *rest.Query) *rest.Failure {
	for _, value := range params.All("same_subtree") {
		var suffixes []string
		for _, suffix := range strings.Split(value, ",") {
			suffix = strings.TrimSpace(suffix)
			if suffix == "" {
				return badRequest(codeBadValue, "Empty string (unsuffixed group) can not be specified in `same_subtree`")
			}
			if !slices.Contains(suffixes, suffix) {
				suffixes = append(suffixes, suffix)
			}
		}
		q.request.SameSubtree = append(q.request.SameSubtree, suffixes)
	}
	return nil
}

func (q *candidateQuery) parseGroups(r *request, params *rest.Query) *rest.Failure {
	for _, key := range params.Keys() {
		match := groupKeyPattern.FindStringSubmatch(key)
		if match == nil {
			continue
		}
		suffix := match[2]
		if q.groups[suffix] == nil {
			q.groups[suffix], q.keys[suffix] = &providerQuery{Group: candidates.Group{Suffix: suffix}}, map[string]bool{}
			q.suffixes = append(q.suffixes, suffix)
		}
		q.keys[suffix][match[1]] = true
	}
	sort.Strings(q.suffixes)
	if len(q.suffixes) > maxCandidateGroups {
		return rest.BadRequest("at most %d request groups are supported, not %d", maxCandidateGroups, len(q.suffixes))
	}
	for _, suffix := range q.suffixes {
		if failure := q.parseGroup(r, params, suffix); failure != nil {
			return failure
		}
	}
	return nil
}

func (q *candidateQuery) parseGroup(r *request, params *rest.Query, suffix string) *rest.Failure {
	g := q.groups[suffix]
	if q.keys[suffix]["resources"] {
		if _, failure := parseResources(params.Get("resources" + suffix)); failure != nil {
			return failure
		}
	}
	if failure := g.parseAllRequired(r.version, params.All("required"+suffix)); failure != nil {
		return failure
	}
	if members := params.All("member_of" + suffix); len(members) > 1 && r.version < repeatedMemberOfSince {
		return rest.BadRequest("Multiple member_of%s parameters are not supported", suffix)
	} else if failure := g.parseMemberOf(r.version, suffix, members); failure != nil {
		return failure
	}
	if params.Has("in_tree" + suffix) {
		id, valid := parseUUID(params.Get("in_tree" + suffix))
		if !valid {
			return rest.BadRequest(
				"Invalid query string parameters: Expected 'in_tree' parameter to be a format of uuid. Got: %s",
				params.Get("in_tree"+suffix),
			)
		}
		g.InTree = &id
	}
	return nil
}

func (q *candidateQuery) checkGroups(v version, params *rest.Query) *rest.Failure {
	var failure *rest.Failure
	if v >= resourcelessGroupsSince {
		failure = q.checkResourceless()
	} else {
		failure = q.checkOrphans()
	}
	if failure == nil && v >= forbiddenTraitsSince {
		failure = q.checkClashes()
	}
	if failure != nil {
		return failure
	}
	suffixed := 0
	for _, suffix := range q.suffixes {
		if suffix != "" {
			suffixed++
		}
	}
	if suffixed > 1 && !params.Has("group_policy") {
		return rest.BadRequest(
			"The \"group_policy\" parameter is required when specifying more than one \"resources{N}\" parameter.",
		)
	}
	return nil
}

func (q *candidateQuery) checkOrphans() *rest.Failure {
	orphans := func(key string, counts func(*providerQuery) bool) []string {
		var found []string
		for _, suffix := range q.suffixes {
			if q.keys[suffix][key] && !q.keys[suffix]["resources"] && counts(q.groups[suffix]) {
				found = append(found, key+suffix)
			}
		}
		return found
	}
	// As upstream, traits that are only forbidden do not count.
	if found := orphans("required", func(g *providerQuery) bool { return g.Required != nil }); found != nil {
		return rest.BadRequest(
			"All traits parameters must be associated with resources.  Found the following orphaned traits keys: %s",
			strings.Join(found, ", "),
		)
	}
	inAggregates := func(g *providerQuery) bool { return g.MemberOf != nil || g.NotMemberOf != nil }
	if found := orphans("member_of", inAggregates); found != nil {
		return rest.BadRequest(
			"All member_of parameters must be associated with resources. Found the following orphaned member_of keys: %s",
			strings.Join(found, ", "),
		)
	}
	if len(q.suffixes) == 0 {
		return rest.BadRequest("At least one request group (`resources` or `resources{$S}`) is required.")
	}
	for _, suffix := range q.suffixes {
		if !q.keys[suffix]["resources"] {
			return rest.BadRequest("All request groups must specify resources.")
		}
	}
	return nil
}

func (q *candidateQuery) checkResourceless() *rest.Failure {
	var bare, real []string
	resources := false
	grouped := map[string]bool{}
	for _, suffixes := range q.request.SameSubtree {
		for _, suffix := range suffixes {
			grouped[suffix] = true
		}
	}
	for _, suffix := range q.suffixes {
		resources = resources || q.keys[suffix]["resources"]
		if suffix != "" {
			real = append(real, suffix)
		}
		if !q.keys[suffix]["resources"] && !grouped[suffix] {
			bare = append(bare, suffix)
		}
	}
	if !resources {
		return badRequest(codeMissingValue, "There must be at least one resources or resources[$S] parameter.")
	}
	if bare != nil {
		return badRequest(codeBadValue,
			"Resourceless suffixed group request should be specified in `same_subtree` query param: bad group(s) - %s.",
			schema.Repr(schema.List(bare)))
	}
	var unreal []string
	for suffix := range grouped {
		if !slices.Contains(real, suffix) {
			unreal = append(unreal, suffix)
		}
	}
	if unreal != nil {
		sort.Strings(unreal)
		return badRequest(codeBadValue,
			"Real suffixes should be specified in `same_subtree`: %s not found in %s.", schema.Repr(schema.List(unreal)),
			schema.Repr(schema.List(real)))
	}
	return nil
}

// checkClashes finds groups that require what they forbid.
func (q *candidateQuery) checkClashes() *rest.Failure {
	var clashes []string
	for _, suffix := range q.suffixes {
		g := q.groups[suffix]
		var names []string
		for _, anyOf := range g.Required {
			if !slices.ContainsFunc(anyOf, func(name string) bool { return !slices.Contains(g.Forbidden, name) }) {
				names = append(names, anyOf...)
			}
		}
		if names != nil {
			sort.Strings(names)
			clashes = append(clashes, "required"+suffix+": ("+strings.Join(names, ", ")+")")
		}
	}
	if clashes != nil {
		return rest.BadRequest(
			"Conflicting required and forbidden traits found in the following traits keys: %s", strings.Join(clashes, ", "),
		)
	}
	return nil
}

// showCapacity reads a request as GET /allocation_candidates does, in the newest microversion
// whatever the request's is, and counts how many more such allocations fit.
func showCapacity(r *request) (*response, error) {
	asked, q := *r, newCandidateQuery()
	asked.version = maxVersion
	if failure := checkQuery(&asked); failure != nil {
		return nil, failure
	}
	world, err := r.world()
	if err != nil {
		return nil, err
	}
	asked.View = r.View
	if err := q.parse(&asked, r.Query); err != nil {
		return nil, err
	}
	sums, err := present.SumsBy(r.View, r.Query.Get("by"), r.Query.Get("topology"))
	if errors.Is(err, present.ErrQuery) {
		return nil, rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if err != nil {
		return nil, err
	}
	var marker *ledger.UUID
	if id, given := parseUUID(r.Query.Get("marker")); given { // the schema lets only uuids through
		marker = &id
	}
	q.request.Pause, q.request.MaxSteps = fair.Pause, cmp.Or(r.h.Candidates.MaxSteps, DefaultCandidateSteps)
	return &response{status: http.StatusOK, cache: true, stream: func(out io.Writer) error {
		work := r.Fair.Begin(r.Client())
		defer work.End()
		capacity, err := present.Capacity(work.Within(r.Context()), world, &q.request, sums, marker)
		if errors.Is(err, present.ErrQuery) {
			return rest.BadRequest("Invalid query string parameters: %v", err)
		}
		if err != nil {
			return err
		}
		text, err := ledger.PlainJSON(capacity)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}}, nil
}
