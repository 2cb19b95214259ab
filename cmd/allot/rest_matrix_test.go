package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/auth/keystonetest"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// The values of the routes' parameters in the tests, and what ann's project owns.
const (
	aProvider   = "11111111-1111-4111-8111-111111111111"
	aConsumer   = "22222222-2222-4222-8222-222222222222"
	aNode       = "33333333-3333-4333-8333-333333333333"
	aChassis    = "55555555-5555-4555-8555-555555555555"
	aAllocation = "44444444-4444-4444-8444-444444444444"
)

var parameters = strings.NewReplacer(
	"{uuid}", aProvider, "{consumer_uuid}", aConsumer, "{name}", "CUSTOM_X", "{resource_class}", "VCPU", "{node}", aNode,
	"{chassis}", aChassis, "{allocation}", aAllocation, "{trait}", "CUSTOM_A", "{tile}", "0/000.p/1",
)

// send sends a request with some headers and returns the status and the body.
func (s *server) send(method, path, body string, headers map[string]string) (int, string) {
	s.T.Helper()
	all := map[string]string{"OpenStack-API-Version": "placement 1.39, baremetal 1.94", "Content-Type": "application/json"}
	maps.Copy(all, headers)
	status, answer, err := sendTo(method, "http://"+s.HTTP+path, body, all)
	if err != nil {
		s.T.Fatalf("%s %s: %v", method, path, err)
	}
	return status, answer
}

// nothing are the routes that, as upstream, tell everybody that there is nothing to do there.
var nothing = []string{
	"POST /baremetal/v1/allocations/{allocation}", "PATCH /baremetal/v1/allocations", "DELETE /baremetal/v1/allocations",
}

// served lists all routes of a server, as METHOD PATH, from its description and the tables of its APIs.
func (s *server) served(admin map[string]string) []string {
	s.T.Helper()
	var routes []string
	_, text := s.send("GET", "/openapi.json", "", nil)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	must(s.T, json.Unmarshal([]byte(text), &document))
	for path, item := range document.Paths {
		for method := range item {
			if method != "parameters" {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	for _, path := range baremetal.Paths {
		// A request with an unknown method returns the methods of a path.
		headers := map[string]string{"OpenStack-API-Version": "baremetal 1.94", "X-Auth-Token": admin["X-Auth-Token"]}
		answer, _, err := launchtest.Exchange("TRACE", "http://"+s.HTTP+parameters.Replace("/baremetal/v1"+path), "", headers)
		must(s.T, err)
		for method := range strings.SplitSeq(answer.Header.Get("Allow"), ", ") {
			if route := method + " /baremetal/v1" + path; !slices.Contains(nothing, route) {
				routes = append(routes, route)
			}
		}
	}
	routes = append(routes, audit.Paths...)
	routes = append(routes, "GET /baremetal", "GET /baremetal/v1", "GET /console/")
	slices.Sort(routes)
	return slices.Compact(routes) // most are in the description, too
}

// promised reads the table of docs/security.md: each route's answer to each persona.
func promised(t *testing.T) (personas []string, routes map[string][]string) {
	t.Helper()
	table := securityTable(t, "REST", "route")
	personas, routes = table[0][1:], make(map[string][]string)
	for _, cells := range table[1:] {
		for one := range strings.SplitSeq(cells[0], ", ") { // in backquotes: methods and a path
			words := strings.Fields(strings.Trim(one, "`"))
			for _, method := range words[:len(words)-1] {
				route := method + " " + words[len(words)-1]
				if routes[route] != nil || len(cells) != len(personas)+1 {
					t.Errorf("%s stands twice in the table, or has %d cells", route, len(cells))
				}
				routes[route] = cells[1:]
			}
		}
	}
	return personas, routes
}

// securityTable returns the cells of the first table of a section in docs/security.md, whose first head is given.
func securityTable(t *testing.T, section, head string) (table [][]string) {
	t.Helper()
	_, text, _ := strings.Cut(read(t, "../../docs/security.md"), "\n## "+section+"\n")
	_, text, found := strings.Cut(text, "\n| "+head)
	if !found {
		t.Fatalf("docs/security.md has no table of %s", section)
	}
	text, _, _ = strings.Cut("| "+head+text, "\n\n")
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		table = append(table, cells)
	}
	return slices.Delete(table, 1, 2) // the line below the heads
}

// populateForStrangers makes the entities that the routes name, as an administrator.
func (s *server) populateForStrangers(admin map[string]string) {
	s.T.Helper()
	for _, one := range []string{
		`POST /resource_providers {"name":"n","uuid":"` + aProvider + `"}`,
		`PUT /resource_providers/` + aProvider + `/inventories {"resource_provider_generation":0,"inventories":{"VCPU":{"total":100}}}`,
		`PUT /traits/CUSTOM_X `, `PUT /resource_classes/CUSTOM_X `, `PUT /preferences/CUSTOM_X {"prefer":{}}`,
		`PUT /topologies/CUSTOM_X {"levels":["rack"],"members":{}}`,
		`PUT /allocations/` + aConsumer + ` {"allocations":{"` + aProvider + `":{"resources":{"VCPU":1}}},"project_id":"a","user_id":"u","consumer_generation":null,"consumer_type":"T"}`,
		`POST /baremetal/v1/chassis {"uuid":"` + aChassis + `"}`,
		`POST /baremetal/v1/nodes {"driver":"d","uuid":"` + aNode + `","name":"metal","resource_class":"bm","owner":"a"}`,
		`PUT /baremetal/v1/nodes/metal/states/provision {"target":"manage"}`,
		`PUT /baremetal/v1/nodes/metal/states/provision {"target":"provide"}`,
		`PUT /baremetal/v1/nodes/metal/traits/CUSTOM_A `,
		`POST /baremetal/v1/allocations {"uuid":"` + aAllocation + `","resource_class":"bm","owner":"a"}`,
	} {
		fields := strings.SplitN(one, " ", 3)
		if status, text := s.send(fields[0], fields[1], fields[2], admin); status >= 300 {
			s.T.Fatalf("%s: %d %s", one, status, text)
		}
	}
	ledgertest.WaitFor(s.T, "the allocation", func() bool {
		status, _ := s.send("GET", "/baremetal/v1/nodes/"+aNode+"/allocation", "", admin)
		return status == http.StatusOK
	})
}

// asked is the request with which a route is tried. It changes nothing, even when it is allowed.
func asked(route string) (method, target, body string) {
	method, path, _ := strings.Cut(route, " ")
	target, body = parameters.Replace(path), "{}"
	switch {
	case path == "/usages":
		target += "?project_id=a"
	case path == "/allocation_candidates", path == "/capacity":
		target += "?resources=VCPU:1"
	case method != http.MethodGet && !strings.HasPrefix(path, "/audit") && !strings.HasPrefix(path, "/cluster"):
		target += "?dry_run=true"
	}
	return method, target, body
}

// outcome returns what a status says about the sender's rights.
func outcome(route string, status int) string {
	switch status {
	case http.StatusBadRequest:
		if route == "GET /baremetal/v1/nodes/{node}/allocation" {
			return "400" // the node does not exist
		}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return fmt.Sprint(status)
	}
	return "yes"
}

// prefixes are the paths at which Placement's routes are mounted.
func prefixes(target string) []string {
	for _, other := range []string{"/baremetal", "/audit", "/console", "/cluster", "/asyncapi.json", "/openapi.json", "/healthz", "/livez", "/readyz"} {
		if strings.HasPrefix(target, other) {
			return []string{""}
		}
	}
	return []string{"", "/placement"}
}

// compareMatrix tries every route as every persona whose headers are known.
func (s *server) compareMatrix(known map[string]map[string]string) {
	s.T.Helper()
	personas, routes := promised(s.T)
	for name := range known {
		if !slices.Contains(personas, name) {
			s.T.Errorf("the table has no column %q", name)
		}
	}
	if diff := cmp.Diff(s.served(known["admin"]), slices.Sorted(maps.Keys(routes))); diff != "" {
		s.T.Errorf("the table has other routes than the server:\n%s", diff)
	}
	for route, cells := range routes {
		for i, persona := range personas {
			headers, isKnown := known[persona]
			if !isKnown {
				continue
			}
			method, target, body := asked(route)
			for _, prefix := range prefixes(target) {
				status, text := s.send(method, prefix+target, body, headers)
				if got := outcome(route, status); got != cells[i] {
					s.T.Errorf("%s%s by %s: %d, and the table says %s: %.200s", prefix, route, persona, status, cells[i], text)
				}
			}
		}
	}
}

// TestRESTMatrix: every route answers every persona as docs/security.md says.
func TestRESTMatrix(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "operator.example", key)
	t.Run("without authentication", func(t *testing.T) {
		t.Parallel()
		s := launch(t, t.TempDir(), "--signing-key", key)
		persona := func(token, roles string) map[string]string {
			return map[string]string{"X-Auth-Token": token, "X-Roles": roles}
		}
		s.populateForStrangers(persona("admin", ""))
		s.compareMatrix(map[string]map[string]string{
			"no token, no authentication": nil,
			"reader":                      persona("ann:a", "reader"), "member": persona("mia:a", "member,reader"),
			"other's reader": persona("rob:b", "reader"), "other's member": persona("max:b", "member,reader"),
			"admin": persona("admin", "admin,manager,member,reader"), "service": persona("nova", "service"),
			"system": {"X-Auth-Token": "root", "X-Roles": "admin,reader", "OpenStack-System-Scope": "all"},
		})
	})
	t.Run("Keystone", func(t *testing.T) {
		t.Parallel()
		everything := []string{"admin", "manager", "member", "reader", "service"}
		users := []keystonetest.User{
			{Name: "reader", Project: "a", ID: "ann", Roles: []string{"reader"}},
			{Name: "member", Project: "a", ID: "mia", Roles: []string{"member", "reader"}},
			{Name: "other's reader", Project: "b", ID: "rob", Roles: []string{"reader"}},
			{Name: "other's member", Project: "b", ID: "max", Roles: []string{"member", "reader"}},
			{Name: "admin", Project: "service", ID: "admin", Roles: everything[:4]},
			{Name: "service", Project: "service", ID: "nova", Roles: []string{"service"}},
			{Name: "system", ID: "root", Roles: []string{"admin", "reader"}},
			{Name: "domain", ID: "dora", Domain: "default", Roles: everything},
		}
		keystone := keystonetest.Start(t, append(users, keystoneAllot)...)
		s := launch(t, t.TempDir(), "--keystone-url", keystone.URL, "--signing-key", key)
		known := map[string]map[string]string{
			// What they say of themselves must not count.
			"no token": {"X-Roles": "admin", "X-Project-Id": "a", "X-User-Id": "admin", "X-Identity-Status": "Confirmed"},
		}
		for _, user := range users {
			known[user.Name] = map[string]string{"X-Auth-Token": keystone.Token(user.Name), "X-Roles": "admin", "X-Project-Id": "a"}
		}
		s.populateForStrangers(known["admin"])
		s.compareMatrix(known)
	})
}

// TestForeignPages: requests that a page of another origin, or one whose name was made to point here, can make a
// browser send are refused by every API, and requests that need no preflight cannot write. NATS's port takes none.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	metrics, nats := freeAddress(t), freeAddress(t)
	s := launch(t, t.TempDir(), "--metrics", metrics, "--nats", nats, "--allowed-host", "ledger.example",
		"--cors-allowed-origin", "https://good.example")
	conn, err := net.Dial("tcp", nats)
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(hang)))
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n"+
		"CONNECT {\"verbose\":true}\r\nSUB allot.> 1\r\nPING\r\n")
	answer, ended := io.ReadAll(conn) // to the end: NATS closes the connection
	if text := string(answer); err != nil || strings.Contains(text, "PONG") || strings.Contains(text, "+OK") {
		t.Errorf("NATS answers a page: %s, %v, %v", text, err, ended)
	}
	admin := map[string]string{"X-Auth-Token": "admin"}
	s.populateForStrangers(admin)
	before := s.Must(200, "GET", "/audit/digest", "")
	for _, d := range []struct {
		server *server
		routes []string
	}{{s, append(s.served(admin), "GET /console")}, {&server{&launchtest.Server{T: t, HTTP: metrics}}, []string{"GET /metrics"}}} {
		for _, route := range d.routes {
			method, path, _ := strings.Cut(route, " ")
			for _, headers := range []map[string]string{
				{"Host": "evil.example:8778"}, {"Host": "localhost.evil.example"}, {"Host": "10.1.2.3"},
				{"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
				{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
				{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
			} {
				if headers["Host"] == "" && path == "/" {
					continue // any page may read the version document
				}
				headers["X-Auth-Token"] = "admin"
				if status, text := d.server.send(method, parameters.Replace(path), "{}", headers); status != http.StatusForbidden {
					t.Errorf("%s with %v: %d %.100s", route, headers, status, text)
				}
			}
			for _, headers := range []map[string]string{{"Host": "ledger.example"}, {"Host": "localhost:1"}, {"Origin": "https://good.example"}, {"Sec-Fetch-Site": "same-origin"}} {
				headers["X-Auth-Token"] = "admin"
				if headers["Origin"] != "" && path == "/metrics" {
					continue // has no CORS headers
				}
				if method == "GET" && !strings.HasPrefix(path, "/audit") {
					if status, text := d.server.send(method, parameters.Replace(path), "", headers); status == http.StatusForbidden {
						t.Errorf("%s with %v: %d %.100s", route, headers, status, text)
					}
				}
			}
			if method != "POST" {
				continue // the browser asks first
			}
			for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
				status, text := d.server.send(
					method, parameters.Replace(path), `{"driver":"d","name":"x","resource_class":"bm"}`,
					map[string]string{"Content-Type": contentType, "X-Auth-Token": "admin"},
				)
				if status != http.StatusUnsupportedMediaType && status != http.StatusBadRequest &&
					status != http.StatusMethodNotAllowed {
					t.Errorf("%s with content type %q: %d %.100s", route, contentType, status, text)
				}
			}
		}
	}
	if after := s.Must(200, "GET", "/audit/digest", ""); after != before {
		t.Errorf("something has been written:\n%s\nwas\n%s", after, before)
	}
}

// TestNATSInsideWithKeystone: with authentication over REST and no users of NATS, NATS is not open to all.
func TestNATSInsideWithKeystone(t *testing.T) {
	t.Parallel()
	const byDefault = "127.0.0.1:4222"
	s := launch(t, t.TempDir(), "--nats", byDefault, "--keystone-url", keystonetest.Start(t, keystoneAllot).URL)
	s.Kill()
	if logs := s.Logs.String(); !strings.Contains(logs, "NATS stays inside the process") ||
		strings.Contains(logs, "4222") {
		t.Errorf("%s", logs)
	}
}

// peakRSS returns the largest memory that a process has had, in bytes.
func (s *server) peakRSS() int64 {
	s.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Cmd.Process.Pid))
	if err != nil {
		s.T.Skip("skipped: no /proc")
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	must(s.T, err)
	return kilobytes << 10
}

// hostileBodies are large bodies that are invalid in one way or another.
func hostileBodies() map[string]string {
	var manyKeys strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&manyKeys, `"key-%d":1,`, i)
	}
	return map[string]string{
		"numbers":      "[" + strings.Repeat("1,", 4<<20) + "1]",
		"empty lists":  "[" + strings.Repeat("[],", 2<<20) + "[]]",
		"objects":      "[" + strings.Repeat("{},", 2<<20) + "{}]",
		"string":       `{"name":"` + strings.Repeat("a", 3<<20) + `"}`,
		"key":          `{"` + strings.Repeat("k", 3<<20) + `":1}`,
		"keys":         "{" + manyKeys.String() + `"last":1}`,
		"quotes":       `{"name":"` + strings.Repeat(`\"`, 1<<20) + `"}`,
		"nested":       strings.Repeat("[", 1<<20),
		"digits":       "[" + strings.Repeat("1", 3<<20) + "]",
		"in a member":  `{"name":[` + strings.Repeat(`"x",`, 200_000) + `"x"],"extra":[` + strings.Repeat(`"x",`, 20_000) + `"x"]}`,
		"more than is": strings.Repeat(" ", 17<<20),
	}
}

// mostBodiesGrowth is how much of the server's memory one attacker may take, in bytes.
const mostBodiesGrowth = 512 << 20

// TestHostileBodies: large invalid bodies to every route that takes a body, several at once, are refused in short
// answers, and the memory grows by less than mostBodiesGrowth over what the first ordinary requests took. Without a
// bound it grew by gigabytes.
func TestHostileBodies(t *testing.T) {
	s := launch(t, t.TempDir())
	admin := map[string]string{"X-Auth-Token": "admin"}
	s.populateForStrangers(admin)
	var writes []string
	for _, route := range s.served(admin) {
		if method, _, _ := strings.Cut(route, " "); method != "GET" && method != "DELETE" {
			writes = append(writes, route)
		}
	}
	before := s.peakRSS()
	bodies := hostileBodies()
	work := make(chan [2]string)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for one := range work {
				method, path, _ := strings.Cut(one[0], " ")
				status, text := s.send(method, parameters.Replace(path), bodies[one[1]], admin)
				noBody := strings.HasSuffix(path, "{trait}") || strings.HasSuffix(path, "/traits/{name}") ||
					strings.HasSuffix(path, "/resource_classes/{name}")
				if status < 400 && !noBody || status == http.StatusInternalServerError || len(text) > 32<<10 {
					t.Errorf("%s with %s: %d and %d bytes: %.200s", one[0], one[1], status, len(text), text)
				}
			}
		})
	}
	for _, route := range writes {
		for name := range bodies {
			work <- [2]string{route, name}
		}
	}
	close(work)
	all.Wait()
	if growth := s.peakRSS() - before; growth > mostBodiesGrowth {
		t.Errorf("the memory grew by %d MiB from %d", growth>>20, before>>20)
	}
}
