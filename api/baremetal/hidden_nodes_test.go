package baremetal_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// The names that eve, of another project, uses: existing ones and missing ones, of the same length.
const (
	foreignNode  = "aaaaaaaa-0000-4000-8000-00000000000a"
	missingNode  = "bbbbbbbb-0000-4000-8000-00000000000b"
	foreignAlloc = "aaaaaaaa-0000-4000-8000-0000000000aa"
	missingAlloc = "bbbbbbbb-0000-4000-8000-0000000000bb"
)

var (
	nodeTwins = [][2]string{
		{foreignNode, missingNode}, {"alice-node", "never-node"},
		{strings.ReplaceAll(foreignNode, "-", ""), strings.ReplaceAll(missingNode, "-", "")},
	}
	allocTwins = [][2]string{{foreignAlloc, missingAlloc}, {"alice-hold", "never-hold"}}
)

// alice owns a node in use and one that is free, and an allocation.
func aliceHas(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.play(t, strings.NewReplacer("NODE", foreignNode, "ALLOCATION", foreignAlloc).Replace(
		`POST /v1/nodes {"driver":"d","uuid":"NODE","name":"alice-node","resource_class":"baremetal","owner":"alice"}
-> 201
PUT /v1/nodes/alice-node/states/provision {"target":"manage"}
-> 202
PUT /v1/nodes/alice-node/states/provision {"target":"provide"}
-> 202
POST /v1/allocations {"resource_class":"baremetal","uuid":"ALLOCATION","name":"alice-hold","owner":"alice"}
-> 201
PUT /v1/nodes/alice-node/states/provision {"target":"active"}
-> 202
eve/reader,member,manager GET /v1/nodes/NODE
-> 404
`))
	return w
}

// bodies are valid bodies for the methods that take one; the others have none.
var bodies = map[string]string{
	"PATCH /allocations/{allocation}":    `[{"op":"add","path":"/extra/k","value":"v"}]`,
	"PATCH /nodes/{node}":                `[{"op":"add","path":"/extra/k","value":"v"}]`,
	"PATCH /chassis/{chassis}":           `[{"op":"add","path":"/extra/k","value":"v"}]`,
	"PUT /nodes/{node}/traits":           `{"traits":["CUSTOM_A"]}`,
	"PUT /nodes/{node}/maintenance":      `{"reason":"r"}`,
	"PUT /nodes/{node}/states/provision": `{"target":"deleted"}`,
	"PUT /nodes/{node}/states/power":     `{"target":"power on"}`,
	"POST /chassis":                      `{"description":"d"}`,
	"POST /nodes":                        `{"driver":"d"}`,
	"POST /allocations":                  `{"resource_class":"baremetal"}`,
	"POST /allocations/{allocation}":     `{}`,
	"PATCH /allocations":                 `[]`,
	"DELETE /allocations":                "", "DELETE /allocations/{allocation}": "", "DELETE /chassis/{chassis}": "",
	"DELETE /nodes/{node}": "", "DELETE /nodes/{node}/allocation": "", "DELETE /nodes/{node}/maintenance": "",
	"DELETE /nodes/{node}/traits": "", "DELETE /nodes/{node}/traits/{trait}": "", "PUT /nodes/{node}/traits/{trait}": "",
}

// methodsOf asks which methods a path has.
func (w *world) methodsOf(t *testing.T, path string) []string {
	t.Helper()
	answer := w.send("", "", "TRACE", "/v1"+strings.NewReplacer("{", "", "}", "").Replace(path), "")
	if answer.Code != http.StatusMethodNotAllowed {
		t.Fatalf("TRACE %s: %d %s", path, answer.Code, answer.Body)
	}
	return strings.Split(answer.Header().Get("Allow"), ", ")
}

// namings are all requests that name a node or an allocation, with TWIN in the place of the name.
func (w *world) namings(t *testing.T) (ofNodes, ofAllocations []string) {
	t.Helper()
	twins := strings.NewReplacer("{node}", "TWIN", "{allocation}", "TWIN", "{trait}", "CUSTOM_A")
	for _, path := range baremetal.Paths {
		for _, method := range w.methodsOf(t, path) {
			body, known := bodies[method+" "+path]
			if method != http.MethodGet && !known {
				t.Errorf("%s %s: the test has no body", method, path)
			}
			line := method + " /v1" + twins.Replace(path) + " " + body
			switch {
			case strings.Contains(path, "{node}"):
				ofNodes = append(ofNodes, line, strings.Replace(line, "TWIN", "TWIN.json", 1))
			case strings.Contains(path, "{allocation}"):
				ofAllocations = append(ofAllocations, line, strings.Replace(line, "TWIN", "TWIN.json", 1))
			}
		}
	}
	ofNodes = append(
		ofNodes, "GET /v1/allocations?node=TWIN", "GET /v1/nodes?marker=TWIN", "GET /v1/nodes/detail?marker=TWIN",
		"GET /v1/nodes?marker=TWIN&sort_key=name", `POST /v1/allocations {"node":"TWIN"}`,
		`POST /v1/allocations {"node":"TWIN","name":"x","resource_class":"baremetal"}`,
		`POST /v1/allocations {"resource_class":"baremetal","candidate_nodes":["TWIN"]}`,
		`POST /v1/allocations?dry_run=true {"node":"TWIN"}`,
		`POST /v1/allocations?dry_run=true {"resource_class":"baremetal","candidate_nodes":["TWIN"]}`,
	)
	ofAllocations = append(
		ofAllocations, "GET /v1/allocations?marker=TWIN", "GET /v1/allocations?marker=TWIN&sort_key=name",
	)
	return ofNodes, ofAllocations
}

// TestHiddenIsMissing: every request that names a node or an allocation of another project, in whatever place, is
// answered as if it did not exist, byte for byte except for the name itself, and changes nothing.
func TestHiddenIsMissing(t *testing.T) {
	t.Parallel()
	w := aliceHas(t)
	before := w.Views.View().Sequence()
	ofNodes, ofAllocations := w.namings(t)
	compare := func(requests []string, twins [][2]string) {
		for _, who := range []string{"eve reader,member,manager", "eve reader", "eve manager", "eve member"} {
			for _, version := range []string{"latest", "1.90", "1.60"} {
				for _, request := range requests {
					for _, twin := range twins {
						w.sameAnswer(t, version, who, request, twin)
					}
				}
			}
		}
	}
	compare(ofNodes, nodeTwins)
	compare(ofAllocations, allocTwins)
	if after := w.Views.View().Sequence(); after != before {
		t.Errorf("eve's requests appended %d commits", after-before)
	}
}

var requestID = regexp.MustCompile(`req-[0-9a-f-]+`)

func (w *world) sameAnswer(t *testing.T, version, who, request string, twin [2]string) {
	t.Helper()
	var answers [2]string
	for i, name := range twin {
		fields := strings.SplitN(strings.ReplaceAll(request, "TWIN", name)+"  ", " ", 3)
		a := w.send(version, who, fields[0], fields[1], strings.TrimSpace(fields[2]))
		if a.Code < 400 {
			t.Errorf("%s at %s by %s: %d %s", strings.ReplaceAll(request, "TWIN", name), version, who, a.Code, a.Body)
		}
		text := fmt.Sprintf("%d\n%v\n%s", a.Code, a.Header(), a.Body)
		answers[i] = strings.ReplaceAll(requestID.ReplaceAllString(text, ""), name, "TWIN")
		for other := range 2 {
			answers[i] = strings.ReplaceAll(answers[i], []string{foreignNode, missingNode}[other], "UUID of a node")
		}
	}
	if answers[0] != answers[1] {
		t.Errorf("%s at %s by %s tells what there is:\n%s\nand what there is not:\n%s",
			request, version, who, answers[0], answers[1])
	}
}

// TestOneLookUp: no other file of the package looks nodes or allocations up.
func TestOneLookUp(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	ledgertest.OK(t, err)
	lookUp := regexp.MustCompile(`View\.(Node|NodeNamed|NodeAllocation|NodeAllocationNamed|Chassis|AllChassis)\b`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		ledgertest.OK(t, err)
		if found := lookUp.FindString(string(text)); (found != "") != (file == "visible.go") &&
			!strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s: %q; only visible.go looks things up", file, found)
		}
	}
}

// unread is a body that fails the test if it is read.
type unread struct {
	t       *testing.T
	request string
}

// Read implements io.Reader.
func (u unread) Read([]byte) (int, error) {
	u.t.Errorf("%s: the body is read before the policy is asked", u.request)
	return 0, fmt.Errorf("this body must not be read")
}

// TestPolicyBeforeBody: the body of a request is never read if the policy does not permit it to write.
func TestPolicyBeforeBody(t *testing.T) {
	t.Parallel()
	w := aliceHas(t)
	existing := strings.NewReplacer(
		"{node}", foreignNode, "{allocation}", foreignAlloc, "{chassis}", foreignNode, "{trait}", "CUSTOM_A",
	)
	for _, who := range []string{"eve reader", "eve nothing", "alice reader", ":p member"} {
		for request := range bodies {
			method, path, _ := strings.Cut(request, " ")
			target := "/v1" + existing.Replace(path)
			if who == ":p member" && path == "/allocations" {
				continue // members create their own
			}
			r, err := http.NewRequest(method, "http://example.com"+target, unread{t, who + ": " + request})
			ledgertest.OK(t, err)
			if answer := w.serve(r, "latest", who); answer.Code < 400 {
				t.Errorf("%s by %s: %d", request, who, answer.Code)
			}
		}
	}
}
