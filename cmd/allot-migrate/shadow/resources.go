package shadow

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// Resource is what a write changes: "provider UUID", "consumer UUID", "class NAME" or
// "trait NAME", as contents.Difference names it.
type Resource string

const (
	kindProvider = "provider"
	kindConsumer = "consumer"
	kindClass    = "class"
	kindTrait    = "trait"
	// kindGeneration is the generation of a provider. Only the proxy's own writes change it for themselves.
	kindGeneration = "generation"
	// kindUsage is what is used of a provider. It is never changed for itself, and only looked at.
	kindUsage = "usage"
)

func resource(kind, id string) Resource {
	if kind != kindClass && kind != kindTrait {
		if parsed, err := ledger.ParseUUID(id); err == nil {
			id = parsed.String()
		}
	}
	return Resource(kind + " " + id)
}

func (r Resource) split() (kind, id string) {
	kind, id, _ = strings.Cut(string(r), " ")
	return kind, id
}

// patterns are the paths of Placement's API. A star is a parameter. The proxy serves no
// others, because what Allot has beside them cannot be followed.
var patterns = []string{
	"/", "/resource_providers", "/resource_providers/*", "/resource_providers/*/inventories",
	"/resource_providers/*/inventories/*", "/resource_providers/*/usages", "/resource_providers/*/aggregates",
	"/resource_providers/*/allocations", "/resource_providers/*/traits", "/resource_classes", "/resource_classes/*",
	"/traits", "/traits/*", "/allocations", "/allocations/*", "/allocation_candidates", "/usages", "/reshaper",
}

// mountedAt is where a web server may mount Placement, and where Allot serves it, too.
const mountedAt = "/placement"

// route finds the pattern of a path, and its first parameter. A path with parts that a server may resolve has none.
func route(given string) (pattern, parameter string, known bool) {
	if given == "" {
		return "/", "", true
	}
	if path.Clean(given) != given {
		return "", "", false
	}
	for _, pattern := range patterns {
		if matches, _ := path.Match(pattern, given); !matches { // all patterns are well formed
			continue
		}
		if parts := strings.Split(given, "/"); len(parts) > 2 {
			parameter = parts[2]
		}
		return pattern, parameter, true
	}
	return "", "", false
}

func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// touched lists what a write changes, sorted, each once. A body that cannot be read names
// nothing; the leader refuses it.
func touched(pattern, parameter string, body []byte) []Resource {
	var found []Resource
	add := func(kind string, ids ...string) {
		for _, id := range ids {
			if id != "" {
				found = append(found, resource(kind, id))
			}
		}
	}
	switch {
	case strings.HasPrefix(pattern, "/resource_providers/"):
		add(kindProvider, parameter)
	case pattern == "/resource_providers":
		add(kindProvider, textIn(body, "uuid"))
	case pattern == "/resource_classes/*":
		add(kindClass, parameter, textIn(body, "name")) // below 1.7 a PUT renames
	case pattern == "/resource_classes":
		add(kindClass, textIn(body, "name"))
	case pattern == "/traits/*":
		add(kindTrait, parameter)
	case pattern == "/allocations/*":
		add(kindConsumer, parameter)
	case pattern == "/allocations":
		add(kindConsumer, keysIn(body)...)
	case pattern == "/reshaper":
		parts := membersIn(body)
		add(kindProvider, keysIn(parts["inventories"])...)
		add(kindConsumer, keysIn(parts["allocations"])...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func membersIn(body []byte) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return nil
	}
	return members
}

func keysIn(body []byte) []string { return slices.Collect(maps.Keys(membersIn(body))) }

func textIn(body []byte, key string) string {
	var text string
	if json.Unmarshal(membersIn(body)[key], &text) != nil {
		return ""
	}
	return text
}

// raised lists the providers whose generations a write of allocations raises, each once.
func raised(pattern string, body []byte) []Resource {
	var found []Resource
	holder := func(body []byte) {
		for _, id := range keysIn(membersIn(body)["allocations"]) {
			found = append(found, resource(kindGeneration, id))
		}
	}
	holders := func(body []byte) {
		for _, one := range membersIn(body) {
			holder(one)
		}
	}
	switch pattern {
	case "/allocations/*":
		holder(body)
	case "/allocations":
		holders(body)
	case "/reshaper":
		holders(membersIn(body)["allocations"])
	}
	slices.Sort(found)
	return slices.Compact(found)
}
