package placement

import (
	"maps"
	"sync"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/schema"
)

// schemas are the request schemas, by name and first microversion. Most programs ask for none.
// The constructors below read like Placement's own schema files.
var schemas = sync.OnceValue(allSchemas)

type m = map[string]any

const (
	classPattern       = "^[A-Z0-9_]+$"
	customClassPattern = "^CUSTOM_[A-Z0-9_]+$"
	uuidPattern        = "^[0-9a-fA-F-]{36}$"
	maxInt             = 2147483647
	maxFloat           = 3.40282e+38
)

func closed(properties m, required ...string) m {
	return m{"type": "object", "properties": properties, "required": schema.List(required), "additionalProperties": false}
}

// keyed is an object whose keys all match a pattern.
func keyed(pattern string, value m, minProperties int) m {
	s := m{"type": "object", "patternProperties": m{pattern: value}, "additionalProperties": false}
	if minProperties > 0 {
		s["minProperties"] = minProperties
	}
	return s
}

func integer(minimum int64) m {
	return m{"type": "integer", "minimum": minimum, "maximum": maxInt}
}

func text(minLength, maxLength int) m {
	return m{"type": "string", "minLength": minLength, "maxLength": maxLength}
}

var (
	uuidSchema       = m{"type": "string", "format": "uuid"}
	uuidOrNullSchema = m{"type": []any{"string", "null"}, "format": "uuid"}
	generationSchema = m{"type": "integer"}
)

func with(properties m, key string, value any) m {
	out := maps.Clone(properties)
	out[key] = value
	return out
}

func inventoryProperties() m {
	return m{
		"resource_provider_generation": generationSchema,
		"total":                        integer(1),
		"reserved":                     integer(0),
		"min_unit":                     integer(1),
		"max_unit":                     integer(1),
		"step_size":                    integer(1),
		"allocation_ratio":             m{"type": "number", "maximum": maxFloat},
	}
}

func inventoriesSchema() m {
	return closed(m{
		"resource_provider_generation": generationSchema,
		"inventories": m{
			"type":              "object",
			"patternProperties": m{classPattern: closed(inventoryProperties(), "total")},
		},
	}, "resource_provider_generation", "inventories")
}

// resourcesSchema has no maximum for amounts. Upstream has none either, and
// relies on the database's integers; here the command checks them.
func resourcesSchema() m {
	return keyed(classPattern, m{"type": "integer", "minimum": 1}, 1)
}

var ownerSchemas = m{"project_id": text(1, 255), "user_id": text(1, 255)}

// allocationSchema is the body of PUT /allocations/{consumer} at a microversion
// of the dictionary form (1.12), and of each member of POST /allocations, where
// it may be empty before 1.28.
func allocationSchema(v version, mayBeEmpty bool) m {
	minimum := 1
	if v >= 28 || mayBeEmpty {
		minimum = 0
	}
	properties := with(ownerSchemas, "allocations", keyed(uuidPattern, closed(m{
		"generation": generationSchema, "resources": resourcesSchema(),
	}, "resources"), minimum))
	required := []string{"allocations", "project_id", "user_id"}
	if v >= 28 {
		properties["consumer_generation"] = m{"type": []any{"integer", "null"}}
		required = append(required, "consumer_generation")
	}
	if v >= 34 {
		properties["mappings"] = m{
			"type": "object", "minProperties": 1,
			"patternProperties": m{"[a-zA-Z0-9_-]{1,64}": m{"type": "array", "minItems": 1, "items": uuidSchema}},
		}
	}
	if v >= 38 {
		properties["consumer_type"] = m{"type": "string", "pattern": classPattern, "minLength": 1, "maxLength": 255}
		required = append(required, "consumer_type")
	}
	return closed(properties, required...)
}

// allocationListSchema is the body of PUT /allocations/{consumer} below 1.12.
func allocationListSchema(owned bool) m {
	properties := m{"allocations": m{
		"type": "array", "minItems": 1,
		"items": closed(m{
			"resource_provider": closed(m{"uuid": uuidSchema}, "uuid"),
			"resources":         resourcesSchema(),
		}, "resource_provider", "resources"),
	}}
	required := []string{"allocations"}
	if owned {
		properties = with(with(properties, "project_id", text(1, 255)), "user_id", text(1, 255))
		required = append(required, "project_id", "user_id")
	}
	return closed(properties, required...)
}

func reshapeSchema(v version) m {
	return closed(m{
		"inventories": keyed(uuidPattern, inventoriesSchema(), 1),
		"allocations": keyed(uuidPattern, allocationSchema(v, true), 0),
	}, "inventories", "allocations")
}

// schemaName identifies a schema by its name and the first microversion that has
// it.
type schemaName struct {
	name string
	from version
}

func schemaSources() map[schemaName]m {
	provider := m{"name": m{"type": "string", "maxLength": 200}}
	created := with(provider, "uuid", uuidSchema)
	postInventory := with(inventoryProperties(), "resource_class", m{"type": "string", "pattern": classPattern})
	sources := map[schemaName]m{
		{"create provider", 0}:     closed(created, "name"),
		{"create provider", 14}:    closed(with(created, "parent_provider_uuid", uuidOrNullSchema), "name"),
		{"update provider", 0}:     closed(provider, "name"),
		{"update provider", 14}:    closed(with(provider, "parent_provider_uuid", uuidOrNullSchema), "name"),
		{"create inventory", 0}:    closed(postInventory, "resource_class", "total"),
		{"update inventory", 0}:    closed(inventoryProperties(), "total", "resource_provider_generation"),
		{"replace inventories", 0}: inventoriesSchema(),
		{"replace aggregates", 1}:  {"type": "array", "items": uuidSchema, "uniqueItems": true},
		{"replace aggregates", 19}: closed(m{
			"aggregates":                   m{"type": "array", "items": uuidSchema, "uniqueItems": true},
			"resource_provider_generation": generationSchema,
		}, "aggregates", "resource_provider_generation"),
		{"replace traits", 6}: closed(m{
			"traits":                       m{"type": "array", "items": text(1, 255)},
			"resource_provider_generation": generationSchema,
		}, "traits", "resource_provider_generation"),
		{"resource class", 2}: closed(
			m{"name": m{"type": "string", "pattern": customClassPattern, "maxLength": 255}}, "name",
		),
		{"allocate", 0}: allocationListSchema(false),
		{"allocate", 8}: allocationListSchema(true),
	}
	for _, v := range []version{12, 28, 34, 38} {
		sources[schemaName{"allocate", v}] = allocationSchema(v, false)
	}
	for _, v := range []version{13, 28, 34, 38} {
		sources[schemaName{"allocate many", v}] = keyed(uuidPattern, allocationSchema(v, true), 1)
	}
	for _, v := range []version{30, 34, 38} {
		sources[schemaName{"reshape", v}] = reshapeSchema(v)
	}
	sources[schemaName{"claim", 0}] = claimSchema()
	sources[schemaName{"limits", 0}] = closed(m{"project_id": text(1, 255)})
	sources[schemaName{"limit versions", 0}] = closed(m{
		"project_id": text(1, 255), "resource_class": text(1, 255), "consumer_type": text(1, 255), "aggregate": uuidSchema,
	})
	sources[schemaName{"limit", 0}] = limitSchema()
	sources[schemaName{"counters", 0}] = countersSchema()
	sources[schemaName{"preference", 0}] = preferenceSchema()
	sources[schemaName{"topology", 0}] = closed(topologyParts(), "levels", "members")
	sources[schemaName{"project", 0}] = closed(
		m{"parent_id": m{"type": []any{"string", "null"}, "minLength": 1, "maxLength": 255}}, "parent_id",
	)
	maps.Copy(sources, querySchemas())
	maps.Copy(sources, candidateSchemas())
	return sources
}

func querySchemas() map[schemaName]m {
	anything := m{}
	strict := m{
		"type": "string", "pattern": `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`,
	}
	providers := m{"name": anything, "uuid": strict}
	sources := map[schemaName]m{{"list providers", 0}: closed(providers)}
	for _, step := range []struct {
		from version
		key  string
		rule m
	}{{3, "member_of", anything}, {4, "resources", anything}, {14, "in_tree", strict}, {18, "required", anything}} {
		providers = with(providers, step.key, step.rule)
		sources[schemaName{"list providers", step.from}] = closed(providers)
	}
	usages := m{"project_id": text(1, 255), "user_id": text(1, 255)}
	sources[schemaName{"usages", 9}] = closed(usages, "project_id")
	sources[schemaName{"usages", 38}] = closed(with(usages, "consumer_type",
		m{"type": "string", "pattern": `^[A-Z0-9_]+$|^all|^unknown$`, "minLength": 1, "maxLength": 255}), "project_id")
	sources[schemaName{"list traits", 6}] = closed(m{"name": anything, "associated": anything})
	return sources
}

func allSchemas() map[schemaName]schema.Schema {
	compiler := schema.NewCompiler(schema.Format{Name: "uuid", Valid: func(s string) bool {
		_, ok := parseUUID(s)
		return ok
	}})
	all := make(map[schemaName]schema.Schema)
	for name, source := range schemaSources() {
		all[name] = compiler.Schema(source)
	}
	return all
}

func schemaFor(name string, v version) schema.Schema {
	all := schemas()
	for ; v >= 0; v-- {
		if s, ok := all[schemaName{name, v}]; ok {
			return s
		}
	}
	panic("no schema " + name)
}

func decodeBody(r *request) (any, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	return decodeValid(r, body)
}

// readBody reads the body, or returns it again. A large one has a place until its command is
// submitted.
func readBody(r *request) ([]byte, error) {
	if !r.read {
		r.read = true
		r.body, r.bodyFault = rest.ReadBody(r.Request, r.Lease, MaxBodyBytes)
	}
	if r.bodyFault == nil && r.Work == nil {
		r.Work, r.bodyFault = rest.PlaceFor(r.Request, r.Lease, r.body)
	}
	return r.body, r.bodyFault
}

func decodeValid(r *request, body []byte) (any, error) {
	doc, failure := decodeDocument(body)
	if failure != nil {
		return nil, failure
	}
	if text := schemaFor(r.op.body, r.version).Check(plain(doc)); text != "" {
		return nil, rest.BadRequest("JSON does not validate: %s", text)
	}
	return doc, nil
}
