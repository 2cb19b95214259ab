package placement

import (
	"net/url"
	"strings"
)

// operation is one method of one route.
type operation struct {
	method string
	from   version // first microversion that has it
	until  version // last microversion that has it
	rule   string  // policy rule; empty: open to everyone
	handle func(*Handler, *request) (*response, error)
	body   bool // takes a JSON body
	reads  bool // answers a JSON body: Accept is checked
	// mediaFirst checks Accept and Content-Type before the microversion,
	// as Placement does for aggregates.
	mediaFirst bool
}

// route is a path pattern, "*" standing for a parameter, and what can be done
// there, in the order of the Allow header.
type route struct {
	path       []string
	operations []operation
}

// The route table is not net/http's ServeMux: that answers unclean paths with
// redirects and 404 and 405 with bodies of its own, and clients rely on
// Placement's.
var routes = []route{
	at("", get(0, "", showRoot)),
	at("resource_providers",
		get(0, "placement:resource_providers:list", listProviders),
		post(0, "placement:resource_providers:create", createProvider)),
	at("resource_providers/*",
		get(0, "placement:resource_providers:show", showProvider),
		del(0, "placement:resource_providers:delete", deleteProvider),
		put(0, "placement:resource_providers:update", updateProvider)),
	at("resource_providers/*/inventories",
		get(0, "placement:resource_providers:inventories:list", listInventories),
		post(0, "placement:resource_providers:inventories:create", createInventory),
		put(0, "placement:resource_providers:inventories:update", replaceInventories),
		del(5, "placement:resource_providers:inventories:delete", deleteInventories)),
	at("resource_providers/*/inventories/*",
		get(0, "placement:resource_providers:inventories:show", showInventory),
		put(0, "placement:resource_providers:inventories:update", updateInventory),
		del(0, "placement:resource_providers:inventories:delete", deleteInventory)),
	at("resource_providers/*/usages",
		get(0, "placement:resource_providers:usages", showProviderUsages)),
	at("resource_providers/*/aggregates",
		mediaFirst(get(1, "placement:resource_providers:aggregates:list", showAggregates)),
		mediaFirst(put(1, "placement:resource_providers:aggregates:update", replaceAggregates))),
	at("resource_providers/*/allocations",
		get(0, "placement:resource_providers:allocations:list", showProviderAllocations)),
	at("resource_providers/*/traits",
		get(6, "placement:resource_providers:traits:list", showProviderTraits),
		put(6, "placement:resource_providers:traits:update", replaceProviderTraits),
		del(6, "placement:resource_providers:traits:delete", deleteProviderTraits)),
	at("resource_classes",
		get(2, "placement:resource_classes:list", listClasses),
		post(2, "placement:resource_classes:create", createClass)),
	at("resource_classes/*",
		get(2, "placement:resource_classes:show", showClass),
		until(6, put(2, "placement:resource_classes:update", renameClass)),
		ensure(7, "placement:resource_classes:update", ensureClass),
		del(2, "placement:resource_classes:delete", deleteClass)),
	at("traits", get(6, "placement:traits:list", listTraits)),
	at("traits/*",
		ensure2("GET", 6, "placement:traits:show", showTrait),
		ensure(6, "placement:traits:update", ensureTrait),
		del(6, "placement:traits:delete", deleteTrait)),
	at("allocations", post(13, "placement:allocations:manage", allocateMany)),
	at("allocations/*",
		get(0, "placement:allocations:list", showAllocations),
		put(0, "placement:allocations:update", allocateOne),
		del(0, "placement:allocations:delete", releaseConsumer)),
	at("allocation_candidates", get(10, "placement:allocation_candidates:list", listCandidates)),
	at("usages", get(9, "placement:usages", showUsages)),
	at("reshaper", post(30, "placement:reshaper:reshape", reshape)),
}

type handle = func(*Handler, *request) (*response, error)

func at(path string, operations ...operation) route {
	return route{path: strings.Split(path, "/"), operations: operations}
}

func get(from version, rule string, h handle) operation {
	return operation{method: "GET", from: from, until: maxVersion, rule: rule, handle: h, reads: true}
}

func post(from version, rule string, h handle) operation {
	return operation{method: "POST", from: from, until: maxVersion, rule: rule, handle: h, body: true}
}

func put(from version, rule string, h handle) operation {
	return operation{method: "PUT", from: from, until: maxVersion, rule: rule, handle: h, body: true}
}

func del(from version, rule string, h handle) operation {
	return operation{method: "DELETE", from: from, until: maxVersion, rule: rule, handle: h}
}

// ensure is a PUT without a body.
func ensure(from version, rule string, h handle) operation { return ensure2("PUT", from, rule, h) }

// ensure2 is an operation with neither body nor answer.
func ensure2(method string, from version, rule string, h handle) operation {
	return operation{method: method, from: from, until: maxVersion, rule: rule, handle: h}
}

func until(last version, op operation) operation {
	op.until = last
	return op
}

func mediaFirst(op operation) operation {
	op.mediaFirst = true
	return op
}

// findRoute matches an escaped path and decodes its parameters. Parameters are
// one segment, never empty; a trailing slash is another path.
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
		decoded, err := url.PathUnescape(segment)
		if err != nil || decoded == "" || rt.path[i] != "*" && decoded != rt.path[i] {
			return nil, false
		}
		if rt.path[i] == "*" {
			params = append(params, decoded)
		}
	}
	return params, true
}

// find returns the operation for a method and microversion. known says that
// the route has the method at some microversion.
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
