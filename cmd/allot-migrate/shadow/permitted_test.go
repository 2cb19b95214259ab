package shadow

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// naming is a body of POST /allocations that names so many consumers, with generations, of more
// bytes each than it is padded by.
func naming(number, padded int) string {
	var b strings.Builder
	for i := range number {
		fmt.Fprintf(&b, `, "%08d-0000-4000-8000-000000000000": {"allocations": {"%s": {"resources": {"VCPU": 1}}},
			"project_id": "p", "user_id": "u", "consumer_generation": 7%s}`, i, host, strings.Repeat(" ", padded))
	}
	return "{" + b.String()[1:] + "}"
}

// asked are the proxy's own requests to a side, beside those for its versions.
func asked(of *service) (all []string) {
	for _, request := range of.requests() {
		if request != "GET /" && !strings.HasPrefix(request, "POST /allocations") {
			all = append(all, request)
		}
	}
	return all
}

// TestRefusedUnread: a leader that refuses a body without reading it, and ends the connection,
// has answered: the client gets the answer, and nothing is looked at.
func TestRefusedUnread(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	placement.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		_, err = io.WriteString(connection, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		if tcp, is := connection.(*net.TCPConn); is && err == nil {
			err = tcp.SetLinger(0) // what was not read resets the connection
		}
		if err != nil || connection.Close() != nil {
			t.Error(err)
		}
		return true
	}
	s, clients := between(t, Placement, placement, allot)
	ledgertest.WaitFor(t, "a comparison", settledQueue(s))
	for range 3 { // which of the two ends first, the writing or the reading, is a matter of luck
		wants(t, http.StatusUnauthorized, "POST", clients.URL+"/allocations", naming(500, 4<<10))
	}
	if missing, unsure := later(s); missing+unsure > 0 {
		t.Errorf("%d things are missed, and %d looked at later", missing, unsure)
	}
}

// TestForbidden: a write that the leader has not permitted costs one request to the follower,
// however many consumers it names.
func TestForbidden(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	for _, side := range []*service{placement, allot} {
		side.refuses(http.StatusForbidden, func(r *http.Request) bool { return r.Method == http.MethodPost })
	}
	s, clients := between(t, Placement, placement, allot)
	ledgertest.WaitFor(t, "a comparison", settledQueue(s))
	wants(t, http.StatusForbidden, "POST", clients.URL+"/allocations", naming(100, 0))
	ledgertest.WaitFor(t, "the rehearsal", func() bool { return s.Status().Compared["refused"]["same"] == 1 })
	if got := slices.Concat(asked(placement), asked(allot)); len(got) > 0 {
		t.Errorf("%d requests, such as %s", len(got), got[0])
	}
}

// TestNamesTooMuch: a body that names more than the proxy can look after reaches neither side.
func TestNamesTooMuch(t *testing.T) {
	t.Parallel()
	placement, allot := newService(t), newService(t)
	_, clients := between(t, Placement, placement, allot)
	answer, text := ask(t, "POST", clients.URL+"/allocations", naming(mostThings, 0), nil) // and a host
	if answer.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(text, "2001 consumers and providers") {
		t.Errorf("%s %s", answer.Status, text)
	}
	untouched(t, placement, allot)
}

// TestFormerGenerations: a generation of the former leader is replaced once the leader has
// refused it as one, and not for a client that the leader refuses.
func TestFormerGenerations(t *testing.T) {
	t.Parallel()
	for refusal, want := range map[int]int{http.StatusUnauthorized: 0, http.StatusConflict: 2} {
		t.Run(http.StatusText(refusal), func(t *testing.T) {
			t.Parallel()
			placement, allot := newService(t), newService(t)
			tells := func(generation int) func(http.ResponseWriter, *http.Request) bool {
				return func(w http.ResponseWriter, r *http.Request) bool {
					body, _ := io.ReadAll(r.Body) // the service says what it misses
					switch {
					case !strings.HasPrefix(r.URL.Path, "/allocations/"):
						return false
					case r.Method == http.MethodGet:
						_, _ = fmt.Fprintf(w, `{"allocations": {"%s": {}}, "consumer_generation": %d}`, host, generation)
					case strings.Contains(string(body), fmt.Sprint(generation)):
						w.WriteHeader(http.StatusNoContent)
					default:
						http.Error(w, conflictCode, refusal)
					}
					return true
				}
			}
			placement.before, allot.before = tells(5), tells(77)
			s, clients := between(t, Allot, placement, allot)
			ledgertest.WaitFor(t, "a comparison", settledQueue(s))
			s.lastAnswers.tell(resource(kindConsumer, guest), Placement, "5")
			answer, _ := ask(t, "PUT", clients.URL+"/allocations/"+guest, `{"allocations": {}, "consumer_generation": 5}`, nil)
			if accepted := answer.StatusCode == http.StatusNoContent; accepted != (refusal == http.StatusConflict) {
				t.Error(answer.Status)
			}
			reads := 0
			for _, request := range slices.Concat(placement.requests(), allot.requests()) {
				if request == "GET /allocations/"+guest {
					reads++
				}
			}
			if reads < want || want == 0 && reads > 0 {
				t.Errorf("%d reads of generations, want %d", reads, want)
			}
		})
	}
}
