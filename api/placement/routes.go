package placement

import (
	"net/url"
	"reflect"
	"runtime"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

type operation struct {
	method string
	from   version // first microversion that has it
	until  version // last microversion that has it
	rule   string  // policy rule; empty: open to everybody
	name   string  // its handler's: no two have the same
	handle func(*request) (*response, error)
	body   string // name of the schema of its JSON body; empty: it takes none
	query  string // name of the schema of its query string; empty: the query is ignored
	answer string // component in the description that describes its answer
	status []int  // status of a success
	reads  bool   // it answers with a JSON body, so Accept is checked
	// mediaFirst checks Accept and Content-Type before the microversion, as
	// Placement does for aggregates.
	mediaFirst bool
}

// route is a path pattern with parameters in braces, and its operations, in the
// order of the Allow header.
type route struct {
	path       []string
	pattern    string // the path, as one text
	operations []operation
}

// The route table is not net/http's ServeMux, because that answers unclean paths
// with redirects, and 404 and 405 with bodies of its own, and clients rely on
// Placement's.
var routes = []route{
	at("", gives("Versions", does("GET", 0, "", "", showRoot))), // whatever the client accepts
	at("resource_providers",
		gives("Providers", asks("list providers", get(0, "placement:resource_providers:list", listProviders))),
		gives("Provider", post(0, "placement:resource_providers:create", "create provider", createProvider), 200, 201)),
	at("resource_providers/{uuid}",
		gives("Provider", get(0, "placement:resource_providers:show", showProvider)),
		del(0, "placement:resource_providers:delete", deleteProvider),
		gives("Provider", put(0, "placement:resource_providers:update", "update provider", updateProvider))),
	at("resource_providers/{uuid}/inventories",
		gives("Inventories", get(0, "placement:resource_providers:inventories:list", listInventories)),
		gives("Inventory",
			post(0, "placement:resource_providers:inventories:create", "create inventory", createInventory), 201),
		gives("Inventories",
			put(0, "placement:resource_providers:inventories:update", "replace inventories", replaceInventories)),
		del(5, "placement:resource_providers:inventories:delete", deleteInventories)),
	at("resource_providers/{uuid}/inventories/{resource_class}",
		gives("Inventory", get(0, "placement:resource_providers:inventories:show", showInventory)),
		gives("Inventory", put(0, "placement:resource_providers:inventories:update", "update inventory", updateInventory)),
		del(0, "placement:resource_providers:inventories:delete", deleteInventory)),
	at("resource_providers/{uuid}/usages",
		gives("ProviderUsages", get(0, "placement:resource_providers:usages", showProviderUsages))),
	at("resource_providers/{uuid}/aggregates",
		gives("Aggregates", mediaFirst(get(1, "placement:resource_providers:aggregates:list", showAggregates))),
		gives("Aggregates",
			mediaFirst(put(1, "placement:resource_providers:aggregates:update", "replace aggregates", replaceAggregates)))),
	at("resource_providers/{uuid}/allocations",
		gives("ProviderAllocations", get(0, "placement:resource_providers:allocations:list", showProviderAllocations))),
	at("resource_providers/{uuid}/traits",
		gives("ProviderTraits", get(6, "placement:resource_providers:traits:list", showProviderTraits)),
		gives("ProviderTraits", put(6, "placement:resource_providers:traits:update", "replace traits", replaceProviderTraits)),
		del(6, "placement:resource_providers:traits:delete", deleteProviderTraits)),
	at("resource_providers/{uuid}/counters",
		gives("Counters", get(0, "allot:counters:list", showCounters)),
		gives("Counters", put(0, "allot:counters:update", "counters", replaceCounters))),
	at("resource_classes",
		gives("ResourceClasses", get(2, "placement:resource_classes:list", listClasses)),
		gives("", post(2, "placement:resource_classes:create", "resource class", createClass), 201)),
	at("resource_classes/{name}",
		gives("ResourceClass", get(2, "placement:resource_classes:show", showClass)),
		gives("ResourceClass", until(6, put(2, "placement:resource_classes:update", "resource class", renameClass))),
		gives("", does("PUT", 7, "placement:resource_classes:update", "", ensureClass), 201, 204),
		del(2, "placement:resource_classes:delete", deleteClass)),
	at("traits", gives("Traits", asks("list traits", get(6, "placement:traits:list", listTraits)))),
	at("traits/{name}",
		gives("", does("GET", 6, "placement:traits:show", "", showTrait), 204),
		gives("", does("PUT", 6, "placement:traits:update", "", ensureTrait), 201, 204),
		del(6, "placement:traits:delete", deleteTrait)),
	at("allocations", gives("", post(13, "placement:allocations:manage", "allocate many", allocateMany), 204)),
	at("allocations/{consumer_uuid}",
		gives("Allocations", get(0, "placement:allocations:list", showAllocations)),
		gives("", put(0, "placement:allocations:update", "allocate", allocateOne), 204),
		del(0, "placement:allocations:delete", releaseConsumer)),
	at("allocation_candidates",
		gives("AllocationCandidates", asks("candidates", get(10, "placement:allocation_candidates:list", listCandidates)))),
	at("capacity", gives("Capacity", asks("capacity", get(0, "placement:allocation_candidates:list", showCapacity)))),
	at("claims", gives("Claimed", post(0, "allot:claims:create", "claim", claim))),
	at("limits",
		gives("Limits", asks("limits", get(0, "allot:limits:list", showLimits))),
		gives("", put(0, "allot:limits:update", "limit", setLimit), 204)),
	at("limits/versions",
		gives("LimitVersions", asks("limit versions", get(0, "allot:limits:list", showLimitVersions)))),
	at("projects/{project_id}", gives("", put(0, "allot:limits:update", "project", placeProject), 204)),
	at("preferences", gives("Preferences", get(0, "allot:preferences:list", listPreferences))),
	at("preferences/{name}",
		gives("Preference", get(0, "allot:preferences:list", showPreference)),
		gives("", put(0, "allot:preferences:update", "preference", setPreference), 204)),
	at("topologies", gives("Topologies", get(0, "allot:topologies:list", listTopologies))),
	at("topologies/{name}",
		gives("Topology", get(0, "allot:topologies:list", showTopology)),
		gives("", put(0, "allot:topologies:update", "topology", setTopology), 204),
		del(0, "allot:topologies:update", deleteTopology)),
	at("usages", gives("Usages", asks("usages", get(9, "placement:usages", showUsages)))),
	at("reshaper", gives("", post(30, "placement:reshaper:reshape", "reshape", reshape), 204)),
}

func at(path string, operations ...operation) route {
	return route{path: strings.Split(path, "/"), pattern: "/" + path, operations: operations}
}

// handler answers an operation. Besides the request it may take the provider that the path names,
// and the body. Placement does not read the body if the provider is missing.
type handler interface {
	func(*request) (*response, error) |
		func(*request, any) (*response, error) |
		func(*request, *ledger.Provider) (*response, error) |
		func(*request, *ledger.Provider, any) (*response, error)
}

// does makes an operation that ignores the Accept header, and the body unless it has a schema.
func does[H handler](method string, from version, rule, body string, handle H) operation {
	name := runtime.FuncForPC(reflect.ValueOf(handle).Pointer()).Name()
	op := operation{
		method: method, from: from, until: maxVersion, rule: rule, body: body,
		name: name[strings.LastIndexByte(name, '.')+1:],
	}
	switch handle := any(handle).(type) {
	case func(*request) (*response, error):
		op.handle = handle
	case func(*request, any) (*response, error):
		op.handle = withBody(handle)
	case func(*request, *ledger.Provider) (*response, error):
		op.handle = withProvider(handle)
	case func(*request, *ledger.Provider, any) (*response, error):
		op.handle = withProvider(func(r *request, p *ledger.Provider) (*response, error) {
			return withBody(func(r *request, doc any) (*response, error) { return handle(r, p, doc) })(r)
		})
	}
	return op
}

func withBody(handle func(*request, any) (*response, error)) func(*request) (*response, error) {
	return func(r *request) (*response, error) {
		doc, err := decodeBody(r)
		if err != nil {
			return nil, err
		}
		return handle(r, doc)
	}
}

// withProvider calls a handler with the provider that the path names, as the request's view has it.
func withProvider(handle func(*request, *ledger.Provider) (*response, error)) func(*request) (*response, error) {
	return func(r *request) (*response, error) {
		r.looked = true
		p, err := r.providerNamed(r.params[0])
		if err != nil {
			return nil, err
		}
		if p == nil {
			return nil, rest.NotFound("No resource provider with uuid %s found", r.params[0])
		}
		return handle(r, p)
	}
}

func get[H handler](from version, rule string, handle H) operation {
	op := does("GET", from, rule, "", handle)
	op.reads = true
	return op
}

func post[H handler](from version, rule, body string, handle H) operation {
	return does("POST", from, rule, body, handle)
}

func put[H handler](from version, rule, body string, handle H) operation {
	return does("PUT", from, rule, body, handle)
}

func del[H handler](from version, rule string, handle H) operation {
	return gives("", does("DELETE", from, rule, "", handle), 204)
}

func asks(query string, op operation) operation {
	op.query = query
	return op
}

// gives names the answer's description. Its status is 200 unless one is given.
func gives(answer string, op operation, status ...int) operation {
	if status == nil {
		status = []int{200}
	}
	op.answer, op.status = answer, status
	return op
}

func until(last version, op operation) operation {
	op.until = last
	return op
}

func mediaFirst(op operation) operation {
	op.mediaFirst = true
	return op
}

// findRoute matches an escaped path and decodes its parameters. A parameter is
// one segment and never empty; a trailing slash makes another path.
func findRoute(escaped string) (*route, []string) {
	if escaped == "" || escaped == "/" {
		return &routes[0], nil
	}
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i := 1; i < len(routes); i++ {
		if params, ok := routes[i].match(segments); ok {
			return &routes[i], params
		}
	}
	return nil, nil
}

func (rt *route) match(segments []string) ([]string, bool) {
	if len(segments) != len(rt.path) {
		return nil, false
	}
	var params []string
	for i, segment := range segments {
		parameter := strings.HasPrefix(rt.path[i], "{")
		if !parameter && segment == rt.path[i] {
			continue
		}
		decoded, err := url.PathUnescape(segment)
		if err != nil || decoded == "" || !parameter && decoded != rt.path[i] {
			return nil, false
		}
		if parameter {
			params = append(params, decoded)
		}
	}
	return params, true
}

// find returns the operation for a method and microversion. known reports whether
// the route has the method at any microversion.
func (rt *route) find(method string, v version) (op *operation, known bool) {
	for i := range rt.operations {
		candidate := &rt.operations[i]
		if candidate.method != method {
			continue
		}
		known = true
		if candidate.from <= v && v <= candidate.until {
			return candidate, true
		}
		op = candidate
	}
	return op, known
}

func (rt *route) allow() string {
	var methods []string
	for _, op := range rt.operations {
		if len(methods) == 0 || methods[len(methods)-1] != op.method {
			methods = append(methods, op.method)
		}
	}
	return strings.Join(methods, ", ")
}
