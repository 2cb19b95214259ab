package main_test

import (
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/allot-project/allot/api/auth/keystonetest"
	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// span is a span as a receiver of OTLP gets it.
type span struct {
	trace, id, parent, state string
	name                     string
	attributes               map[string]string
	began, ended             uint64
}

// receiver is a receiver of traces.
type receiver struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	spans []span
}

func receiveTraces(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	server := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(req.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &sent)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		r.t.Errorf("%s: %v", req.URL.Path, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, group := range sent.ResourceSpans {
		for _, scope := range group.ScopeSpans {
			for _, s := range scope.Spans {
				one := span{
					hex.EncodeToString(s.TraceId), hex.EncodeToString(s.SpanId), hex.EncodeToString(s.ParentSpanId), s.TraceState,
					s.Name, make(map[string]string), s.StartTimeUnixNano, s.EndTimeUnixNano,
				}
				for _, a := range s.Attributes {
					one.attributes[a.Key] = a.Value.GetStringValue()
				}
				r.spans = append(r.spans, one)
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(http.StatusOK)
}

// within returns what has come of a trace.
func (r *receiver) within(trace string) (list []span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.trace == trace {
			list = append(list, s)
		}
	}
	return list
}

// below tells which spans are below one: each name, and then what is below that.
func below(list []span, parent string) string {
	var names []string
	for _, s := range list {
		if s.parent == parent {
			names = append(names, s.name+below(list, s.id))
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "(" + strings.Join(names, ", ") + ")"
}

// eventually waits until a trace is a tree below a parent, with nothing beside it, and returns its spans by name.
func (r *receiver) eventually(trace, root, want string) map[string]span {
	r.t.Helper()
	var list []span
	ledgertest.WaitFor(r.t, want, func() bool {
		list = r.within(trace)
		return below(list, root) == want
	}, func() any { return list })
	found, ids := make(map[string]span), map[string]bool{root: true}
	for _, s := range list {
		found[s.name], ids[s.id] = s, true
	}
	for _, s := range list {
		if !ids[s.parent] || s.ended < s.began {
			r.t.Errorf("it is not connected, or ends before it begins: %+v", s)
		}
	}
	return found
}

// newTrace returns a traceparent with its trace and span.
func newTrace() (parent, trace, root string) {
	trace = strings.ReplaceAll(uuid.NewString(), "-", "")
	root = strings.ReplaceAll(uuid.NewString(), "-", "")[:16]
	return "00-" + trace + "-" + root + "-01", trace, root
}

// stages are the spans of an accepted command.
const stages = "(AllocateForConsumers(answer, append, decide, fold, queue))"

const allocationRoute = "PUT /allocations/{consumer_uuid}"

// allocateTraced allocates over HTTP, and returns the headers of the answer.
func allocateTraced(t *testing.T, s *server, headers map[string]string) http.Header {
	t.Helper()
	all := map[string]string{
		"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39", "Content-Type": "application/json",
	}
	maps.Copy(all, headers)
	resp, text, err := launchtest.Exchange("PUT", "http://"+s.HTTP+"/allocations/"+uuid.NewString(), allocation(), all)
	must(t, err)
	if resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.Status, text)
	}
	return resp.Header
}

// TestTraces: a request that comes with a traceparent is one connected trace,
// from the request to the stages of its command, over HTTP and over NATS; and the
// request id is on its spans, on the record and in the messages.
func TestTraces(t *testing.T) {
	t.Parallel()
	to := receiveTraces(t)
	s := launchUnguarded(t, "--trace-url", to.url, "--trace-ratio", "0", "--log-format", "json", "--log-level", "debug")
	s.makeProvider(100)
	t.Run("HTTP", func(t *testing.T) {
		parent, trace, root := newTrace()
		headers := allocateTraced(t, s.server, map[string]string{"traceparent": parent, "tracestate": "vendor=value"})
		found := to.eventually(trace, root, "("+allocationRoute+stages+")")
		request, command := found[allocationRoute], found["AllocateForConsumers"]
		if want := "00-" + trace + "-" + request.id + "-01"; headers.Get("Traceparent") != want || command.state != "vendor=value" {
			t.Errorf("the answer has traceparent %q, not %q, and the command %+v", headers.Get("Traceparent"), want, command)
		}
		id := headers.Get("X-Openstack-Request-Id")
		for _, one := range []span{request, command} {
			if got := one.attributes["allot.request_id"]; got == "" || got != id {
				t.Errorf("%s has request id %q, not %q", one.name, got, id)
			}
		}
		says(t, s.Must(200, "GET", "/audit/records?limit=1000", ""), id)
		for _, want := range []string{`"request_id":"` + id + `"`, `"trace_id":"` + trace + `"`} {
			s.waitLog(want)
		}
	})
	t.Run("malformed", func(t *testing.T) {
		parent, trace, _ := newTrace()
		got := allocateTraced(t, s.server, map[string]string{"traceparent": parent + "-"}).Get("Traceparent")
		if got != "" || len(to.within(trace)) > 0 {
			t.Errorf("it is answered with traceparent %q", got)
		}
	})
	nc := s.connect()
	const overNATS = "(command AllocateForConsumers" + stages + ")"
	t.Run("NATS", func(t *testing.T) {
		parent, trace, root := newTrace()
		msg := nats.NewMsg("allot.command.AllocateForConsumers")
		msg.Data = []byte(fill(bodies()["allot.command.AllocateForConsumers"], uuid.NewString(), "p"))
		msg.Header = nats.Header{
			"traceparent": {parent}, "Allot-Command-Id": {uuid.NewString()}, "Allot-Request-Id": {"asked over NATS"},
		}
		reply, err := nc.RequestMsg(msg, hang)
		must(t, err)
		found := to.eventually(trace, root, overNATS)
		want := "00-" + trace + "-" + found["command AllocateForConsumers"].id + "-01"
		if reply.Header.Get("traceparent") != want || !strings.Contains(string(reply.Data), `"sequence"`) {
			t.Errorf("the reply has traceparent %q, not %q: %s", reply.Header.Get("traceparent"), want, reply.Data)
		}
		for _, one := range []string{"command AllocateForConsumers", "AllocateForConsumers"} {
			if got := found[one].attributes["allot.request_id"]; got != "asked over NATS" {
				t.Errorf("%s has request id %q", one, got)
			}
		}
	})
	t.Run("the Go client", func(t *testing.T) {
		parent, trace, root := newTrace()
		ctx := commands.WithTrace(t.Context(), &commands.Trace{Parent: parent})
		id, err := ledger.ParseUUID(anyProvider)
		must(t, err)
		command := commandstest.Allocate(commandstest.NewID(), id, "VCPU", 1)
		_, err = client.New(nc, client.Options{}).Submit(ctx, command)
		must(t, err)
		to.eventually(trace, root, overNATS)
	})
}

// TestTraceToKeystone: the question to Keystone whose a token is belongs to the
// trace of the request that has the token.
func TestTraceToKeystone(t *testing.T) {
	t.Parallel()
	to := receiveTraces(t)
	keystone := keystonetest.Start(t, keystoneAllot,
		keystonetest.User{Name: "admin", ID: "admin", Project: "service", Roles: []string{"admin"}})
	target := ledgertest.Must(url.Parse(strings.TrimSuffix(keystone.URL, "/v3")))
	asked := make(chan string, 64) // the traceparents of validations
	pass := httputil.NewSingleHostReverseProxy(target)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/v3/auth/tokens" {
			asked <- r.Header.Get("Traceparent")
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	s := launch(t, t.TempDir(), "--trace-url", to.url, "--trace-ratio", "0", "--keystone-url", front.URL+"/v3")
	parent, trace, root := newTrace()
	status, _ := s.send("GET", "/resource_providers", "",
		map[string]string{"X-Auth-Token": keystone.Token("admin"), "Traceparent": parent})
	const route = "GET /resource_providers"
	span := to.eventually(trace, root, "("+route+")")[route].id
	if got, want := <-asked, "00-"+trace+"-"+span+"-01"; status != http.StatusOK || got != want {
		t.Errorf("%d; Keystone was asked with %q, not %q", status, got, want)
	}
}
