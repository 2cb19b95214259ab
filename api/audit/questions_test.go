package audit_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
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
	"github.com/allot-project/allot/api/rest/resttest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
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

func ask(l *commandstest.Ledger, store rejected.Store) *questions {
	q := questionsTo(l)
	q.Rejected = store
	return &questions{l, q.Handlers()}
}

// inMemory are a new ledger whose log is in memory, and what is asked of it.
func inMemory(t *testing.T) (*commandstest.Ledger, *questions) {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	return l, ask(l, nil)
}

// ofHistory are what is asked of a ledger whose log has some commits.
func ofHistory(t *testing.T, commits []*ledger.Commit) *questions {
	t.Helper()
	log := &memlog.Log{}
	ledgertest.AppendCommits(t, log, commits)
	return ask(commandstest.Start(t, t.TempDir(), log), nil)
}

// TestTranscripts plays the transcripts in testdata, in a cloud in which some projects have names.
func TestTranscripts(t *testing.T) {
	resttest.Play(t, func(t *testing.T, title string) *resttest.World {
		var ago time.Duration
		if title == "consumption_refused" {
			ago = 100 * 24 * time.Hour
		}
		l := commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
			o.Now = func() time.Time { return time.Now().Add(-ago) }
		})
		asked := questionsTo(l)
		if strings.Contains(title, "names of projects") {
			asked.Directory = cloud{"project": "web", "one": "both", "two": "both"}
		}
		mux := http.NewServeMux()
		for path, handler := range asked.Handlers() {
			mux.Handle(path, handler)
		}
		return &resttest.World{
			Ledger: l, Handler: mux, Version: func(http.Header, string) {},
			After: func(_ *http.Request, w *httptest.ResponseRecorder) { wordsAreTexts(t, w.Body.Bytes()) },
		}
	})
}

// wordsAreTexts checks that the words of each entry of a timeline are its text.
func wordsAreTexts(t *testing.T, answer []byte) {
	t.Helper()
	var page audit.Timeline
	_ = json.Unmarshal(answer, &page) // other answers have no entries
	for _, entry := range page.Entries {
		if len(entry.Words) > 0 && entry.Words.String() != entry.Text {
			t.Errorf("%q is not %q", entry.Words, entry.Text)
		}
	}
}

// do sends a request, whose answer must have a status, and returns its body.
func (q *questions) do(t testing.TB, status int, r *http.Request) string {
	t.Helper()
	w := httptest.NewRecorder()
	q.handlers[r.URL.Path].ServeHTTP(w, r)
	if w.Code != status {
		t.Fatalf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	return w.Body.String()
}

// text is the answer to a question.
func (q *questions) text(t testing.TB, target string) string {
	t.Helper()
	return q.do(t, http.StatusOK, httptest.NewRequest(http.MethodGet, target, nil))
}

// refused asks a question with parameters that are no good.
func (q *questions) refused(t *testing.T, status int, path string, queries ...string) {
	t.Helper()
	for _, query := range queries {
		q.do(t, status, httptest.NewRequest(http.MethodGet, path+query, nil))
	}
}

func (q *questions) whatIf(t *testing.T, status int, body string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/audit/what-if", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return q.do(t, status, r)
}

// told is the answer to a question.
func told[T any](t testing.TB, q *questions, target string) T {
	t.Helper()
	return decoded[T](t, q.text(t, target))
}

func decoded[T any](t testing.TB, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

// pages are the rows of all pages of an answer.
func pages[P, R any](t testing.TB, q *questions, target, next string, page func(P) ([]R, string)) (rows []R) {
	t.Helper()
	for more := ""; ; {
		some, from := page(told[P](t, q, target+more))
		rows = append(rows, some...)
		if from == "" {
			return rows
		}
		more = "&" + next + "=" + from
	}
}

// holding is a command that gives a new consumer of a project some VCPU.
func holding(project string, provider ledger.UUID, amount int64) *commands.AllocateForConsumers {
	c := commandstest.Allocate(commandstest.NewID(), provider, "VCPU", amount)
	c.Allocations[0].Project = project
	return c
}

// TestWhy: the answer has the records since a consumer held nothing of a
// provider, and those that shaped the provider's inventories, and leaves out
// other changes of both.
func TestWhy(t *testing.T) {
	l, q := inMemory(t)
	cpu, consumer := commands.Inventory{Class: "VCPU", Total: 1000}, commandstest.NewID()
	provider := l.Provider(t, "a", cpu, commands.Inventory{Class: "DISK_GB", Total: 1000})
	other := l.Provider(t, "b", cpu)
	set := func(provider ledger.UUID, amount int64) string {
		c := commandstest.Allocate(consumer, provider, "VCPU", amount)
		c.Allocations[0].AnyGeneration = true
		return l.Accept(t, c).String()
	}
	target, who := fmt.Sprintf("/audit/why?consumer=%s&provider=%s", consumer, provider), "consumer "+consumer.String()[:8]
	expect := func(holds map[string]int64, want ...string) {
		t.Helper()
		why := told[audit.Why](t, q, target)
		got := []string{why.Text}
		for _, c := range why.Changes {
			got = append(got, fmt.Sprint(c.Address, c.Before, c.After, c.Text))
		}
		for _, i := range why.Inventories {
			got = append(got, fmt.Sprint(i.Address, " ", i.After.Total, " ", i.Text))
		}
		if diff := cmp.Diff(want, got); diff != "" || !maps.Equal(why.Holds, holds) || why.Incomplete {
			t.Errorf("%v, %v: %s", why.Holds, why.Incomplete, diff)
		}
	}
	set(provider, 5)
	set(other, 5)
	first := set(provider, 7)
	l.Accept(t, &commands.CreateInventory{Provider: provider, Inventory: commands.Inventory{Class: "MEMORY_MB", Total: 5}})
	cpu.Total = 900
	total := l.Accept(t, &commands.UpdateInventory{Provider: provider, Inventory: cpu}).String()
	set(provider, 7) // nothing new
	last := set(provider, 8)
	for range 250 {
		l.Accept(t, holding("project", provider, 1))
	}
	expect(map[string]int64{"VCPU": 8}, who+" (project project) holds 8 VCPU on a",
		last+"map[VCPU:7] map[VCPU:8]test resized "+who+" (project project) on a: 8 VCPU, before 7",
		first+"map[] map[VCPU:7]test moved "+who+" (project project) from b to a: 7 VCPU, before 5 VCPU",
		total+" 900 test set the inventory of a: 900 VCPU, before 1000 VCPU")
	gone := l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer}).String()
	expect(map[string]int64{}, who+" holds nothing of a",
		gone+"map[VCPU:8] map[]test released "+who+" (project project): 8 VCPU on a",
		total+" 900 test set the inventory of a: 900 VCPU, before 1000 VCPU")
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
	nc := commandstest.Must(ns.Connect())
	t.Cleanup(nc.Close)
	store, err := jetstream.OpenRejected(t.Context(), nc, jetstream.RejectedConfig{MaxBytes: 8 << 20, MaxAge: time.Hour})
	ledgertest.OK(t, err)
	w := newWorld(t, log, 5)
	var list []commands.Command
	for range 600 {
		list = append(list, w.command())
	}
	var group sync.WaitGroup
	for part := range slices.Chunk(list, 30) {
		group.Go(func() {
			for _, c := range part {
				w.Submit(t, c)
			}
		})
	}
	group.Wait()
	keeper := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	all, inside := w.Rejected(), 0
	for _, r := range all {
		keeper.Keep(r)
		inside += min(r.Place.Index, 1)
	}
	keeper.Stop()
	if len(all) < 50 || inside == 0 || keeper.Dropped() > 0 {
		t.Fatalf("%d rejected, %d of them behind others of their commit, %d dropped", len(all), inside, keeper.Dropped())
	}
	q := ask(w.Ledger, store)
	kept := told[audit.Rejections](t, q, "/audit/rejections?limit=1000").Rejections
	if len(kept) != len(all) || kept[0].CommandID != all[len(all)-1].ID {
		t.Fatalf("%d kept of %d", len(kept), len(all))
	}
	const some = "/audit/rejections?limit=3&code=capacity_exceeded&actor=test&command=AllocateForConsumers"
	few := told[audit.Rejections](t, q, some).Rejections
	if len(few) != 3 || few[0].Rejection.Code != demand.CodeCapacityExceeded ||
		!strings.HasPrefix(few[0].Text, "test could not allocate for consumers: ") || strings.Contains(few[0].Text, "-4") {
		t.Errorf("%+v", few)
	}
	q.refused(t, 400, "/audit/rejections?", "limit=0", "limit=1001", "before=noon")
}

// TestWhatIf: a what-if gives the same outcome as carrying the commands out, also on a
// server without a writer, and changes nothing.
func TestWhatIf(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 9)
	q, follows := ask(w.Ledger, nil), questionsTo(w.Ledger)
	follows.Present = nil
	follower := &questions{w.Ledger, follows.Handlers()}
	for range 60 {
		w.Submit(t, w.command())
	}
	asking := []string{
		`{"query":"Usages","body":{"project":"project"}}`,
		`{"query":"Candidates","body":{"groups":[{"resources":{"VCPU":3}}]}}`,
		`{"query":"Capacity","body":{"groups":[{"resources":{"VCPU":3}}],"by":"aggregate"}}`,
	}
	for _, id := range w.providers {
		asking = append(asking, fmt.Sprintf(`{"query":"Provider","body":{"provider":%q}}`, id))
	}
	for _, id := range w.consumers {
		asking = append(asking, fmt.Sprintf(`{"query":"Allocations","body":{"consumer":%q}}`, id))
	}
	asked := `"questions":[` + strings.Join(asking, ",") + `]`
	ignore := cmp.FilterPath(func(p cmp.Path) bool {
		at, ok := p.Last().(cmp.MapIndex)
		return ok && (at.Key().String() == "changed" || at.Key().String() == "since")
	}, cmp.Ignore())
	for round := range 30 {
		from := w.Views.View().Sequence()
		var list []commands.Command
		var steps []string
		for range 1 + w.random.IntN(6) {
			c := w.command()
			body := commandstest.Must(json.Marshal(c))
			list = append(list, c)
			steps = append(steps, fmt.Sprintf(`{"command":%q,"body":%s}`, commands.NameOf(c), body))
		}
		request := `{"steps":[` + strings.Join(steps, ",") + `],` + asked
		would := decoded[audit.WouldBe](t, q.whatIf(t, 200, request+"}"))
		if told := follower.whatIf(t, 200, request+"}"); !cmp.Equal(would, decoded[audit.WouldBe](t, told)) {
			t.Errorf("round %d: a follower says %s, not %+v", round, told, would)
		}
		if w.Views.View().Sequence() != from || would.Sequence != from {
			t.Fatal("a question has changed the ledger")
		}
		for i, c := range list {
			outcome := w.Submit(t, c)
			if fmt.Sprint(outcome.Rejection) != fmt.Sprint(would.Steps[i].Rejection) {
				t.Fatalf("round %d step %d: %v, and would be %v", round, i, outcome.Rejection, would.Steps[i].Rejection)
			}
		}
		is := decoded[audit.WouldBe](t, q.whatIf(t, 200, "{"+asked+"}"))
		past := decoded[audit.WouldBe](t, q.whatIf(t, 200, fmt.Sprintf(`%s,"at":"%d"}`, request, from)))
		if diff := cmp.Diff(would.Answers, is.Answers, ignore) + cmp.Diff(would, past, ignore); diff != "" {
			t.Fatalf("round %d: would be, and is, or was when asked of the past\n%s", round, diff)
		}
	}
	removal := fmt.Sprintf(`{"steps":[{"command":"RemoveProvider","body":{"provider":%q}}],%s}`, w.providers[0], asked)
	gone := decoded[audit.WouldBe](t, q.whatIf(t, 200, removal))
	if gone.Answers[3].Result != nil || gone.Steps[0].Rejection != nil ||
		strings.Contains(fmt.Sprint(gone.Answers), w.providers[0].String()) {
		t.Errorf("it is not gone: %+v", gone.Answers)
	}
}

// TestEveryQuestion: every path refuses other methods than its own, and a GET
// refuses parameters that are unknown, repeated or empty.
func TestEveryQuestion(t *testing.T) {
	_, q := inMemory(t)
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
			if w.Code != http.StatusBadRequest || strings.TrimSpace(w.Body.String()) == "" ||
				w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s?%s: %d %v %s", route, bad, w.Code, w.Header(), w.Body)
			}
		}
	}
}

// TestCommits: the answer has the commits of the log as they are, from a sequence on,
// up to a limit or the end of the log; together they are the log.
func TestCommits(t *testing.T) {
	l, q := inMemory(t)
	for i := range 30 {
		l.Provider(t, fmt.Sprint("host-", i))
	}
	last := l.Views.View().Sequence()
	var all []audit.Commit
	err := l.Log.Read(t.Context(), 1, last, func(e ledger.Entry) error {
		all = append(all, audit.Commit{Sequence: e.Sequence, Digest: ledger.DigestOf(e.Data), Data: slices.Clone(e.Data)})
		return nil
	})
	ledgertest.OK(t, err)
	for query, want := range map[string][]audit.Commit{
		"": all, "?from=1&limit=1": all[:1], "?from=5&limit=7": all[4:11],
		fmt.Sprintf("?from=%d&limit=100000", last): all[last-1:], fmt.Sprintf("?from=%d", last+1): nil,
	} {
		var got []audit.Commit
		for line := range strings.Lines(q.text(t, "/audit/commits"+query)) {
			got = append(got, decoded[audit.Commit](t, line))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}
