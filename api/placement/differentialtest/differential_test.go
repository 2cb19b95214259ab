// Package differentialtest compares the Placement facade with OpenStack Placement, request by request.
package differentialtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
)

// TestDifferential sends the same random requests to a running OpenStack Placement and to a running Allot, which
// .ci/differential starts, and compares status, headers and bodies of every answer. Differences that
// docs/compatibility.md explains are counted by name, everything else is an error.
func TestDifferential(t *testing.T) {
	both := strings.Fields(os.Getenv("ALLOT_DIFFERENTIAL")) // their URLs
	if len(both) != 2 {
		t.Skip("skipped: .ci/differential runs this beside OpenStack Placement")
	}
	number := func(name string, or int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return or
	}
	d := &differential{
		t: t, draw: rand.New(rand.NewPCG(uint64(number("ALLOT_DIFFERENTIAL_SEED", 1)), 0)),
		peers:     [2]peer{{url: both[0], stale: map[string]any{}}, {url: both[1], stale: map[string]any{}}},
		explained: map[string]int{}, statuses: map[int]int{},
	}
	n := number("ALLOT_DIFFERENTIAL_REQUESTS", 20000)
	d.prepareHealing()
	for i := range n {
		r := d.next()
		d.compare(i, r)
		d.heal(r)
		if d.unexplained >= 20 {
			t.Fatal("too many differences")
		}
	}
	for _, path := range append(d.readPaths(), "/resource_providers", "/traits", "/resource_classes") {
		d.same("GET", path, "") // everything that exists at the end
	}
	t.Logf(
		"%d requests, answered with %v; %d unexplained differences; explained: %v", n, d.statuses, d.unexplained,
		d.explained,
	)
}

// peer is one of the two servers, with what it has said about consumers.
type peer struct {
	url   string
	stale map[string]any // generations that consumers had before
}

type differential struct {
	t           *testing.T
	draw        *rand.Rand
	peers       [2]peer
	explained   map[string]int
	statuses    map[int]int
	unexplained int
}

// request is a request for both servers. Its body has tokens for generations, which each server's own replace.
type request struct {
	method, path, body string
	version            string
	headers            map[string]string
}

// same compares the answers to a request at the newest version that both have.
func (d *differential) same(method, path, body string) {
	d.compare(-1, request{method: method, path: path, body: body, version: "1.39"})
}

// Tokens of generations in bodies: @P:UUID@ is a provider's, @C:UUID@ a
// consumer's, @S:UUID@ one that the consumer had before.
var token = regexp.MustCompile(`"@([PCS]):([^"]*)@"`)

func (d *differential) compare(i int, r request) {
	var answers [2]answer
	for k := range d.peers {
		body := token.ReplaceAllStringFunc(r.body, func(found string) string {
			match := token.FindStringSubmatch(found)
			return d.generation(k, match[1], match[2])
		})
		answers[k] = d.send(k, r, body)
	}
	d.statuses[answers[0].status]++
	difference := answers[0].differs(answers[1])
	if difference == "" {
		return
	}
	// A difference in order has no explanation, because explanations are about the contents of bodies.
	if why := explain(r, answers[0], answers[1]); why != "" && !strings.HasPrefix(difference, "order: ") {
		d.explained[why]++
		return
	}
	d.unexplained++
	d.t.Errorf(
		"request %d: %s %s at %s %v\n%.600s\n%s\nPlacement: %v\nAllot:     %v", i, r.method, r.path, r.version, r.headers,
		r.body, difference, answers[0], answers[1],
	)
}

// Placement keeps a consumer without allocations, at generation 0, when its first write fails or allocates nothing;
// Allot does not. To keep one such difference from causing others, these consumers are removed from both servers, by
// an allocation from a provider of their own and its release.
const healer = "99999999-0000-4000-8000-000000000000"

func (d *differential) prepareHealing() {
	const path = "/resource_providers"
	d.same("PUT", "/resource_classes/CUSTOM_HEALING", "")
	d.same("POST", path, `{"name":"healer","uuid":"`+healer+`"}`)
	d.same("PUT", path+"/"+healer+"/inventories", `{"resource_provider_generation":0,"inventories":{"CUSTOM_HEALING":{"total":1}}}`)
}

func (d *differential) heal(r request) {
	if r.method != "PUT" && r.method != "POST" {
		return
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(consumerIDs.FindAllString(r.path+r.body, -1)))) {
		at := request{method: "PUT", path: "/allocations/" + id, version: "1.39"}
		body := func(generation string) string {
			return `{"allocations":{"` + healer + `":{"resources":{"CUSTOM_HEALING":1}}},"project_id":"h","user_id":"h","consumer_type":"HEALED","consumer_generation":` + generation + `}`
		}
		if d.send(0, at, body("0")).status != http.StatusNoContent {
			continue
		}
		if a := d.send(1, at, body("null")); a.status != http.StatusNoContent {
			d.t.Errorf("a consumer that Placement has left behind is there in Allot, too: %v", a)
		}
		d.same("DELETE", at.path, "")
	}
}

var consumerIDs = regexp.MustCompile(`00000002-0000-4000-8000-\d{12}`)

// generation asks a server for a generation.
func (d *differential) generation(k int, kind, id string) string {
	path, field := "/resource_providers/"+id, "generation"
	if kind != "P" {
		path, field = "/allocations/"+id, "consumer_generation"
	}
	a := d.send(k, request{method: "GET", path: path, version: "1.39"}, "")
	body, _ := a.raw.(map[string]any)
	if kind == "S" {
		// Placement counts anew when a consumer comes again, so an old generation may be valid once more.
		if old, known := d.peers[k].stale[id]; known && old != body[field] && old != 0.0 && old != 1.0 {
			return fmt.Sprint(old)
		}
		return "77777"
	}
	if body[field] == nil {
		return "null"
	}
	if kind == "C" {
		d.peers[k].stale[id] = body[field]
	}
	return fmt.Sprint(body[field])
}

// answer is a response without the parts that must differ.
type answer struct {
	status  int
	headers map[string]string
	body    any
	raw     any
	order   string // of what has one
}

func (a answer) String() string {
	text, err := json.Marshal(a.body)
	if err != nil {
		panic(err) // it came from JSON
	}
	return fmt.Sprintf("%d %v %.1500s", a.status, a.headers, text)
}

func (a answer) differs(b answer) string {
	switch {
	case a.status != b.status:
		return "status"
	case !reflect.DeepEqual(withoutVary(a), withoutVary(b)) || a.headers["Vary"] != "" && b.headers["Vary"] == "":
		return "headers"
	case !reflect.DeepEqual(a.body, b.body):
		return "body"
	case a.order != b.order:
		return "order: Placement " + a.order + ", Allot " + b.order
	}
	return ""
}

var (
	providerInList = regexp.MustCompile(`"uuid": ?"([^"]*)"`)
	traitInList    = regexp.MustCompile(`"(CUSTOM_[^"]*)"`)
	classInList    = regexp.MustCompile(`"([A-Z_]+)": ?\{`)
	// memberOfObject is a provider or a class, as a name in an object.
	memberOfObject = regexp.MustCompile(`"([0-9a-f-]{36}|[A-Z][A-Z0-9_]*)": ?[{0-9]`)
	listOfClaims   = regexp.MustCompile(`"allocations": ?\[`) // below 1.12
)

// listed are the items in a text, in its order.
func listed(item *regexp.Regexp, text string) string {
	var names []string
	for _, found := range item.FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return strings.Join(names, " ")
}

// candidatesOrder returns the order in a list of candidates for one group: the classes of each candidate, the
// providers in the summaries, and their classes and custom traits. It leaves out the order of the candidates, which
// comes from Python's sets.
func candidatesOrder(r request, text string) string {
	if strings.Count(r.path, "resources") != 1 || strings.Count(r.path, "resources=") != 1 ||
		listOfClaims.MatchString(text) {
		return ""
	}
	requests, summaries, _ := strings.Cut(text, `"provider_summaries"`)
	candidates := strings.Split(requests, `"allocations"`)
	for i := range candidates {
		candidates[i] = listed(memberOfObject, candidates[i])
	}
	slices.Sort(candidates)
	return fmt.Sprintln(candidates, listed(memberOfObject, summaries), listed(traitInList, summaries))
}

var (
	providerList  = regexp.MustCompile(`^/resource_providers(\?|$)`)
	traitList     = regexp.MustCompile(`/traits(\?|$)`)
	inventoryList = regexp.MustCompile(`/inventories$`)
	ofConsumer    = regexp.MustCompile(`^/allocations/`)
)

// orderOf returns the orders in an answer: providers and custom traits as they were made, inventories and what a
// consumer holds as they were sent. It leaves out standard traits and stored inventories, whose order comes from
// Python's sets.
func orderOf(r request, text string) string {
	switch {
	case r.method == "GET" && strings.HasPrefix(r.path, "/allocation_candidates"):
		return candidatesOrder(r, text)
	case r.method == "GET" && ofConsumer.MatchString(r.path):
		return listed(memberOfObject, text)
	case r.method == "GET" && providerList.MatchString(r.path):
		return listed(providerInList, text)
	case traitList.MatchString(r.path):
		return listed(traitInList, text)
	case r.method == "PUT" && inventoryList.MatchString(r.path):
		return listed(classInList, text)
	}
	return ""
}

// withoutVary: Allot sends Vary with every answer that has a microversion. Placement leaves it out of some errors.
func withoutVary(a answer) map[string]string {
	headers := maps.Clone(a.headers)
	delete(headers, "Vary")
	return headers
}

// comparedHeaders must be there on both, or on neither. The values of those marked true are compared, too.
var comparedHeaders = map[string]bool{
	"Openstack-Api-Version": true, "Vary": true, "Location": false, "Allow": true, "Content-Type": true,
	"Last-Modified": false, "Cache-Control": true, "X-Openstack-Request-Id": false,
}

func (d *differential) send(k int, r request, body string) answer {
	req, err := http.NewRequest(r.method, d.peers[k].url+r.path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Close = k == 0 // the reference closes connections at will
	req.Header.Set("X-Auth-Token", "admin")
	if r.version != "" {
		req.Header.Set("OpenStack-API-Version", "placement "+r.version)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.headers {
		if value == "" {
			req.Header.Del(name)
		} else {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, headers: map[string]string{}}
	for name, compared := range comparedHeaders {
		if value := resp.Header.Get(name); value != "" {
			a.headers[name] = value
			if !compared {
				a.headers[name] = "(some)"
			}
		}
	}
	if location := resp.Header.Get("Location"); location != "" {
		a.headers["Location"] = strings.TrimPrefix(location, d.peers[k].url)
	}
	if len(text) == 0 {
		return a
	}
	if a.status == http.StatusOK {
		a.order = orderOf(r, string(text))
	}
	if err := json.Unmarshal(text, &a.raw); err != nil {
		a.body = string(text)
		return a
	}
	var again any
	numbers := json.NewDecoder(bytes.NewReader(text))
	if r.method == http.MethodGet { // a write is answered with the numbers as they were sent
		numbers.UseNumber() // 1.0 is another number than 1 to clients in Python
	}
	_ = numbers.Decode(&again) // it succeeded above
	a.body = canonical("", again)
	return a
}

// canonical removes what must differ and sorts what has no order.
func canonical(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, item := range v {
			switch name {
			case "request_id":
				v[name] = "(id)"
			case "consumer_generation":
				if item != nil {
					v[name] = "(generation)"
				}
			default:
				v[name] = canonical(name, item)
			}
		}
	case []any:
		for i := range v {
			v[i] = canonical(key, v[i])
		}
		v = slices.DeleteFunc(v, isNewerTrait)
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		return v
	case string:
		if key == "aggregates" {
			return plainSpelling(v)
		}
		if key == "detail" {
			return detail(v)
		}
	}
	return value
}

// plainSpelling is one spelling of every uuid. Placement shows aggregates as they
// were sent, Allot as they were sent first.
func plainSpelling(text string) string {
	if id, err := ledger.ParseUUID(text); err == nil {
		return id.String()
	}
	return text
}

// newerTraits came with os-traits after Debian's release of it.
var newerTraits = regexp.MustCompile(
	`^(COMPUTE_ADDRESS_SPACE_|COMPUTE_NET_VIF_MODEL_IGB|COMPUTE_NET_VIRTIO_PACKED|COMPUTE_SECURITY_|COMPUTE_SHARE_LOCAL_FS|COMPUTE_SOUND_|` +
		`COMPUTE_USB_|HW_CPU_X86_AMD_SEV_|HW_CPU_X86_AMX|HW_CPU_X86_INTEL_TDX|HW_NVME_|HW_PCI_)`,
)

func isNewerTrait(item any) bool {
	name, isText := item.(string)
	return isText && newerTraits.MatchString(name)
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // it came from JSON
	}
	return string(encoded)
}

var (
	words   = regexp.MustCompile(`[A-Za-z0-9_.:-]+`)
	spacing = regexp.MustCompile(`\s+`)
	// The numbers are sequences in Allot.
	consumerConflict = regexp.MustCompile(`consumer generation conflict - expected (\d+|null) but got (\d+|None)`)
	schemaAt         = regexp.MustCompile(`(?s)Failed validating .*`)
)

// detail compares texts as sets of words, because lists in them are in the order
// of Python's sets and dicts, and the sentence before them is webob's.
func detail(s string) string {
	if _, message, found := strings.Cut(s, "\n\n"); found {
		s = message
	} else if s == "The resource could not be found." || strings.HasSuffix(s, "is not allowed for this resource.") {
		s = ""
	}
	s = consumerConflict.ReplaceAllString(s, "consumer generation conflict")
	s = spacing.ReplaceAllString(strings.TrimSpace(schemaAt.ReplaceAllString(s, "Failed validating")), " ")
	list := words.FindAllString(s, -1)
	for i := range list {
		list[i] = strings.TrimRight(list[i], ":.")
	}
	list = slices.DeleteFunc(list, func(word string) bool { return word == "" })
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}
