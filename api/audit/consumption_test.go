package audit_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/ledger/proof"
)

// TestConsumptionMetrics: counters of what each project has held, as Prometheus reads them.
func TestConsumptionMetrics(t *testing.T) {
	clock := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	l, q := clocked(t, &clock)
	scrape := func(want ...string) {
		t.Helper()
		const path = "/audit/consumption/metrics"
		w := httptest.NewRecorder()
		q.handlers[path].ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(w.Body.Bytes()))
		if err != nil || w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Fatalf("%d %v: %v\n%s", w.Code, w.Header(), err, w.Body)
		}
		var lines []string
		for _, m := range families["allot_consumption_unit_seconds_total"].GetMetric() {
			lines = append(lines, fmt.Sprint(m.Label[0].GetValue(), " ", m.Label[1].GetValue(), " ", m.Counter.GetValue()))
		}
		if !slices.Equal(lines, want) {
			t.Errorf("%q, not %q", lines, want)
		}
	}
	scrape()
	host := l.Provider(
		t, "host", commands.Inventory{Class: "VCPU", Total: 8}, commands.Inventory{Class: "DISK_GB", Total: 100},
	)
	for i, class := range []string{"VCPU", "DISK_GB"} {
		c := commandstest.Allocate(commandstest.NewID(), host, class, 3)
		c.Allocations[0].Project = fmt.Sprintf("project \"%d\"", i)
		l.Accept(t, c)
		clock = clock.Add(1500 * time.Millisecond)
		l.Accept(t, &commands.ReleaseConsumer{Consumer: c.Allocations[0].Consumer})
	}
	scrape(`VCPU project "0" 4.5`, `DISK_GB project "1" 4.5`)
}

// clocked is a ledger in memory with a clock, and what is asked of it.
func clocked(t *testing.T, clock *time.Time) (*commandstest.Ledger, *questions) {
	t.Helper()
	l := commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
		o.Now = func() time.Time { return *clock }
	})
	return l, ask(l, nil)
}

// billed is a ledger of two projects that is committed to what they consumed in two hours.
type billed struct {
	*questions
	keys  note.Verifiers
	clock *time.Time
}

const firstHour = 480_000 * ledger.ConsumptionPeriod

func bill(t *testing.T) *billed {
	t.Helper()
	signer, keys := ledgertest.Key(t)
	clock := time.Unix(0, firstHour).Add(time.Minute)
	l, _ := clocked(t, &clock)
	q := questionsTo(l)
	q.Notary = &present.Notary{Key: signer}
	b := &billed{&questions{l, q.Handlers()}, keys, &clock}
	host := b.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 10})
	b.Accept(t, holding("their", host, 3))
	b.commit(t, 1)
	b.Accept(t, holding("mine", host, 2))
	b.commit(t, 2)
	return b
}

// commit commits to what was consumed up to an hour, half an hour afterwards.
func (b *billed) commit(t *testing.T, hour int64) {
	t.Helper()
	at := firstHour + hour*ledger.ConsumptionPeriod
	*b.clock = time.Unix(0, at).Add(30 * time.Minute)
	root, last, err := b.Views.ConsumptionRoot(at)
	ledgertest.OK(t, err)
	b.Accept(t, &commands.SetConsumptionRoot{ConsumptionRoot: root, Last: last})
}

func hourOf(hour int64) string {
	return time.Unix(0, firstHour+hour*ledger.ConsumptionPeriod).UTC().Format(time.RFC3339)
}

func (b *billed) check(text string) (*audit.Statement, error) {
	var s audit.Statement
	if err := audit.ReadEvidence([]byte(text), &s); err != nil {
		return nil, err
	}
	_, err := s.Check(proof.Trust{Operator: b.keys})
	return &s, err
}

// TestStatements: a statement says what a project consumed between two hours, and its evidence
// is checked with the public key alone.
func TestStatements(t *testing.T) {
	t.Parallel()
	b := bill(t)
	const path = "/audit/proof/consumption?"
	first, second := "&to="+hourOf(1), "&from="+hourOf(1)+"&to="+hourOf(2)
	for query, want := range map[string]string{
		"project=their" + first:  "10620000000000", // 3 for 59 minutes
		"project=their" + second: "10800000000000",
		"project=mine" + second:  "3600000000000", // 2 for 30 minutes, by a project that is new
		"project=other" + second: "",
		"project=mine" + first:   "", // before it is there
	} {
		text := b.text(t, path+query)
		s, err := b.check(text)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		got := ""
		for _, one := range s.Consumed {
			got += one.AmountNS
		}
		if got != want {
			t.Errorf("%s: %s of VCPU, not %s", query, got, want)
		}
		for _, project := range []string{"mine", "their"} {
			if strings.Contains(text, project) && !strings.Contains(query, project) {
				t.Errorf("%s: it names project %s", query, project)
			}
		}
	}
	b.refused(t, 404, path, "project=mine&to="+hourOf(3))
	b.refused(t, 400, path, "project=mine", "project=mine&to=yesterday", "project=mine&to=2600-01-01T00:00:00Z",
		"project=mine"+first+"&from="+hourOf(2))
}

// TestForgedStatements: of a thousand statements in each of which one byte is another one, or
// that are put together of two, none is proved.
func TestForgedStatements(t *testing.T) {
	t.Parallel()
	b := bill(t)
	query := "&from=" + hourOf(1) + "&to=" + hourOf(2)
	text := strings.TrimSpace(b.text(t, "/audit/proof/consumption?project=mine"+query))
	_, err := b.check(text)
	ledgertest.OK(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		forged, at := []byte(text), random.IntN(len(text))
		forged[at] ^= byte(1 + random.IntN(127))
		if _, err := b.check(string(forged)); err == nil {
			t.Errorf("byte %d is %q instead of %q, and all is proved", at, forged[at], text[at])
		}
	}
	theirs := b.text(t, "/audit/proof/consumption?project=their"+query)
	shifts := map[string]func(mine, their *audit.Statement){
		"another's end":       func(mine, their *audit.Statement) { mine.End = their.End },
		"another's beginning": func(mine, their *audit.Statement) { mine.Begin = their.Begin },
		"the hour before":     func(mine, _ *audit.Statement) { mine.To = mine.To.Add(-time.Hour) },
		"an hour too many":    func(mine, _ *audit.Statement) { *mine.From = mine.From.Add(-time.Hour) },
		"no beginning":        func(mine, their *audit.Statement) { *mine, mine.From, mine.Begin = *their, nil, nil },
		"64 bits later":       func(mine, _ *audit.Statement) { mine.To = mine.To.Add(1<<63 - 1).Add(1<<63 - 1).Add(2) },
		"no end":              func(mine, _ *audit.Statement) { mine.End = nil },
		"less":                func(mine, _ *audit.Statement) { mine.Consumed[0].AmountNS = "1" },
		"nothing": func(mine, _ *audit.Statement) {
			mine.End.Consumption, mine.Consumed = nil, []proof.ClassConsumed{}
		},
	}
	for about, shift := range shifts {
		mine, their := decoded[audit.Statement](t, text), decoded[audit.Statement](t, theirs)
		shift(&mine, &their)
		forged := commandstest.Must(ledger.PlainJSON(mine))
		if _, err := b.check(string(forged)); err == nil {
			t.Errorf("%s: it is proved", about)
		}
	}
}
