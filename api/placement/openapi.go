package placement

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"unicode"

	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/rest"
)

// schemaRef is where the schemas of answers are in the document.
const schemaRef = "#/components/schemas/" + tag

const tag = "Placement"

// Describe adds the API to an OpenAPI document. Bodies and queries are those of the
// newest microversion. Where earlier ones differ, the extension
// x-openstack-microversions lists the microversion from which each form holds.
func Describe(d *openapi.Document) error {
	d.Tag(tag, "OpenStack Placement, also below /placement.")
	for name, schema := range answerSchemas() {
		d.Schema(tag+name, schema.(m))
	}
	err := d.Failure(tag+"Errors", "What went wrong", jsonType, m{"$ref": schemaRef + "Errors"})
	for i := range routes {
		newest := make(map[string]m) // by method
		for _, op := range routes[i].operations {
			described := describe(&op)
			if earlier := newest[op.method]; earlier != nil {
				// The same method did something else before: the newest is
				// described, and the other named.
				described["x-openstack-before"] = earlier
			}
			newest[op.method] = described
		}
		for method, described := range newest {
			err = errors.Join(err, d.Put(method, routes[i].pattern, described))
		}
	}
	return err
}

func describe(op *operation) m {
	parameters := []any{m{
		"name": rest.VersionHeader, "in": "header", "schema": m{"type": "string", "pattern": `^placement (latest|1\.\d+)$`},
		"description": "1.0 if it is not sent",
	}}
	if op.method == "GET" && op.rule != "" {
		parameters = append(parameters, m{"$ref": "#/components/parameters/at"})
	}
	d := m{
		"operationId": op.name, "summary": inWords(op.name), "tags": []any{tag},
		"x-openstack-min-version": op.from.String(), "x-openstack-max-version": op.until.String(),
		"responses": responses(op),
	}
	if op.rule == "" {
		d["security"] = []any{}
	} else {
		d["x-openstack-policy"] = op.rule
	}
	if op.query != "" {
		parameters = append(parameters, queryParameters(op)...)
		d["x-openstack-microversions"] = history(op.query, op)
	}
	if op.body != "" {
		content := m{"schema": schemaFor(op.body, op.until).Source()}
		if example, given := examples[op.body]; given {
			content["example"] = example
		}
		d["requestBody"] = m{"required": true, "content": m{jsonType: content}}
		d["x-openstack-microversions"] = history(op.body, op)
	}
	d["parameters"] = parameters
	return d
}

// inWords makes a sentence of a name: "Show provider usages".
func inWords(name string) string {
	var words []rune
	letters := []rune(name)
	upper := func(i int) bool { return i < len(letters) && unicode.IsUpper(letters[i]) }
	for i, letter := range letters {
		switch {
		case i == 0:
			letter = unicode.ToUpper(letter)
		case upper(i) && !upper(i-1):
			words = append(words, ' ')
			if !upper(i + 1) {
				letter = unicode.ToLower(letter)
			}
		}
		words = append(words, letter)
	}
	return string(words)
}

// history lists the forms of a body or query with the microversion from which
// each holds.
func history(name string, op *operation) []any {
	var forms []any
	for v := version(0); v <= op.until; v++ {
		if s, found := schemas()[schemaName{name, v}]; found {
			forms = append(forms, m{"from": max(v, op.from).String(), "schema": s.Source()})
		}
	}
	return forms
}

// groupKey is the name without a suffix of the parameters of request groups.
var groupKey = regexp.MustCompile(`[a-z_]+`)

// queryParameters lists the parameters of a query. Parameters of request groups
// end in the group's suffix, and are one free-form object.
func queryParameters(op *operation) []any {
	source := schemaFor(op.query, op.until).Source()
	var list []any
	required, _ := source["required"].([]any)
	properties, _ := source["properties"].(m)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		list = append(list, m{
			"name": name, "in": "query", "required": slices.Contains(required, any(name)), "schema": properties[name],
		})
	}
	if patterns, grouped := source["patternProperties"].(m); grouped {
		for _, pattern := range slices.Sorted(maps.Keys(patterns)) {
			name := groupKey.FindString(pattern)
			if _, plain := properties[name]; name != "" && !plain {
				list = append(list, m{"name": name, "in": "query", "schema": patterns[pattern]})
			}
		}
		list = append(list, m{
			"name": "groups", "in": "query", "style": "form", "explode": true,
			"schema":      m{"type": "object", "patternProperties": patterns, "additionalProperties": false},
			"description": "resources, required, member_of and in_tree, each followed by the suffix of its group",
		})
	}
	if op.query == "candidates" {
		list = append(list, m{
			"name": "explain", "in": "query", "schema": m{"type": "string", "enum": []any{"true", "false"}},
			"description": "Allot's own: add how each filter narrowed down the providers",
		}, m{
			"name": "prefer", "in": "query", "content": m{jsonType: m{"schema": preferSchema()}},
			"description": "Allot's own: the best first, in pages; adds ranking to the answer",
		}, m{
			"name": "marker", "in": "query", "schema": m{"type": "string"},
			"description": "Allot's own: that of the last candidate of the page before",
		})
	}
	return list
}

func responses(op *operation) m {
	failed := m{"$ref": "#/components/responses/" + tag + "Errors"}
	r := m{"4XX": failed, "5XX": failed}
	for _, status := range op.status {
		success := m{"description": http.StatusText(status)}
		// 201 for a new provider has no body below 1.20.
		if op.answer != "" && (status == http.StatusOK || status == http.StatusAccepted || op.body == "create inventory") {
			success["content"] = m{jsonType: m{"schema": m{"$ref": schemaRef + op.answer}}}
		}
		r[fmt.Sprint(status)] = success
	}
	return r
}

// answerSchemas describe answers at every microversion: fields that came later
// are not required.
func answerSchemas() m {
	var (
		word       = m{"type": "string"}
		id         = m{"type": "string", "format": "uuid"}
		idOrNull   = m{"type": []any{"string", "null"}, "format": "uuid"}
		whole      = m{"type": "integer"}
		maybe      = m{"type": []any{"integer", "null"}}
		count      = m{"type": "integer", "minimum": 0}
		generation = count
		prefer     = m{"anyOf": []any{preferSchema(), m{"type": "null"}}}
		list       = func(item m) m { return m{"type": "array", "items": item} }
		many       = func(value m) m { return m{"type": "object", "additionalProperties": value} }
		names, ids = list(word), list(id)
		amounts    = many(count)
		links      = list(closed(m{"rel": word, "href": word}, "rel"))
		class      = closed(m{"name": word, "links": links}, "name", "links")
		steps      = list(closed(m{"filter": word, "left": count}, "filter", "left"))
	)
	provider := closed(m{
		"uuid": id, "name": word, "generation": generation, "links": links,
		"parent_provider_uuid": idOrNull, "root_provider_uuid": id,
	}, "uuid", "name", "generation", "links")
	inventory := m{
		"total": count, "reserved": count, "min_unit": count, "max_unit": count, "step_size": count,
		"allocation_ratio": m{"type": "number"},
	}
	inventoryKeys := []string{"total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"}
	owner := m{"project_id": word, "user_id": word, "consumer_type": word, "consumer_generation": maybe}
	held := closed(m{"resources": amounts, "generation": generation}, "resources")
	candidate := m{
		"allocations": m{"anyOf": []any{
			many(closed(m{"resources": amounts}, "resources")),
			list(closed(m{
				"resource_provider": closed(m{"uuid": id}, "uuid"), "resources": amounts,
			}, "resource_provider", "resources")),
		}},
		"mappings": many(ids),
	}
	summary := closed(m{
		"resources": many(closed(m{"capacity": whole, "used": count}, "capacity", "used")),
		"traits":    names, "parent_provider_uuid": idOrNull, "root_provider_uuid": id,
	}, "resources")
	explanation := closed(m{
		"groups": list(closed(m{"suffix": word, "resource_class": word, "steps": steps}, "suffix", "steps")),
		"trees":  steps, "removed_last": word,
	}, "groups", "trees", "removed_last")
	ofProvider := func(key string, value m) m {
		return closed(m{key: value, "resource_provider_generation": generation}, key, "resource_provider_generation")
	}
	return m{
		"Versions": m{
			"type": "object", "required": []any{"versions"}, "properties": m{"versions": list(m{"type": "object"})},
		},
		"Provider":  provider,
		"Providers": closed(m{"resource_providers": list(provider)}, "resource_providers"),
		"Inventory": closed(
			with(inventory, "resource_provider_generation", generation),
			append(inventoryKeys, "resource_provider_generation")...),
		"Inventories": closed(
			m{"resource_provider_generation": generation, "inventories": many(closed(inventory, inventoryKeys...))},
			"resource_provider_generation", "inventories",
		),
		"ProviderUsages": closed(
			m{"resource_provider_generation": generation, "usages": amounts}, "resource_provider_generation", "usages",
		),
		"Aggregates":     closed(m{"aggregates": ids, "resource_provider_generation": generation}, "aggregates"),
		"ProviderTraits": ofProvider("traits", names),
		"ProviderAllocations": ofProvider("allocations", many(
			closed(m{"resources": amounts, "consumer_generation": generation}, "resources"),
		)),
		"ResourceClass":   class,
		"ResourceClasses": closed(m{"resource_classes": list(class)}, "resource_classes"),
		"Traits":          closed(m{"traits": names}, "traits"),
		"Allocations":     closed(with(owner, "allocations", many(held)), "allocations"),
		"AllocationCandidates": closed(m{
			"allocation_requests": list(closed(candidate, "allocations")), "provider_summaries": many(summary),
			"ranking":     list(closed(m{"score": m{"type": "number"}, "marker": word}, "score")),
			"explanation": explanation,
		}, "allocation_requests", "provider_summaries"),
		"Capacity": closed(m{
			"capacity": count, "exact": m{"type": "boolean"}, "at_least": count, "at_most": count, "next": id,
			"trees":      list(closed(m{"root": id, "capacity": count}, "root", "capacity")),
			"aggregates": list(closed(m{"aggregate": id, "capacity": count}, "aggregate", "capacity")),
		}, "capacity", "exact", "at_least", "at_most", "trees"),
		"Counters": closed(m{
			"resource_provider_generation": generation, "counters": amounts,
			"draws": many(many(m{"type": []any{"integer", "string"}})), "left": many(whole),
		}, "resource_provider_generation", "counters", "draws", "left"),
		"Preferences": closed(m{"preferences": list(closed(
			m{"name": word, "prefer": preferSchema(), "sequence": count}, "name", "prefer", "sequence",
		))}, "preferences"),
		"Preference": closed(m{
			"name": word, "prefer": prefer,
			"versions": list(closed(m{"sequence": count, "prefer": prefer}, "sequence", "prefer")),
		}, "name", "prefer", "versions"),
		"Topologies": closed(m{"topologies": list(closed(m{
			"name": word, "levels": topologyParts()["levels"], "member_count": count, "sequence": count,
		}, "name", "levels", "member_count", "sequence"))}, "topologies"),
		"Topology": closed(with(with(topologyParts(), "name", word), "versions", list(
			closed(m{"sequence": count, "member_count": maybe}, "sequence", "member_count"),
		)), "name", "levels", "members", "versions"),
		"Limits": closed(m{
			"limits": list(closed(m{
				"project_id": word, "resource_class": word, "consumer_type": word, "aggregate": id, "limit": count, "used": count,
			}, "limit")),
			"projects": list(closed(m{"project_id": word, "parent_id": word}, "project_id", "parent_id")),
		}, "limits", "projects"),
		"LimitVersions": closed(
			m{"versions": list(closed(m{"sequence": count, "limit": maybe}, "sequence", "limit"))}, "versions",
		),
		// What was chosen.
		"Claimed": closed(
			m{"claimed": list(claimedSchema(id, generation)), "alternative": count, "earlier": names}, "claimed",
		),
		"Usages": closed(m{"usages": many(m{"anyOf": []any{count, amounts}})}, "usages"),
		"Errors": closed(m{"errors": m{"type": "array", "minItems": 1, "items": m{
			"type": "object", "required": []any{"status", "title", "detail", "request_id"},
			"properties": m{
				"status": count, "title": word, "detail": word, "code": word, "request_id": word, "min_version": word,
				"max_version": word,
			},
		}}}, "errors"),
	}
}

// examples are bodies as a client would send them at the newest microversion,
// by the name of their schema.
var examples = func() map[string]any {
	const (
		host     = "11111111-1111-4111-8111-111111111111"
		card     = "22222222-2222-4222-8222-222222222222"
		consumer = "aaaaaaaa-0000-4000-8000-000000000001"
	)
	vcpus := m{"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 4.0}
	holding := m{
		"allocations": m{host: m{"resources": m{"VCPU": 2}}}, "project_id": "p", "user_id": "u",
		"consumer_generation": nil, "consumer_type": "INSTANCE",
	}
	return map[string]any{
		"create provider":  m{"name": "host-1", "uuid": host},
		"update provider":  m{"name": "card-1", "parent_provider_uuid": host},
		"create inventory": with(vcpus, "resource_class", "VCPU"),
		"update inventory": with(vcpus, "resource_provider_generation", 1),
		"replace inventories": m{
			"resource_provider_generation": 1, "inventories": m{"VCPU": vcpus, "MEMORY_MB": m{"total": 65536}},
		},
		"replace aggregates": m{
			"resource_provider_generation": 1, "aggregates": []any{"33333333-3333-4333-8333-333333333333"},
		},
		"replace traits": m{"resource_provider_generation": 1, "traits": []any{"HW_CPU_X86_AVX2"}},
		"resource class": m{"name": "CUSTOM_FPGA"},
		"allocate":       holding,
		"allocate many":  m{consumer: holding},
		"reshape": m{
			"inventories": m{
				host: m{"resource_provider_generation": 2, "inventories": m{"VCPU": vcpus}},
				card: m{"resource_provider_generation": 0, "inventories": m{"VGPU": m{"total": 2}}},
			},
			"allocations": m{consumer: m{
				"allocations": m{host: m{"resources": m{"VCPU": 2}}, card: m{"resources": m{"VGPU": 1}}},
				"project_id":  "p", "user_id": "u", "consumer_generation": 7, "consumer_type": "INSTANCE",
			}},
		},
	}
}()
