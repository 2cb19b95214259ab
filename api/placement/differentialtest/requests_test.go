package differentialtest

import (
	"fmt"
	"regexp"
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
	n := d.n(3)
	return []string{numberedID(3, 0), strings.ReplaceAll(numberedID(3, 1), "-", ""), strings.ToUpper("abcdef00-0000-4000-8000-000000000002")}[n]
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

func (d *differential) some(n int, item func() string) string {
	var list []string
	seen := map[string]bool{}
	for range d.n(n + 1) {
		if one := item(); !seen[one] {
			seen[one] = true
			list = append(list, one)
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
	switch d.n(120) {
	case 0:
		r.headers = map[string]string{
			"Content-Type": d.pick("", "text/plain", "application/json; charset=utf-8", "application/xml"),
		}
	case 1:
		r.headers = map[string]string{
			"Accept": d.pick(
				"text/html", "application/json", "*/*", "text/plain", "application/*", "text/html, application/json;q=0.5",
			),
		}
	case 2:
		r.headers = map[string]string{"X-Auth-Token": ""}
	case 3:
		r.headers = map[string]string{"X-Auth-Token": "joe", "X-Roles": d.pick("", "admin", "reader", "member,reader")}
	case 4:
		r.method = d.pick("PATCH", "HEAD", "OPTIONS", "PUT", "POST", "DELETE", "GET")
		if r.method == "HEAD" {
			r.method = "PATCH" // a HEAD has no body to compare
		}
	case 5:
		r.path = d.pick(
			"/nothing", "/resource_providers/", "/resource_providers//", "//", "/allocations", "/resource_providers/a/b/c/d",
			"/Usages",
		)
	case 6:
		if r.body != "" {
			r.body = d.pick(
				`{`, `[]`, `null`, `"x"`, `1`, ``, r.body[:len(r.body)/2], r.body+"}", `{"a":1}`,
				strings.Replace(r.body, `{`, `{"extra":1,`, 1),
			)
		}
	}
	return r
}

func (d *differential) plain() request {
	switch d.n(100) {
	default:
		return d.read()
	case 0, 1, 2, 3, 4, 5:
		return d.createProvider()
	case 6, 7:
		return d.updateProvider()
	case 8, 9:
		return request{method: "DELETE", path: "/resource_providers/" + d.provider()}
	case 10, 11, 12, 13, 14, 15:
		id := d.provider()
		return request{method: "PUT", path: "/resource_providers/" + id + "/inventories", body: fmt.Sprintf(
			`{"resource_provider_generation":%s,"inventories":{%s}}`, d.providerGeneration(id), d.inventories())}
	case 16, 17:
		id := d.provider()
		return request{
			method: "PUT", path: "/resource_providers/" + id + "/inventories/" + d.class(),
			body: d.inventory(`"resource_provider_generation":` + d.providerGeneration(id)),
		}
	case 18:
		return request{
			method: "POST", path: "/resource_providers/" + d.provider() + "/inventories",
			body: d.inventory(`"resource_class":"` + d.class() + `"`),
		}
	case 19:
		return request{
			method: "DELETE", path: "/resource_providers/" + d.provider() + d.pick("/inventories", "/inventories/"+d.class()),
		}
	case 20, 21, 22:
		id := d.provider()
		return request{method: "PUT", path: "/resource_providers/" + id + "/traits", body: fmt.Sprintf(
			`{"resource_provider_generation":%s,"traits":[%s]}`, d.providerGeneration(id), d.some(4, d.quoted(d.trait)))}
	case 23:
		return request{method: "DELETE", path: "/resource_providers/" + d.provider() + "/traits"}
	case 24, 25, 26:
		id := d.provider()
		body := fmt.Sprintf(
			`{"resource_provider_generation":%s,"aggregates":[%s]}`, d.providerGeneration(id),
			d.some(2, d.quoted(d.aggregate)),
		)
		if d.rarely() {
			body = fmt.Sprintf(`[%s]`, d.some(2, d.quoted(d.aggregate)))
		}
		return request{method: "PUT", path: "/resource_providers/" + id + "/aggregates", body: body}
	case 27, 28:
		return request{method: d.pick("PUT", "PUT", "PUT", "DELETE"), path: "/traits/" + d.trait()}
	case 29, 30:
		return request{method: d.pick("PUT", "PUT", "PUT", "DELETE"), path: "/resource_classes/" + d.class()}
	case 31:
		return request{method: "POST", path: "/resource_classes", body: fmt.Sprintf(`{"name":"%s"}`, d.class())}
	case 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47:
		id := d.consumer()
		if d.n(50) == 0 {
			id = "not-a-uuid"
		}
		if d.n(8) == 0 {
			version := d.n(12)
			return request{
				method: "PUT", path: "/allocations/" + id, version: fmt.Sprintf("1.%d", version),
				body: "{" + d.listedAllocations(version) + "}",
			}
		}
		return request{method: "PUT", path: "/allocations/" + id, body: "{" + d.allocations(id) + "}"}
	case 48, 49, 50, 51:
		return request{method: "DELETE", path: "/allocations/" + d.consumer()}
	case 52, 53, 54, 55, 56, 57:
		return request{method: "POST", path: "/allocations", body: "{" + d.manyAllocations() + "}"}
	case 58, 59, 60, 61, 62:
		var inventories []string
		seen := map[string]bool{}
		for range d.n(3) {
			if id := d.provider(); !seen[id] {
				seen[id] = true
				inventories = append(
					inventories,
					fmt.Sprintf(
						`"%s":{"resource_provider_generation":%s,"inventories":{%s}}`, id, d.providerGeneration(id), d.inventories(),
					),
				)
			}
		}
		return request{
			method: "POST", path: "/reshaper",
			body: fmt.Sprintf(`{"inventories":{%s},"allocations":{%s}}`, strings.Join(inventories, ","), d.manyAllocations()),
		}
	}
}

func (d *differential) createProvider() request {
	fields := []string{`"name":"` + d.pick("a", "b", "c", "d", "e", "f", "g", "h") + `"`}
	if d.n(60) == 0 {
		fields[0] = d.pick(`"name":""`, `"name":1`, `"nam":"x"`, `"name":null`, `"name":"`+strings.Repeat("n", 201)+`"`)
	}
	fields = append(fields, `"uuid":"`+d.provider()+`"`)
	if d.n(3) == 0 {
		fields = append(fields, d.pick(`"parent_provider_uuid":"`+d.provider()+`"`, `"parent_provider_uuid":null`))
	}
	return request{method: "POST", path: "/resource_providers", body: "{" + strings.Join(fields, ",") + "}"}
}

func (d *differential) updateProvider() request {
	fields := `"name":"` + d.pick("a", "b", "c", "d", "e", "f", "g", "h") + `"`
	if d.n(2) == 0 {
		fields += d.pick(
			`,"parent_provider_uuid":"`+d.provider()+`"`, `,"parent_provider_uuid":null`, `,"uuid":"`+d.provider()+`"`,
		)
	}
	return request{method: "PUT", path: "/resource_providers/" + d.provider(), body: "{" + fields + "}"}
}

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
	var list []string
	seen := map[string]bool{}
	for range d.n(3) {
		if p := d.provider(); !seen[p] {
			seen[p] = true
			list = append(list, fmt.Sprintf(`"%s":{"resources":{%s}}`, p, d.resources()))
		}
	}
	fields := []string{`"allocations":{` + strings.Join(list, ",") + "}"}
	add := func(field string) {
		if d.n(40) > 0 {
			fields = append(fields, field)
		}
	}
	add(`"project_id":"` + d.pick("p1", "p2") + `"`)
	add(`"user_id":"` + d.pick("u1", "u2") + `"`)
	add(`"consumer_generation":` + d.consumerGeneration(id))
	add(`"consumer_type":"` + d.pick("INSTANCE", "INSTANCE", "MIGRATION", "unknown", "bad-type") + `"`)
	if d.rarely() {
		fields = append(fields, d.pick(`"mappings":{}`, `"mappings":{"":["`+d.provider()+`"]}`, `"colour":1`))
	}
	return strings.Join(fields, ",")
}

func (d *differential) manyAllocations() string {
	var list []string
	seen := map[string]bool{}
	for range d.n(4) {
		if id := d.consumer(); !seen[id] {
			seen[id] = true
			list = append(list, fmt.Sprintf(`"%s":{%s}`, id, d.allocations(id)))
		}
	}
	return strings.Join(list, ",")
}

func (d *differential) read() request {
	paths := d.readPaths()
	switch d.n(4) {
	case 0:
		return request{method: "GET", path: "/resource_providers?" + d.providerQuery()}
	case 1:
		return request{method: "GET", path: "/allocation_candidates?" + d.candidatesQuery()}
	}
	return request{method: "GET", path: paths[d.n(len(paths))]}
}

func (d *differential) readPaths() []string {
	paths := []string{
		"/", "/resource_classes", "/traits", "/traits?name=startswith:CUSTOM", "/traits?name=in:CUSTOM_T1,NOPE",
		"/traits?associated=true",
		"/traits?associated=false&name=startswith:CUSTOM", "/traits?associated=perhaps", "/traits?name=like:x", "/usages",
		"/usages?project_id=p1",
		"/usages?project_id=p1&user_id=u2", "/usages?project_id=p2&consumer_type=INSTANCE",
		"/usages?project_id=p2&consumer_type=all",
		"/usages?project_id=p1&consumer_type=unknown", "/usages?project_id=unknown", "/usages?user_id=u1",
		"/traits/CUSTOM_T1", "/traits/NOPE",
		"/resource_classes/VCPU", "/resource_classes/CUSTOM_A", "/resource_classes/NOPE", "/allocations/not-a-uuid",
	}
	for i := range manyProviders {
		p := "/resource_providers/" + numberedID(1, i)
		paths = append(
			paths, p, p+"/inventories", p+"/inventories/VCPU", p+"/inventories/NOPE", p+"/usages", p+"/allocations",
			p+"/traits", p+"/aggregates",
		)
	}
	for i := range manyConsumers {
		paths = append(paths, "/allocations/"+numberedID(2, i), "/allocations/"+numberedID(2, i))
	}
	return paths
}

func (d *differential) providerQuery() string {
	var parts []string
	for range 1 + d.n(3) {
		switch d.n(7) {
		case 0:
			parts = append(parts, "name="+d.pick("a", "b", "c", "", "zz"))
		case 1:
			parts = append(parts, "uuid="+d.provider())
		case 2:
			parts = append(parts, "member_of="+d.memberOf())
		case 3:
			parts = append(parts, "resources="+d.resourceQuery())
		case 4:
			parts = append(parts, "in_tree="+d.provider())
		case 5:
			parts = append(parts, "required="+d.required())
		case 6:
			if d.rarely() {
				parts = append(parts, d.pick("colour=red", "limit=1", "required1=X", "resources1=VCPU:1"))
			}
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
	suffixes := [][]string{{""}, {"", "1"}, {"1", "2"}, {"", "_A", "_B"}}[d.n(4)]
	for _, suffix := range suffixes {
		resourceless := d.n(15) == 0
		if !resourceless {
			parts = append(parts, "resources"+suffix+"="+d.resourceQuery())
		}
		for range d.n(2) {
			parts = append(parts, "required"+suffix+"="+d.required())
		}
		if d.n(6) == 0 {
			parts = append(parts, "member_of"+suffix+"="+d.memberOf())
		}
		if d.n(12) == 0 {
			parts = append(parts, "in_tree"+suffix+"="+d.provider())
		}
	}
	if d.n(8) > 0 && len(suffixes) > 1 {
		parts = append(parts, "group_policy="+d.pick("none", "isolate"))
	}
	if d.n(12) == 0 {
		parts = append(parts, "root_required="+d.required())
	}
	if d.n(10) == 0 && len(suffixes) > 2 {
		parts = append(parts, "same_subtree=_A,_B")
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
	says := func(a answer, part string) bool { return strings.Contains(a.String(), part) }
	same := placement.status == allot.status
	switch {
	case placement.status == 200 && (says(placement, `"allocation_requests":[]`) || says(placement, `"resource_providers":[]`)) &&
		allot.status == 400 && unknownName.MatchString(allot.String()):
		return "an unknown class or trait is refused, even where the rest of the query finds nothing"
	case same && placement.status == 401:
		return "wording of 401"
	case same && placement.status >= 400 && placement.headers["Content-Type"] == allot.headers["Content-Type"] && strings.HasPrefix(allot.headers["Content-Type"], "text/"):
		return "wording of errors in HTML and plain text"
	case same && placement.status == 400 && says(placement, "Failed") && says(placement, "validating") && says(allot, "Failed") && says(allot, "validating"):
		return "of several faults of one body or query another one is named"
	case same && placement.status == 409 && missingInventory.MatchString(placement.String()) &&
		missingInventory.MatchString(allot.String()):
		return "the missing class is named, not all classes of the request"
	case same && placement.status == 409 && says(placement, "sqlite3.IntegrityError"):
		return "SQL errors are not shown"
	case same && placement.status == 409 && says(placement, "Unable") && says(placement, "allocate") && says(allot, "Unable") && says(allot, "allocate"):
		return "of several providers without room another one is named"
	case same && placement.status == 400 && unknownName.MatchString(placement.String()) &&
		unknownName.MatchString(allot.String()),
		same && placement.status == 400 && strings.Contains(r.path, "in:a,b") && says(placement, "UUID") &&
			says(allot, "UUID"),
		same && placement.status == 400 && says(placement, "required s such trait") && says(allot, "required s such trait"):
		return "of several unknown names another one, or all, are named"
	case strings.HasPrefix(r.path, "/allocation_candidates") && same && onlyMoreSharing(placement.body, allot.body):
		return "sharing providers of the group without a suffix are combined under all their anchors"
	case strings.HasPrefix(r.path, "/allocation_candidates") && placement.status == 200 && same && onlySumsDiffer(placement.body, allot.body):
		return "Placement adds what one candidate takes to another one, too"
	case strings.HasPrefix(r.path, "/allocation_candidates") && placement.status == 500 && allot.status == 200 &&
		keyError.MatchString(placement.String()):
		return "Placement fails where a sharing provider has a parent"
	case placement.status == 500 && allot.status == 400:
		return "Placement fails with 500"
	case same && r.method == "PUT" && placement.headers["Last-Modified"] == "" && text(placement.body) == text(allot.body):
		return "Placement leaves Last-Modified out of some answers to PUT"
	case same && placement.status == 400 && noClass.MatchString(r.body):
		return "a name that can be no class is refused first"
	case same && placement.status == 400 && says(placement, "JSON Malformed") && says(allot, "JSON Malformed"):
		return "wording of faults in JSON's syntax"
	case same && placement.status == 400 && (says(placement, "int invalid literal") || says(placement, "Version.__new__")):
		return "wording of a malformed microversion"
	case same && placement.status == 409 && says(placement, "Conflicting") && says(placement, "already exists") && says(allot, "Conflicting"):
		return "both conflicts of a new provider are named"
	}
	return ""
}

// onlyMoreSharing reports whether Allot's candidates are Placement's and some
// more, each of which uses a sharing provider.
func onlyMoreSharing(placement, allot any) bool {
	requests := func(body any) ([]any, map[string]any) {
		object, _ := body.(map[string]any)
		list, _ := object["allocation_requests"].([]any)
		summaries, _ := object["provider_summaries"].(map[string]any)
		return list, summaries
	}
	theirs, _ := requests(placement)
	ours, summaries := requests(allot)
	known := map[string]bool{}
	for _, one := range ours {
		known[text(one)] = true
	}
	for _, one := range theirs {
		if !known[text(one)] {
			return false
		}
		delete(known, text(one))
	}
	for more := range known {
		shares := false
		for id, summary := range summaries {
			shares = shares || strings.Contains(more, id) && strings.Contains(text(summary), "MISC_SHARES_VIA_AGGREGATE")
		}
		if !shares {
			return false
		}
	}
	return len(known) > 0
}

// onlySumsDiffer reports whether the candidates differ only in amounts, and
// Placement's are the larger ones where they differ.
func onlySumsDiffer(placement, allot any) bool {
	requests := func(body any) (list []any) {
		object, _ := body.(map[string]any)
		list, _ = object["allocation_requests"].([]any)
		return list
	}
	theirs, ours := requests(placement), requests(allot)
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
