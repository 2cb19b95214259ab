package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/memlog"
)

// questions are the handlers of a ledger, as over HTTP but without the network.
type questions struct {
	*commandstest.Ledger
	handlers map[string]http.Handler
}

// questionsTo are all questions to a ledger, of everybody.
func questionsTo(l *commandstest.Ledger) *audit.Questions {
	return &audit.Questions{
		Views: l.Views, Log: l.Log, Notary: &present.Notary{}, Present: l.Writer, Snapshots: l.Snapshots,
		Authorize: func(http.ResponseWriter, *http.Request) bool { return true }, Logger: slog.New(slog.DiscardHandler),
	}
}

func ask(t *testing.T, l *commandstest.Ledger, store rejected.Store) *questions {
	t.Helper()
	q := questionsTo(l)
	q.Rejected = store
	return &questions{l, q.Handlers()}
}

// inMemory are a new ledger whose log is in memory, and what is asked of it.
func inMemory(t *testing.T) (*commandstest.Ledger, *questions) {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	return l, ask(t, l, nil)
}

// get asks a question; into is nil if no answer is expected.
func (q *questions) get(t *testing.T, status int, target string, into any) {
	t.Helper()
	q.do(t, status, httptest.NewRequest(http.MethodGet, target, nil), into)
}

func (q *questions) post(t *testing.T, status int, target, body string, into any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	q.do(t, status, r, into)
}

func (q *questions) do(t *testing.T, status int, r *http.Request, into any) {
	t.Helper()
	w := httptest.NewRecorder()
	q.handlers[r.URL.Path].ServeHTTP(w, r)
	if w.Code != status {
		t.Fatalf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	if into != nil {
		if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(into); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
	}
}

// TestWhy: the answer has the records since a consumer held nothing of a
// provider, and those that shaped the provider's inventories, and leaves out
// other changes of both.
func TestWhy(t *testing.T) {
	l, q := inMemory(t)
	provider := l.Provider(
		t, "a", commands.Inventory{Class: "VCPU", Total: 1000}, commands.Inventory{Class: "DISK_GB", Total: 1000},
	)
	other := l.Provider(t, "b", commands.Inventory{Class: "VCPU", Total: 1000})
	consumer := commandstest.NewID()
	set := func(provider ledger.UUID, amount int64) string {
		c := commandstest.Allocate(consumer, provider, "VCPU", amount)
		c.Allocations[0].AnyGeneration = true
		return l.Accept(t, c).String()
	}
	set(provider, 5)
	set(other, 5)
	first := set(provider, 7)
	l.Accept(t, &commands.CreateInventory{Provider: provider, Inventory: commands.Inventory{Class: "MEMORY_MB", Total: 5}})
	total := l.Accept(t, &commands.UpdateInventory{Provider: provider, Inventory: commands.Inventory{Class: "VCPU", Total: 900}}).
		String()
	set(provider, 7) // nothing new
	last := set(provider, 8)
	for range 250 {
		l.Accept(t, commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1))
	}
	target := fmt.Sprintf("/audit/why?consumer=%s&provider=%s", consumer, provider)
	var why audit.Why
	q.get(t, 200, target, &why)
	if len(why.Changes) != 2 || why.Changes[0].Address != last || why.Changes[1].Address != first ||
		why.Changes[1].Before["VCPU"] != 0 ||
		why.Holds["VCPU"] != 8 {
		t.Errorf("%+v", why)
	}
	if len(why.Inventories) != 1 || why.Inventories[0].Address != total || why.Inventories[0].After.Total != 900 ||
		why.Incomplete {
		t.Errorf("%+v", why.Inventories)
	}
	who := "consumer " + consumer.String()[:8]
	for want, got := range map[string]string{
		who + " (project project) holds 8 VCPU on a":                        why.Text,
		"test resized " + who + " (project project) on a: 8 VCPU, before 7": why.Changes[0].Text,
		"test set the inventory of a: 900 VCPU, before 1000 VCPU":           why.Inventories[0].Text,
	} {
		if got != want {
			t.Errorf("%q is told; want %q", got, want)
		}
	}
	gone := l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer}).String()
	why = audit.Why{}
	q.get(t, 200, target, &why)
	if len(why.Holds) != 0 || len(why.Changes) != 1 || why.Changes[0].Address != gone {
		t.Errorf("%+v", why)
	}
	q.get(t, 404, fmt.Sprintf("/audit/why?consumer=%s&provider=%s", commandstest.NewID(), provider), nil)
	for _, bad := range []string{"", "?consumer=x&provider=y", "?consumer=" + consumer.String(), "?colour=red"} {
		q.get(t, 400, "/audit/why"+bad, nil)
	}
}

// TestWhyOfNode: allocations of a node's provider decide how much of it is
// reserved, so a command about consumers may have changed its inventory last.
func TestWhyOfNode(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	node, consumer, driver, class := commandstest.NewID(), commandstest.NewID(), "fake", "a"
	l.Accept(t, &commands.SetNodeProviders{On: true, Limit: 1})
	l.Accept(t, &commands.CreateNode{
		Node: node, NodeFields: commands.NodeFields{Driver: &driver, ResourceClass: &class},
		ProvisionState: ledger.NodeAvailable,
	})
	l.Accept(t, &commands.SetNodePowerState{Node: node, Target: "power off"})
	l.Accept(t, commandstest.Allocate(consumer, node, "CUSTOM_A", 1))
	l.Accept(t, &commands.SetNodeMaintenance{Node: node, Maintenance: true})
	released := l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer}).String()
	var why audit.Why
	ask(t, l, nil).get(t, 200, fmt.Sprintf("/audit/why?consumer=%s&provider=%s", consumer, node), &why)
	if len(why.Inventories) != 1 || why.Inventories[0].Address != released || why.Inventories[0].After.Reserved != 1 {
		t.Errorf("%+v; want the inventory as %s left it", why.Inventories, released)
	}
}

// world is a ledger with some providers, and a random command about them.
type world struct {
	*commandstest.Ledger
	random    *rand.Rand
	providers []ledger.UUID
	consumers []ledger.UUID
}

func newWorld(t *testing.T, log ledger.Log, seed uint64) *world {
	w := &world{Ledger: commandstest.Start(t, t.TempDir(), log), random: rand.New(rand.NewPCG(seed, 1))}
	for i := range 3 {
		w.providers = append(w.providers, w.Provider(t, fmt.Sprint("p", i), commands.Inventory{Class: "VCPU", Total: 20}))
	}
	for range 8 {
		w.consumers = append(w.consumers, commandstest.NewID())
	}
	return w
}

func (w *world) command() commands.Command {
	provider, consumer := w.providers[w.random.IntN(3)], w.consumers[w.random.IntN(8)]
	switch w.random.IntN(8) {
	case 0:
		return &commands.ReleaseConsumer{Consumer: consumer}
	case 1:
		return &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", w.random.IntN(5))}
	case 2:
		return &commands.RenameProvider{Provider: provider, Name: fmt.Sprint("p", w.random.IntN(5))}
	case 3:
		return &commands.Batch{Commands: []commands.Command{
			&commands.CreateTrait{Name: fmt.Sprint("CUSTOM_B", w.random.IntN(5))}, &commands.ReleaseConsumer{Consumer: consumer},
		}}
	default:
		c := commandstest.Allocate(consumer, provider, "VCPU", 1+w.random.Int64N(9))
		c.Allocations[0].AnyGeneration = w.random.IntN(3) > 0
		return c
	}
}

// TestRejections: every rejected command is listed, the newest first, also one that
// shared a commit with others.
func TestRejections(t *testing.T) {
	dir := t.TempDir()
	log, ns := commandstest.JetStream(t, dir, true)
	nc, err := ns.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	store, err := jetstream.OpenRejected(t.Context(), nc, jetstream.RejectedConfig{MaxBytes: 8 << 20, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, log, 5)
	var list []commands.Command
	for range 600 {
		list = append(list, w.command())
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			for _, c := range list[i*30 : (i+1)*30] {
				w.Submit(t, c)
			}
		})
	}
	group.Wait()
	keeper := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	all := w.Rejected()
	inside := 0
	for _, r := range all {
		keeper.Keep(r)
		if r.Place.Index > 0 {
			inside++
		}
	}
	keeper.Stop()
	if len(all) < 50 || inside == 0 || keeper.Dropped() > 0 {
		t.Fatalf("%d rejected, %d of them behind others of their commit, %d dropped", len(all), inside, keeper.Dropped())
	}
	q := ask(t, w.Ledger, store)
	var kept audit.Rejections
	q.get(t, 200, "/audit/rejections?limit=1000", &kept)
	if len(kept.Rejections) != len(all) || kept.Rejections[0].CommandID != all[len(all)-1].ID {
		t.Fatalf("%d kept of %d", len(kept.Rejections), len(all))
	}
	var few audit.Rejections
	q.get(t, 200, "/audit/rejections?limit=3&code=capacity_exceeded&actor=test&command=AllocateForConsumers", &few)
	if len(few.Rejections) != 3 || few.Rejections[0].Rejection.Code != demand.CodeCapacityExceeded ||
		!strings.HasPrefix(few.Rejections[0].Text, "test could not allocate for consumers: ") || strings.Contains(few.Rejections[0].Text, "-4") {
		t.Errorf("%+v", few)
	}
	for _, bad := range []string{"rejections?limit=0", "rejections?limit=1001", "rejections?before=noon"} {
		q.get(t, 400, "/audit/"+bad, nil)
	}
}

// TestWhatIf: a what-if gives the same outcome as carrying the commands out, and
// changes nothing.
func TestWhatIf(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 9)
	q := ask(t, w.Ledger, nil)
	for range 60 {
		w.Submit(t, w.command())
	}
	var asking []string
	for _, id := range w.providers {
		asking = append(asking, fmt.Sprintf(`{"query":"Provider","body":{"provider":%q}}`, id))
	}
	for _, id := range w.consumers {
		asking = append(asking, fmt.Sprintf(`{"query":"Allocations","body":{"consumer":%q}}`, id))
	}
	asking = append(
		asking, `{"query":"Usages","body":{"project":"project"}}`,
		`{"query":"Candidates","body":{"groups":[{"resources":{"VCPU":3}}]}}`,
		`{"query":"Capacity","body":{"groups":[{"resources":{"VCPU":3}}],"by":"aggregate"}}`,
	)
	questions := `"questions":[` + strings.Join(asking, ",") + `]`
	times := func(key string, _ any) bool { return key == "changed" || key == "since" }
	for round := range 30 {
		from := w.Views.View().Sequence()
		var list []commands.Command
		var steps []string
		for range 1 + w.random.IntN(6) {
			c := w.command()
			body, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, c)
			steps = append(steps, fmt.Sprintf(`{"command":%q,"body":%s}`, commands.NameOf(c), body))
		}
		request := `{"steps":[` + strings.Join(steps, ",") + `],` + questions
		var would, past audit.WouldBe
		q.post(t, 200, "/audit/what-if", request+"}", &would)
		if w.Views.View().Sequence() != from || would.Sequence != from {
			t.Fatal("a question has changed the ledger")
		}
		for i, c := range list {
			outcome := w.Submit(t, c)
			if fmt.Sprint(outcome.Rejection) != fmt.Sprint(would.Steps[i].Rejection) {
				t.Fatalf("round %d step %d: %v, and would be %v", round, i, outcome.Rejection, would.Steps[i].Rejection)
			}
		}
		var is audit.WouldBe
		q.post(t, 200, "/audit/what-if", `{`+questions+`}`, &is)
		q.post(t, 200, "/audit/what-if", fmt.Sprintf(`%s,"at":"%d"}`, request, from), &past)
		ignore := cmp.FilterPath(func(p cmp.Path) bool {
			at, ok := p.Last().(cmp.MapIndex)
			return ok && times(at.Key().String(), nil)
		}, cmp.Ignore())
		if diff := cmp.Diff(would.Answers, is.Answers, ignore); diff != "" {
			t.Fatalf("round %d: would be, and is\n%s", round, diff)
		}
		if diff := cmp.Diff(would, past, ignore); diff != "" {
			t.Fatalf("round %d: asked before, and of the past\n%s", round, diff)
		}
	}
	var gone audit.WouldBe
	q.post(
		t, 200, "/audit/what-if",
		fmt.Sprintf(`{"steps":[{"command":"RemoveProvider","body":{"provider":%q}}],%s}`, w.providers[0], questions), &gone,
	)
	if gone.Answers[0].Result != nil || gone.Steps[0].Rejection != nil ||
		strings.Contains(fmt.Sprint(gone.Answers), w.providers[0].String()) {
		t.Errorf("it is not gone: %+v", gone.Answers)
	}
	for _, bad := range []string{
		"", "{", "[]", `{"steps":[{"command":"Nothing","body":{}}]}`,
		`{"steps":[{"command":"CreateTrait","body":{"colour":1}}]}`,
		`{"questions":[{"query":"Commits","body":{}}]}`, `{"questions":[{"query":"Usages","body":{"at":"3","project":"p"}}]}`,
		`{"at":"99999"}`, `{"at":"tomorrow"}`, `{"steps":[]} {}`, `{"steps":[{"command":"RemoveProvider"}]}`,
	} {
		q.post(t, 400, "/audit/what-if", bad, nil)
	}
	q.get(t, 405, "/audit/what-if", nil)
}

// TestEveryQuestion: every path refuses other methods than its own, and a GET
// refuses parameters that are unknown, repeated or empty.
func TestEveryQuestion(t *testing.T) {
	q := ask(t, commandstest.Start(t, t.TempDir(), &memlog.Log{}), nil)
	if len(audit.Paths) != len(q.handlers) {
		t.Errorf("%d paths, and %d handlers", len(audit.Paths), len(q.handlers))
	}
	for _, route := range audit.Paths {
		method, path, _ := strings.Cut(route, " ")
		path, _, _ = strings.Cut(path, "{")
		w := httptest.NewRecorder()
		q.handlers[path].ServeHTTP(w, httptest.NewRequest(http.MethodDelete, path, nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != method {
			t.Errorf("DELETE %s: %d, Allow: %q", path, w.Code, w.Header().Get("Allow"))
		}
		if method != http.MethodGet {
			continue
		}
		for _, bad := range []string{"colour=red", "at=1&at=2&from=1&from=2", "at=&from=", "%zz"} {
			w := httptest.NewRecorder()
			q.handlers[path].ServeHTTP(w, httptest.NewRequest(method, path+"?"+bad, nil))
			if w.Code != http.StatusBadRequest || strings.TrimSpace(w.Body.String()) == "" {
				t.Errorf("%s?%s: %d %s", route, bad, w.Code, w.Body)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("%s may be kept by caches: %q", route, got)
			}
		}
	}
}

// TestWhatIfOfAFollower: a server without a writer answers like one with a
// writer.
func TestWhatIfOfAFollower(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	l.Provider(t, "a", commands.Inventory{Class: "VCPU", Total: 8})
	const body = `{"steps":[{"command":"CreateTrait","body":{"name":"CUSTOM_A"}}],"questions":[{"query":"Provider","body":{"name":"a"}}]}`
	var told [2]audit.WouldBe
	for i, present := range []audit.StateSource{l.Writer, nil} {
		q := questionsTo(l)
		q.Present = present
		(&questions{l, q.Handlers()}).post(t, http.StatusOK, "/audit/what-if", body, &told[i])
	}
	if told[0].Sequence != l.Views.View().Sequence() || len(told[0].Steps) != 1 || told[0].Answers[0].Result == nil ||
		!cmp.Equal(told[0], told[1]) {
		t.Errorf("%+v, %+v", told[0], told[1])
	}
}

// TestCommits: the answer has the commits of the log as they are, from a sequence on,
// up to a limit or the end of the log; together they are the log.
func TestCommits(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for i := range 30 {
		l.Provider(t, fmt.Sprint("host-", i))
	}
	q := ask(t, l, nil)
	text := func(status int, target string) string {
		t.Helper()
		w := httptest.NewRecorder()
		q.handlers["/audit/commits"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != status {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		return w.Body.String()
	}
	last := l.Views.View().Sequence()
	for _, one := range []struct {
		query       string
		first, last uint64
	}{
		{"", 1, last},
		{"?from=1&limit=1", 1, 1},
		{"?from=5&limit=7", 5, 11},
		{fmt.Sprintf("?from=%d&limit=100000", last), last, last},
		{fmt.Sprintf("?from=%d", last+1), last + 1, last}, // nothing
	} {
		next := one.first
		for line := range strings.Lines(text(http.StatusOK, "/audit/commits"+one.query)) {
			var got audit.Commit
			if err := json.Unmarshal([]byte(line), &got); err != nil {
				t.Fatal(err)
			}
			var want []byte
			err := l.Log.Read(t.Context(), next, next, func(e ledger.Entry) error { want = slices.Clone(e.Data); return nil })
			if err != nil || got.Sequence != next || !bytes.Equal(got.Data, want) || got.Digest != ledger.DigestOf(want) {
				t.Errorf("%s: %d is %d with the digest %.8s: %v", one.query, next, got.Sequence, got.Digest, err)
			}
			next++
		}
		if next != one.last+1 {
			t.Errorf("%q ends before %d, and should end with %d", one.query, next, one.last)
		}
	}
	for _, query := range []string{"?from=0", "?limit=0", "?limit=100001", "?from=x", "?at=3", "?from=1&from=2"} {
		text(http.StatusBadRequest, "/audit/commits"+query)
	}
}
