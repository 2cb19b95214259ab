package differentialtest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The requests of the differential test: random, about a few entities, so that
// they conflict; valid for the most part, and invalid in many ways.

func (d *differential) n(n int) int              { return d.draw.IntN(n) }
func (d *differential) pick(of ...string) string { return of[d.n(len(of))] }
func (d *differential) rarely() bool             { return d.n(12) == 0 }

func numberedID(kind, i int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, i) }

const (
	manyProviders = 7
	manyConsumers = 6
)

func (d *differential) provider() string {
	if d.n(60) == 0 {
		return d.pick("not-a-uuid", numberedID(9, 9), "%20")
	}
	return numberedID(1, d.n(manyProviders))
}

func (d *differential) consumer() string { return numberedID(2, d.n(manyConsumers)) }

// aggregate returns the uuid of an aggregate. Each always has the same spelling,
// because Placement compares the texts.
func (d *differential) aggregate() string {
	return d.pick(numberedID(3, 0), "00000003000040008000000000000001", "ABCDEF00-0000-4000-8000-000000000002")
}

func (d *differential) class() string {
	if d.n(40) == 0 {
		return d.pick("NOPE", "vcpu", "CUSTOM_", "CUSTOM_bad", "")
	}
	return d.pick("VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A", "CUSTOM_B")
}

func (d *differential) trait() string {
	if d.n(40) == 0 {
		return d.pick("NOPE", "CUSTOM_x", "hw_cpu_x86_vmx")
	}
	return d.pick("HW_CPU_X86_VMX", "CUSTOM_T1", "CUSTOM_T2", "MISC_SHARES_VIA_AGGREGATE", "COMPUTE_NODE")
}

func (d *differential) version() string {
	switch d.n(20) {
	case 0:
		return d.pick("", "1.40", "0.9", "latest", "hello", "1", "2.0", "1.0.0")
	case 1, 2, 3, 4, 5, 6:
		return fmt.Sprintf("1.%d", d.n(40))
	}
	return "1.39"
}

// amount is a number in the form in which it stands in JSON.
func (d *differential) amount(upTo int) string {
	if d.n(30) == 0 {
		return d.pick("0", "-1", "1.0", "1.5", `"1"`, "null", "true", "[]", "1e2", "99999", "2147483647")
	}
	return fmt.Sprint(1 + d.n(upTo))
}

// generation is a token, or an invalid value.
func (d *differential) providerGeneration(id string) string {
	if d.n(15) == 0 {
		return d.pick("0", "99", `"1"`, "null", "1.5", "-1")
	}
	return `"@P:` + id + `@"`
}

func (d *differential) consumerGeneration(id string) string {
	switch d.n(12) {
	case 0:
		return `"@S:` + id + `@"`
	case 1:
		return d.pick("null", `"1"`, "1.5", "[]")
	}
	return `"@C:` + id + `@"`
}

// some are up to so many items, each once.
func (d *differential) some(n int, item func() string) string {
	return d.members(n, item, func(string) string { return "" })
}

// members are up to so many items with what belongs to each, each item once.
func (d *differential) members(n int, item func() string, of func(item string) string) string {
	var list []string
	seen := map[string]bool{}
	for range d.n(n + 1) {
		if one := item(); !seen[one] {
			seen[one] = true
			list = append(list, one+of(one))
		}
	}
	return strings.Join(list, ",")
}

func (d *differential) quoted(item func() string) func() string {
	return func() string { return `"` + item() + `"` }
}

func (d *differential) next() request {
	r := d.plain()
	if r.version == "" {
		r.version = d.version()
	}
	header := func(name string, values ...string) { r.headers = map[string]string{name: d.pick(values...)} }
	switch d.n(120) {
	case 0:
		header("Content-Type", "", "text/plain", "application/json; charset=utf-8", "application/json; charset=", "application/xml")
	case 1:
		header("Accept", "text/html", "application/json", "*/*", "text/plain", "application/*",
			"text/html, application/json;q=0.5", "*", "json")
	case 2:
		header("X-Auth-Token", "")
	case 3:
		header("X-Roles", "", "admin", "reader", "member,reader")
		r.headers["X-Auth-Token"] = "joe"
	case 4: // no HEAD, which has no body to compare
		r.method = d.pick("PATCH", "OPTIONS", "PUT", "POST", "DELETE", "GET")
	case 5:
		r.path = d.pick("/nothing", "/resource_providers/", "/resource_providers//", "//", "/allocations",
			"/resource_providers/a/b/c/d", "/Usages")
	case 6:
		if r.body != "" {
			r.body = d.pick(`{`, `[]`, `null`, `"x"`, `1`, ``, r.body[:len(r.body)/2], r.body+"}", `{"a":1}`,
				strings.Replace(r.body, `{`, `{"extra":1,`, 1))
		}
	}
	return r
}

func (d *differential) plain() request {
	ask := func(method, path, body string) request { return request{method: method, path: path, body: body} }
	id, class := d.provider(), d.class()
	provider, generation := "/resource_providers/"+id, `"resource_provider_generation":`+d.providerGeneration(id)
	switch n := d.n(100); {
	case n < 6:
		return ask("POST", "/resource_providers", d.newProvider(id))
	case n < 8:
		return ask("PUT", provider, d.providerUpdate())
	case n < 10:
		return ask("DELETE", provider, "")
	case n < 16:
		return ask("PUT", provider+"/inventories", fmt.Sprintf(`{%s,"inventories":{%s}}`, generation, d.inventories()))
	case n < 18:
		return ask("PUT", provider+"/inventories/"+class, d.inventory(generation))
	case n < 19:
		return ask("POST", provider+"/inventories", d.inventory(`"resource_class":"`+class+`"`))
	case n < 20:
		return ask("DELETE", provider+d.pick("/inventories", "/inventories/"+class), "")
	case n < 23:
		return ask("PUT", provider+"/traits", fmt.Sprintf(`{%s,"traits":[%s]}`, generation, d.some(4, d.quoted(d.trait))))
	case n < 24:
		return ask("DELETE", provider+"/traits", "")
	case n < 27:
		aggregates := "[" + d.some(2, d.quoted(d.aggregate)) + "]"
		if !d.rarely() {
			aggregates = fmt.Sprintf(`{%s,"aggregates":%s}`, generation, aggregates)
		}
		return ask("PUT", provider+"/aggregates", aggregates)
	case n < 29:
		return ask(d.pick("PUT", "PUT", "PUT", "DELETE"), "/traits/"+d.trait(), "")
	case n < 31:
		return ask(d.pick("PUT", "PUT", "PUT", "DELETE"), "/resource_classes/"+class, "")
	case n < 32:
		return ask("POST", "/resource_classes", `{"name":"`+class+`"}`)
	case n < 48:
		return d.allocate()
	case n < 52:
		return ask("DELETE", "/allocations/"+d.consumer(), "")
	case n < 58:
		return ask("POST", "/allocations", "{"+d.manyAllocations()+"}")
	case n < 63:
		inventories := d.members(2, d.quoted(d.provider), func(quoted string) string {
			return fmt.Sprintf(`:{"resource_provider_generation":%s,"inventories":{%s}}`,
				d.providerGeneration(strings.Trim(quoted, `"`)), d.inventories())
		})
		return ask("POST", "/reshaper", fmt.Sprintf(`{"inventories":{%s},"allocations":{%s}}`, inventories, d.manyAllocations()))
	}
	return d.read()
}

// allocate sets what one consumer holds.
func (d *differential) allocate() request {
	id := d.consumer()
	if d.n(50) == 0 {
		id = "not-a-uuid"
	}
	r := request{method: "PUT", path: "/allocations/" + id, body: "{" + d.allocations(id) + "}"}
	if d.n(8) == 0 {
		version := d.n(12)
		r.version, r.body = fmt.Sprintf("1.%d", version), "{"+d.listedAllocations(version)+"}"
	}
	return r
}

func (d *differential) newProvider(id string) string {
	fields := []string{`"name":"` + d.name() + `"`, `"uuid":"` + id + `"`}
	if d.n(60) == 0 {
		fields[0] = d.pick(`"name":""`, `"name":1`, `"nam":"x"`, `"name":null`, `"name":"`+strings.Repeat("n", 201)+`"`)
	}
	if d.n(3) == 0 {
		fields = append(fields, d.pick(`"parent_provider_uuid":"`+d.provider()+`"`, `"parent_provider_uuid":null`))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (d *differential) providerUpdate() string {
	more := ""
	if d.n(2) == 0 {
		more = d.pick(`,"parent_provider_uuid":"`+d.provider()+`"`, `,"parent_provider_uuid":null`, `,"uuid":"`+d.provider()+`"`)
	}
	return `{"name":"` + d.name() + `"` + more + "}"
}

func (d *differential) name() string { return d.pick("a", "b", "c", "d", "e", "f", "g", "h") }

// inventory is one inventory with some more fields.
func (d *differential) inventory(more ...string) string {
	fields := append(more, `"total":`+d.amount(20))
	for _, f := range []string{"reserved", "min_unit", "max_unit", "step_size"} {
		if d.n(5) == 0 {
			fields = append(fields, fmt.Sprintf(`%q:%s`, f, d.amount(5+d.n(2)*20)))
		}
	}
	if d.n(5) == 0 {
		fields = append(fields, `"allocation_ratio":`+d.pick("1.0", "2", "0.5", "16.0", "0", "-1", `"1"`, "1.5"))
	}
	if d.rarely() {
		fields = append(fields, `"colour":"red"`)
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func (d *differential) inventories() string {
	var list []string
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A", "CUSTOM_B"} {
		if d.n(5) < 3 {
			list = append(list, fmt.Sprintf(`%q:%s`, class, d.inventory()))
		}
	}
	if d.n(40) == 0 {
		list = append(list, fmt.Sprintf(`%q:%s`, d.pick("NOPE", "vcpu", ""), d.inventory()))
	}
	return d.shuffled(list)
}

func (d *differential) shuffled(list []string) string {
	d.draw.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return strings.Join(list, ",")
}

// resources of one provider.
func (d *differential) resources() string {
	var list []string
	for _, class := range []string{"VCPU", "MEMORY_MB", "DISK_GB", "CUSTOM_A"} {
		if d.n(3) == 0 {
			list = append(list, fmt.Sprintf(`%q:%s`, class, d.amount(4)))
		}
	}
	if len(list) == 0 && !d.rarely() {
		list = append(list, `"VCPU":1`)
	}
	if d.n(60) == 0 {
		list = append(list, `"NOPE":1`)
	}
	return d.shuffled(list)
}

// listedAllocations are the fields of one consumer's body below 1.12. A provider
// can occur twice.
func (d *differential) listedAllocations(version int) string {
	var list []string
	for range 1 + d.n(3) {
		list = append(list, fmt.Sprintf(`{"resource_provider":{"uuid":"%s"},"resources":{%s}}`, d.provider(), d.resources()))
	}
	fields := `"allocations":[` + strings.Join(list, ",") + "]"
	if (version < 8) == d.rarely() {
		fields += `,"project_id":"p1","user_id":"u1"`
	}
	return fields
}

// allocations are the fields of one consumer's body.
func (d *differential) allocations(id string) string {
	list := d.members(2, d.quoted(d.provider), func(string) string { return `:{"resources":{` + d.resources() + `}}` })
	fields := `"allocations":{` + list + "}"
	add := func(field string) {
		if d.n(40) > 0 {
			fields += "," + field
		}
	}
	add(`"project_id":"` + d.pick("p1", "p2") + `"`)
	add(`"user_id":"` + d.pick("u1", "u2") + `"`)
	add(`"consumer_generation":` + d.consumerGeneration(id))
	add(`"consumer_type":"` + d.pick("INSTANCE", "INSTANCE", "MIGRATION", "unknown", "bad-type") + `"`)
	if d.rarely() {
		fields += "," + d.pick(`"mappings":{}`, `"mappings":{"":["`+d.provider()+`"]}`, `"colour":1`)
	}
	return fields
}

func (d *differential) manyAllocations() string {
	return d.members(3, d.quoted(d.consumer), func(quoted string) string {
		return ":{" + d.allocations(strings.Trim(quoted, `"`)) + "}"
	})
}

func (d *differential) read() request {
	paths := d.readPaths()
	path := paths[d.n(len(paths))]
	switch d.n(4) {
	case 0:
		path = "/resource_providers?" + d.providerQuery()
	case 1:
		path = "/allocation_candidates?" + d.candidatesQuery()
	}
	return request{method: "GET", path: path}
}

func (d *differential) readPaths() []string {
	paths := []string{
		"/", "/resource_classes", "/traits", "/traits?name=startswith:CUSTOM", "/traits?name=in:CUSTOM_T1,NOPE",
		"/traits?associated=true", "/traits?associated=false&name=startswith:CUSTOM", "/traits?associated=perhaps",
		"/traits?name=like:x", "/usages", "/usages?project_id=p1", "/usages?project_id=p1&user_id=u2",
		"/usages?project_id=p2&consumer_type=INSTANCE", "/usages?project_id=p2&consumer_type=all",
		"/usages?project_id=p1&consumer_type=unknown", "/usages?project_id=unknown", "/usages?user_id=u1",
		"/traits/CUSTOM_T1", "/traits/NOPE", "/resource_classes/VCPU", "/resource_classes/CUSTOM_A",
		"/resource_classes/NOPE", "/allocations/not-a-uuid",
	}
	for i := range manyProviders {
		for _, below := range []string{
			"", "/inventories", "/inventories/VCPU", "/inventories/NOPE", "/usages", "/allocations", "/traits", "/aggregates",
		} {
			paths = append(paths, "/resource_providers/"+numberedID(1, i)+below)
		}
	}
	for i := range 2 * manyConsumers {
		paths = append(paths, "/allocations/"+numberedID(2, i/2))
	}
	return paths
}

func (d *differential) providerQuery() string {
	var parts []string
	for range 1 + d.n(3) {
		name := d.pick("name", "uuid", "member_of", "resources", "in_tree", "required", "")
		switch {
		case name != "":
			parts = append(parts, name+"="+map[string]string{
				"name": d.pick("a", "b", "c", "", "zz"), "uuid": d.provider(), "member_of": d.memberOf(),
				"resources": d.resourceQuery(), "in_tree": d.provider(), "required": d.required(),
			}[name])
		case d.rarely():
			parts = append(parts, d.pick("colour=red", "limit=1", "required1=X", "resources1=VCPU:1"))
		}
	}
	return strings.Join(parts, "&")
}

func (d *differential) memberOf() string {
	if d.n(30) == 0 {
		return d.pick("in:", "!", "not-a-uuid", "in:a,b", d.aggregate()+","+d.aggregate(), "!!"+d.aggregate())
	}
	return d.pick(
		d.aggregate(), "in:"+d.aggregate()+","+d.aggregate(), "!"+d.aggregate(), "!in:"+d.aggregate()+","+d.aggregate(),
	)
}

func (d *differential) required() string {
	if d.n(30) == 0 {
		return d.pick("", "in:", ",", "!!"+d.trait(), "in:!"+d.trait(), "!%20")
	}
	return d.pick(
		d.trait(), d.trait()+","+d.trait(), "!"+d.trait(), d.trait()+",!"+d.trait(), "in:"+d.trait()+","+d.trait(),
	)
}

func (d *differential) resourceQuery() string {
	if d.n(30) == 0 {
		return d.pick("", "VCPU", "VCPU:0", "VCPU:-1", "VCPU:x", "VCPU:1,", ":1", "VCPU:1:2", "VCPU:1.5", "NOPE:1")
	}
	list := []string{fmt.Sprintf("%s:%d", d.class(), 1+d.n(4))}
	for d.n(3) == 0 {
		list = append(list, fmt.Sprintf("%s:%d", d.class(), 1+d.n(4)))
	}
	return strings.Join(list, ",")
}

func (d *differential) candidatesQuery() string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+"="+value) }
	suffixes := [][]string{{""}, {"", "1"}, {"1", "2"}, {"", "_A", "_B"}}[d.n(4)]
	for _, suffix := range suffixes {
		if d.n(15) > 0 {
			add("resources"+suffix, d.resourceQuery())
		}
		if d.n(2) == 0 {
			add("required"+suffix, d.required())
		}
		for d.n(5) == 0 {
			add("member_of"+suffix, d.memberOf())
		}
		if d.n(12) == 0 {
			add("in_tree"+suffix, d.provider())
		}
	}
	if d.n(8) > 0 && len(suffixes) > 1 {
		add("group_policy", d.pick("none", "isolate"))
	}
	if d.n(12) == 0 {
		add("root_required", d.required())
	}
	if d.n(10) == 0 && len(suffixes) > 2 {
		add("same_subtree", "_A,_B")
	}
	if d.n(40) == 0 {
		parts = append(parts, d.pick("limit=0", "limit=1000", "limit=x", "group_policy=some", "same_subtree=", "colour=red"))
	}
	return strings.Join(parts, "&")
}

// Texts as sorted sets of words.
var (
	unknownName      = regexp.MustCompile(`No .*such.* trait|No .*class .*such`)
	missingInventory = regexp.MustCompile(`Inventory .*Unable .*allocate for invalid inventory on provider`)
	noClass          = regexp.MustCompile(`"(|NOPE|vcpu)":\{`)
	keyError         = regexp.MustCompile(`"detail":"\d+"`) // only the number of a provider's row
)

// explain names a difference that docs/compatibility.md explains; empty: none.
func explain(r request, placement, allot answer) string {
	their, our := placement.String(), allot.String()
	both := func(status int, parts ...string) bool {
		return placement.status == status && allot.status == status && !slices.ContainsFunc(parts, func(part string) bool {
			return !strings.Contains(their, part) || !strings.Contains(our, part)
		})
	}
	theirs := func(status int, text string) bool { return both(status) && strings.Contains(their, text) }
	bothMatch := func(pattern *regexp.Regexp) bool { return pattern.MatchString(their) && pattern.MatchString(our) }
	same, candidates := placement.status == allot.status, strings.HasPrefix(r.path, "/allocation_candidates")
	nothing := strings.Contains(their, `"allocation_requests":[]`) || strings.Contains(their, `"resource_providers":[]`)
	kind := allot.headers["Content-Type"]
	switch {
	case placement.status == 200 && nothing && allot.status == 400 && unknownName.MatchString(our):
		return "an unknown class or trait is refused, even where the rest of the query finds nothing"
	case both(401):
		return "wording of 401"
	case same && placement.status >= 400 && placement.headers["Content-Type"] == kind && strings.HasPrefix(kind, "text/"):
		return "wording of errors in HTML and plain text"
	case both(400, "Failed", "validating"):
		return "of several faults of one body or query another one is named"
	case both(409) && bothMatch(missingInventory):
		return "the missing class is named, not all classes of the request"
	case theirs(409, "sqlite3.IntegrityError"):
		return "SQL errors are not shown"
	case both(409, "Unable", "allocate"):
		return "of several providers without room another one is named"
	case both(400) && bothMatch(unknownName), both(400, "UUID") && strings.Contains(r.path, "in:a,b"),
		both(400, "required s such trait"):
		return "of several unknown names another one, or all, are named"
	case candidates && same && onlyMoreSharing(placement.body, allot.body):
		return "sharing providers of the group without a suffix are combined under all their anchors"
	case candidates && both(200) && onlySumsDiffer(placement.body, allot.body):
		return "Placement adds what one candidate takes to another one, too"
	case candidates && placement.status == 500 && allot.status == 200 && keyError.MatchString(their):
		return "Placement fails where a sharing provider has a parent"
	case placement.status == 500 && allot.status == 400:
		return "Placement fails with 500"
	case same && r.method == "PUT" && placement.headers["Last-Modified"] == "" && text(placement.body) == text(allot.body):
		return "Placement leaves Last-Modified out of some answers to PUT"
	case allot.status == 400 && (both(400) || placement.status == 409) && noClass.MatchString(r.body):
		return "a name that can be no class is refused first"
	case both(400, "JSON Malformed"):
		return "wording of faults in JSON's syntax"
	case theirs(400, "int invalid literal"), theirs(400, "Version.__new__"):
		return "wording of a malformed microversion"
	case both(409, "Conflicting") && theirs(409, "already exists"):
		return "both conflicts of a new provider are named"
	}
	return ""
}

// member is a member of a JSON object.
func member[T any](body any, name string) T {
	object, _ := body.(map[string]any)
	value, _ := object[name].(T)
	return value
}

// onlyMoreSharing reports whether Allot's candidates are Placement's and some
// more, each of which uses a sharing provider.
func onlyMoreSharing(placement, allot any) bool {
	more := map[string]bool{}
	for _, one := range member[[]any](allot, "allocation_requests") {
		more[text(one)] = true
	}
	for _, one := range member[[]any](placement, "allocation_requests") {
		if !more[text(one)] {
			return false
		}
		delete(more, text(one))
	}
	for one := range more {
		shares := false
		for id, summary := range member[map[string]any](allot, "provider_summaries") {
			shares = shares || strings.Contains(one, id) && strings.Contains(text(summary), "MISC_SHARES_VIA_AGGREGATE")
		}
		if !shares {
			return false
		}
	}
	return len(more) > 0
}

// onlySumsDiffer reports whether the candidates differ only in amounts, and
// Placement's are the larger ones where they differ.
func onlySumsDiffer(placement, allot any) bool {
	theirs, ours := member[[]any](placement, "allocation_requests"), member[[]any](allot, "allocation_requests")
	byShape := map[string]any{}
	for _, one := range theirs {
		byShape[amountPattern.ReplaceAllString(text(one), ":N")] = one
	}
	if len(theirs) == 0 || len(theirs) != len(ours) || len(byShape) != len(theirs) {
		return false
	}
	for _, one := range ours {
		their, found := byShape[amountPattern.ReplaceAllString(text(one), ":N")]
		if !found {
			return false
		}
		a, b := amountPattern.FindAllString(text(their), -1), amountPattern.FindAllString(text(one), -1)
		for i := range a {
			if len(a[i]) < len(b[i]) || len(a[i]) == len(b[i]) && a[i] < b[i] {
				return false
			}
		}
	}
	return true
}

var amountPattern = regexp.MustCompile(`:\d+`)
