package main_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIronicTranscripts runs the probes that recorded a real Ironic's answers against the binary, and compares answer
// by answer. Differences must be explained here and in docs/compatibility.md. The probes are not part of the project:
// without them the test is skipped.
func TestIronicTranscripts(t *testing.T) {
	folder, err := filepath.Abs("../../../shared/conformance/ironic")
	must(t, err)
	if _, err := os.Stat(folder); err != nil {
		t.Skip("skipped: no Ironic transcripts beside the project")
	}
	for probe, golden := range map[string]string{"probe.py": "golden.txt", "probe2.py": "golden2.txt"} {
		t.Run(probe, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "answers.txt")
			run := exec.Command("/usr/bin/python3", filepath.Join(folder, probe), ironicAtRoot(t), out)
			run.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			output(t, run)
			ironic, allot := readTranscript(t, filepath.Join(folder, golden)), readTranscript(t, out)
			if len(ironic) != len(allot) {
				t.Fatalf("Ironic's transcript has %d exchanges, ours %d", len(ironic), len(allot))
			}
			for n, i := range ironic {
				known := slices.ContainsFunc(explained, func(e explanation) bool { return e.when(i, allot[n]) })
				if difference := differenceOf(i, allot[n]); difference != "" && !known {
					t.Errorf("%s\n%s", i.request, difference)
				}
			}
		})
	}
}

// ironicAtRoot runs the binary and serves its bare metal API at the root of a host, where the probes expect it.
func ironicAtRoot(t *testing.T) string {
	t.Helper()
	var target atomic.Pointer[url.URL] // known once the binary serves, which must know the proxy's address
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target.Load())
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(proxy.Close)
	s := launch(t, t.TempDir(), "--baremetal-url", proxy.URL)
	metal, err := url.Parse("http://" + s.HTTP + "/baremetal")
	must(t, err)
	target.Store(metal)
	return proxy.URL
}

// exchange is one request of a transcript, and its answer.
type exchange struct {
	request string
	status  int
	headers map[string]string
	body    string
}

var (
	headerPattern   = regexp.MustCompile(`'([^']+)': '([^']*)'`)
	uuidInText      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	requestIDInText = regexp.MustCompile(`'X-Openstack-Request-Id': 'req-[^']*'`)
	timeInText      = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00`)
	hostInText      = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
)

// readTranscript reads what a probe wrote. It ignores how often the probe polled,
// and in which order simultaneous requests were answered.
func readTranscript(t *testing.T, path string) []exchange {
	t.Helper()
	data := read(t, path)
	var list []exchange
	names, count := make(map[string]string), 0
	if made := undrivenPattern.FindStringSubmatch(data); made != nil {
		names[made[1]] = "UNDRIVEN"
	}
	for _, block := range strings.Split(data, "#### ")[1:] {
		lines := strings.SplitN(block, "\n", 4)
		if lines[0] == "poll" || strings.Contains(lines[1], "race") {
			continue
		}
		text := requestIDInText.ReplaceAllString(strings.Join(lines[1:], "\n"), "")
		text = timeInText.ReplaceAllString(hostInText.ReplaceAllString(text, "HOST"), "TIME")
		text = uuidInText.ReplaceAllStringFunc(text, func(id string) string {
			if _, known := names[id]; !known {
				names[id] = fmt.Sprintf("UUID%d", count)
				count++
			}
			return names[id]
		})
		lines = strings.SplitN(text, "\n", 3)
		e := exchange{request: lines[0], headers: make(map[string]string)}
		if _, err := fmt.Sscanf(lines[1], "-> %d", &e.status); err != nil {
			t.Fatalf("%s: %v", lines[1], err)
		}
		for _, header := range headerPattern.FindAllStringSubmatch(lines[1], -1) {
			e.headers[header[1]] = header[2]
		}
		e.body, _, _ = strings.Cut(lines[2], "\n")
		list = append(list, e)
	}
	return list
}

// faultOf returns the text of an error.
func faultOf(body string) (string, bool) {
	var outer struct {
		Message string `json:"error_message"`
	}
	var inner struct {
		FaultString string `json:"faultstring"`
		Description string `json:"description"`
	}
	is := json.Unmarshal([]byte(body), &outer) == nil && json.Unmarshal([]byte(outer.Message), &inner) == nil
	return inner.FaultString + inner.Description, is
}

// explanation is why an answer may differ, and whether it does so for that reason.
type explanation struct {
	why  string
	when func(ironic, allot exchange) bool
}

// explained are all differences; see docs/compatibility.md.
var explained = []explanation{
	{"the standard version header is looked at, as newer Ironics do", func(i, _ exchange) bool {
		return strings.Contains(i.request, "OpenStack-API-Version")
	}},
	{"malformed JSON is the client's fault: 400 instead of 500", func(i, a exchange) bool {
		return strings.Contains(i.request, "body={bad") && i.status == 500 && a.status == 400
	}},
	{"a mismatch in a backfill is a conflict: 409 instead of 500", func(i, a exchange) bool {
		ironic, _ := faultOf(i.body)
		allot, _ := faultOf(a.body)
		same := withoutPythonLists(ironic) == withoutPythonLists(allot)
		return strings.Contains(i.request, `"node": `) && i.status == 500 && a.status == 409 && same
	}},
	{"there are no drivers to be checked: any is recorded", func(i, a exchange) bool {
		return strings.Contains(i.request, `"driver": "nope"`) && a.status == 201
	}},
	{"allocation_uuid can be listed, where Ironic answers 500", func(i, a exchange) bool {
		return i.status == 500 && a.status == 200 && strings.Contains(i.request, "fields=uuid,name,allocation_uuid")
	}},
	{"the first manage declares the power off", func(i, a exchange) bool {
		return strings.Contains(i.body, `"power_state": null`) && strings.Contains(a.body, `"power_state":"power off"`)
	}},
	{"fields of newer Ironics can be patched", func(i, a exchange) bool {
		ironic, _ := faultOf(i.body)
		allot, _ := faultOf(a.body)
		return i.status == a.status && strings.HasPrefix(ironic, "Cannot patch") &&
			strings.NewReplacer("firmware_interface, ", "", "parent_node, ", "").Replace(allot) == ironic
	}},
	{"the filters are kept in next", func(i, a exchange) bool {
		return strings.Contains(i.request, "state=error") && strings.Contains(a.body, "state=error")
	}},
}

var pythonList = regexp.MustCompile(`TraitList\([^)]*\)|List of traits \[[^\]]*\]`)

// withoutPythonLists hides Python's notation of objects.
func withoutPythonLists(text string) string {
	text = strings.ReplaceAll(
		text, "List of traits TraitList(created_at=<?>,objects=[Trait,Trait],updated_at=<?>)", "List of traits [...]",
	)
	return pythonList.ReplaceAllString(text, "List of traits [...]")
}

// ownWords are the requests whose errors have the same status and another text.
var ownWords = regexp.MustCompile(`^PATCH .*"path": "(/extra/zz|name)"`)

// differenceOf compares two answers.
func differenceOf(i, a exchange) string {
	if i.status != a.status {
		return fmt.Sprintf("status %d, Ironic %d: %s, Ironic %s", a.status, i.status, a.body, i.body)
	}
	for _, name := range []string{"Location", "Content-Type"} {
		if i.headers[name] != a.headers[name] {
			return fmt.Sprintf("%s %q, Ironic %q", name, a.headers[name], i.headers[name])
		}
	}
	ironicFault, isFault := faultOf(i.body)
	if isFault {
		fault, isFault := faultOf(a.body)
		if !isFault {
			return "no error in Ironic's format: " + a.body
		}
		same := maximum.ReplaceAllString(ironicFault, "1.MAX]") == maximum.ReplaceAllString(fault, "1.MAX]")
		if !same && ironicFault != "" && !ownWords.MatchString(i.request) {
			return fmt.Sprintf("error %q, Ironic %q", fault, ironicFault)
		}
		return ""
	}
	if i.body == "" && a.body == "" {
		return ""
	}
	var want, got any
	if err := json.Unmarshal([]byte(withoutPythonLists(i.body)), &want); err != nil {
		return err.Error()
	}
	if err := json.Unmarshal([]byte(withoutPythonLists(a.body)), &got); err != nil {
		return err.Error()
	}
	return cmp.Diff(comparable(want), comparable(got))
}

var maximum = regexp.MustCompile(`1\.\d+\]`)

// hardware are the fields that Ironic fills in from drivers and machines, and versions and services, which differ.
var hardware = []string{
	"bios_interface", "boot_interface", "console_interface", "deploy_interface", "inspect_interface",
	"management_interface",
	"network_interface", "power_interface", "raid_interface", "rescue_interface", "storage_interface", "vendor_interface",
	"conductor", "reservation", "driver_internal_info", "raid_config",
	"version", "description", "ports", "drivers", "lookup", "heartbeat", "conductors", "deploy_templates", "events",
	"portgroups", "volume", "shards",
}

// undriven is the node that Ironic does not create, because its driver is missing.
const undriven = "n9"

var undrivenPattern = regexp.MustCompile(`-> 201 .*\n\{"uuid":"([^"]+)".*"name":"` + undriven)

// comparable removes what cannot be the same.
func comparable(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range hardware {
			delete(value, key)
		}
		for key, v := range value {
			value[key] = comparable(v)
		}
		if links, isList := value["links"].([]any); isList && len(links) == 2 {
			if second, isLink := links[1].(map[string]any); isLink && second["rel"] == "describedby" {
				value["links"] = links[:1]
			}
		}
	case []any:
		value = slices.DeleteFunc(value, func(v any) bool {
			node, isObject := v.(map[string]any)
			return isObject && node["name"] == undriven
		})
		for i, v := range value {
			value[i] = comparable(v)
		}
		return value
	}
	return value
}
