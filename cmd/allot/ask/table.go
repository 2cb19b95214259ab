package ask

import (
	"fmt"
	"maps"
	"net/url"
)

// Versions of the APIs whose answers are printed.
var (
	newestPlacement = map[string]string{"OpenStack-API-Version": "placement 1.39"}
	newestIronic    = map[string]string{"X-OpenStack-Ironic-API-Version": "latest"}
)

var ofRecords = []column{
	col("record", "address").wide(7), col("time", "time").as(milliseconds).wide(24),
	col("actor", "actor").wide(11), col("command", "command").wide(21), col("request", "request_id"),
}

// The columns of limits, and of what one thing was.
var (
	ofLimits = []column{
		col("project", "").as(whose), col("of", "").as(limitedOf), col("limit", "limit"),
		col("used", "used").as(or("-")),
	}
	ofVersions = []column{col("commit", "sequence"), col("limit", "limit").as(or("removed"))}
)

// table has all questions, and changes, by command. A question without an answer of its own prints rows.
var table map[string]question

func init() { // the functions in it know the table
	table = map[string]question{
		"status": {example: "status --url https://allot.example:8778", answer: status},
		"get provider": {
			example: "get provider host-007", answer: provider, header: newestPlacement, path: "/resource_providers/{name}",
		},
		"get consumer": {
			example: "get consumer 5b7c4f2e-6a0e-4c58-9a3e-0f8a6d1c2b3d --at 2026-05-01T00:00:00Z", answer: entity(consumer, "allocations"),
			header: newestPlacement, path: "/allocations/{name}", rows: "consumer", empty: "consumer {name} holds nothing",
		},
		"get project": {
			example: "get project 8b1f0c3d", answer: entity(project, "usages"), header: newestPlacement, path: "/usages",
			rows: "usages", empty: "project {project_id} holds nothing",
		},
		"get node": {
			example: "get node metal-1", answer: entity(fields, "uuid"), header: newestIronic,
			path: "/baremetal/v1/nodes/{name}", rows: "node",
		},
		"get allocation": {
			example: "get allocation mine", answer: entity(fields, "uuid"), header: newestIronic,
			path: "/baremetal/v1/allocations/{name}", rows: "node_allocation",
		},
		"list providers": {
			example: "list providers --csv", path: "/audit/providers", rows: "providers", empty: "there are no providers",
			columns: []column{col("provider", "provider"), col("name", "name"), col("used", "inventories").as(used)},
		},
		"list consumers": {
			example: "list consumers --project 8b1f0c3d", path: "/audit/consumers", rows: "consumers",
			empty: "there are no consumers", next: afterLast,
			columns: []column{
				col("consumer", "consumer"), col("project", "project"), col("type", "type").as(or("unknown")),
				col("holds", "allocations").as(holdings),
			},
		},
		"list classes": {
			example: "list classes", path: "/resource_classes", header: newestPlacement, rows: "resource_classes",
			empty: "there are no classes", columns: []column{col("class", "name")},
		},
		"list traits": {
			example: "list traits", path: "/traits", header: newestPlacement, rows: "traits", empty: "there are no traits",
			columns: []column{col("trait", "")},
		},
		"list nodes": {
			example: "list nodes", path: "/baremetal/v1/nodes", header: newestIronic, rows: "nodes", empty: "there are no nodes",
			next: marked, query: map[string]string{"fields": "uuid,name,provision_state,resource_class,instance_uuid"},
			columns: []column{
				col("node", "uuid"), col("name", "name"), col("class", "resource_class"),
				col("state", "provision_state"), col("instance", "instance_uuid"),
			},
		},
		"list allocations": {
			example: "list allocations", path: "/baremetal/v1/allocations", header: newestIronic, rows: "allocations",
			empty: "there are no allocations", next: marked,
			columns: []column{
				col("allocation", "uuid"), col("name", "name"), col("class", "resource_class"),
				col("state", "state"), col("node", "node_uuid"),
			},
		},
		"search": {
			example: "search host-0", path: "/audit/search", rows: "matches", empty: "nothing has {q} in its name",
			columns: []column{col("kind", "of"), col("name", "").as(called), col("id", "name")},
		},
		"holders": {
			example: "holders host-007", path: "/audit/holders", rows: "holders", next: afterLast,
			columns: []column{
				col("consumer", "consumer"), col("holds", "allocations").as(holdings), col("project", "project"),
				col("user", "user"), col("type", "type").as(or("unknown")), col("since", "since"),
			},
			before: func(answer any) string {
				return fmt.Sprintf("after sequence %s, these consumers hold something of %s (%s)", field(answer, "sequence"),
					field(answer, "provider"), field(answer, "name"))
			},
			after: func(answer any) string {
				if instance := field(answer, "node.instance"); instance != "" {
					return "instance " + instance + " runs on the bare metal node"
				}
				return ""
			},
		},
		"series": {example: "series provider host-007 --since 2026-05-01T00:00:00Z --csv", path: "/audit/series", answer: said("points", usageOverTime)},
		"consumption": {
			example: "consumption --from 2026-05-01T00:00:00Z --to 2026-06-01T00:00:00Z --by project,class --csv",
			path:    "/audit/consumption", answer: consumed,
		},
		"log": {
			example: "log --from 100 --follow", path: "/audit/records", query: map[string]string{"format": "json,text"},
			answer: follow, told: true,
		},
		"history": {
			example: "history provider host-007 --limit 5", path: "/audit/history", rows: "entries", page: 1000,
			columns: ofRecords, empty: "there are no such records", details: inWords, next: beforeLast, told: true,
		},
		"timeline": {
			example: "timeline --actor nova --since 2026-05-01T00:00:00Z", path: "/audit/timeline", rows: "entries", page: 100,
			columns: ofRecords, empty: "there are no such records", details: inWords, next: beforeLast, told: true,
		},
		"why":     {example: "why consumer 5b7c4f2e-6a0e-4c58-9a3e-0f8a6d1c2b3d provider host-007", path: "/audit/why", columns: ofRecords, answer: said("consumer", whyHeld), told: true},
		"why-not": {example: "why-not --candidates 'resources=VCPU:8&required=CUSTOM_GOLD'", path: "/allocation_candidates", header: newestPlacement, answer: whyNone},
		"capacity": {
			example: "capacity 'resources=VCPU:4'", path: "/capacity", rows: "trees", answer: countMore,
			columns: []column{col("tree", "root"), col("capacity", "capacity")},
		},
		"rejected": {
			example: "rejected --code capacity_exceeded --limit 5", path: "/audit/rejections", rows: "rejections",
			empty: "no such command was rejected",
			columns: []column{
				col("before", "place").as(address).wide(7), col("time", "time").as(milliseconds),
				col("actor", "actor").wide(11), col("command", "command").wide(21), col("id", "command_id"),
			},
			details: func(row any) []string { return []string{field(row, "rejection.code") + ": " + field(row, "text")} },
			told:    true,
		},
		"what-if": {example: "what-if --without 5b7c4f2e-6a0e-4c58-9a3e-0f8a6d1c2b3d --resources VCPU=4", path: "/audit/what-if", answer: outcome},
		"orphans": {example: "orphans --consumers servers.json --type INSTANCE", answer: findOrphans},

		"limits list": {example: "limits list", path: "/limits", rows: "limits", columns: ofLimits},
		"limits show": {example: "limits show 8b1f0c3d", path: "/limits", rows: "limits", columns: ofLimits},
		"limits history": {
			example: "limits history --class VCPU", path: "/limits/versions", rows: "versions", columns: ofVersions,
		},
		"limits set": {example: "limits set --project 8b1f0c3d --class VCPU --most 100", path: "/limits", answer: setLimit},
		"limits tree": {
			example: "limits tree 8b1f0c3d --below 77aa01bc", path: "/projects/{project}", answer: setTo("parent_id", "below"),
		},
		"counters show": {
			example: "counters show card-0", path: "/resource_providers/{name}/counters", rows: "counters",
			answer: entity(counters, "counters"), empty: "provider {name} has no counters, and draws from none",
		},
		"counters set": {
			example: `counters set card-0 '{"counters": {"COMPUTE_SLICE": 7}}'`, path: "/resource_providers/{name}/counters",
			answer: setCounters,
		},
		"preferences list": {
			example: "preferences list", path: "/preferences", rows: "preferences",
			columns: []column{col("name", "name"), col("since", "sequence"), col("prefers", "prefer").as(asJSON)},
		},
		"preferences show": {
			example: "preferences show gold", path: "/preferences/{name}", rows: "versions",
			columns: []column{col("commit", "sequence"), col("prefers", "prefer").as(asJSON)},
		},
		"preferences set":    {example: `preferences set gold '{"order": "pack"}'`, path: "/preferences/{name}", answer: setPreference},
		"preferences remove": {example: "preferences remove gold", path: "/preferences/{name}", answer: setTo("prefer", "")},
		"topologies list": {
			example: "topologies list", path: "/topologies", rows: "topologies",
			columns: []column{
				col("name", "name"), col("since", "sequence"), col("levels", "levels").as(asJSON), col("members", "member_count"),
			},
		},
		"topologies show": {
			example: "topologies show fabric", answer: entity(topology, "levels"), path: "/topologies/{name}", rows: "topology",
		},
		"topologies set":    {example: "topologies set fabric fabric.json", path: "/topologies/{name}", answer: setTopology},
		"topologies remove": {example: "topologies remove fabric", path: "/topologies/{name}", answer: removeTopology},
		"cluster status": {
			example: "cluster status", path: "/cluster", answer: said("members", clusterStatus), columns: ofMembers,
		},
		"cluster step-down": {example: "cluster step-down --to two", path: "/cluster/step-down", answer: stepDown},
		"cluster remove":    {example: "cluster remove three", path: "/cluster/remove", answer: removeMember},
	}
}

func inWords(record any) []string { return []string{field(record, "text")} }

// beforeLast goes on with what is older.
func beforeLast(answer any, _ []any) url.Values {
	if next := field(answer, "next"); next != "" {
		return url.Values{"before": {next}}
	}
	return nil
}

// afterLast goes on after the last row of a page, at the same moment.
func afterLast(answer any, _ []any) url.Values {
	if next := field(answer, "next"); next != "" {
		return url.Values{"after": {next}, "at": {field(answer, "sequence")}}
	}
	return nil
}

// marked goes on as Ironic's lists do.
func marked(answer any, rows []any) url.Values {
	if field(answer, "next") == "" || len(rows) == 0 {
		return nil
	}
	return url.Values{"marker": {text(at(rows[len(rows)-1], "uuid"))}}
}

// called is the name of what was found; what has none is called by its id.
func called(match any) string { return or(field(match, "name"))(at(match, "title")) }

// whose says what a limit is for: a project, an aggregate, or every project.
func whose(limit any) string {
	if aggregate := field(limit, "aggregate"); aggregate != "" {
		return "(aggregate " + aggregate + ")"
	}
	return or("(default)")(at(limit, "project_id"))
}

func limitedOf(limit any) string {
	if of := field(limit, "consumer_type"); of != "" {
		return "consumers of type " + of
	}
	return field(limit, "resource_class")
}

type fact struct{ name, value string }

func consumer(a *asked, answer any) (facts []fact) {
	for id, held := range members(answer, "allocations") {
		facts = append(facts, fact{"of " + id, amounts(at(held, "resources"))})
	}
	if facts == nil {
		return nil
	}
	return append([]fact{
		{"consumer", a.given["name"]}, {"project", field(answer, "project_id")}, {"user", field(answer, "user_id")},
		{"type", field(answer, "consumer_type")}, {"generation", field(answer, "consumer_generation")},
	}, facts...)
}

// project prints what a project uses, by type of consumer.
func project(a *asked, answer any) (facts []fact) {
	for kind, usage := range members(answer, "usages") {
		held, _ := usage.(map[string]any)
		held = maps.Clone(held)
		consumers := text(held["consumer_count"])
		delete(held, "consumer_count")
		facts = append(facts, fact{kind, consumers + " consumers: " + amounts(held)})
	}
	if len(facts) == 0 {
		return nil
	}
	return append([]fact{{"project", a.given["project_id"]}}, facts...)
}

// counters prints the counters of a provider and what its classes draw.
func counters(_ *asked, answer any) (facts []fact) {
	for name, total := range members(answer, "counters") {
		facts = append(facts, fact{name, fmt.Sprintf("%s left of %s", field(answer, "left."+name), text(total))})
	}
	for class, from := range members(answer, "draws") {
		facts = append(facts, fact{"one " + class + " draws", amounts(from)})
	}
	return facts
}

// fields prints what has one value, and traits.
func fields(_ *asked, answer any) (facts []fact) {
	for name, member := range members(answer, "") {
		switch member.(type) {
		case nil, []any, map[string]any:
			if name != "traits" {
				continue // --json has everything
			}
		}
		facts = append(facts, fact{name, text(member)})
	}
	return facts
}
