package audit_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

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

// billed is a ledger of two projects that is committed to what they consumed in two hours.
type billed struct {
	*commandstest.Ledger
	handler http.Handler
	keys    note.Verifiers
	clock   atomic.Int64
}

const firstHour = 480_000 * ledger.ConsumptionPeriod

func bill(t *testing.T) *billed {
	t.Helper()
	signer, keys := ledgertest.Key(t)
	b := &billed{keys: keys}
	b.clock.Store(firstHour + int64(time.Minute))
	b.Ledger = commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
		o.Now = func() time.Time { return time.Unix(0, b.clock.Load()) }
	})
	q := questionsTo(b.Ledger)
	q.Notary = &present.Notary{Key: signer}
	b.handler = q.Handlers()["/audit/proof/consumption"]
	host := b.Provider(t, "host", commands.Inventory{Class: "VCPU", Total: 10})
	b.hold(t, host, "their", 3)
	b.commit(t, 1)
	b.hold(t, host, "mine", 2)
	b.commit(t, 2)
	return b
}

func (b *billed) hold(t *testing.T, host ledger.UUID, project string, amount int64) {
	t.Helper()
	c := commandstest.Allocate(commandstest.NewID(), host, "VCPU", amount)
	c.Allocations[0].Project = project
	b.Accept(t, c)
}

// commit commits to what was consumed up to an hour, half an hour afterwards.
func (b *billed) commit(t *testing.T, hour int64) {
	t.Helper()
	at := firstHour + hour*ledger.ConsumptionPeriod
	b.clock.Store(at + int64(30*time.Minute))
	root, last, err := b.Views.ConsumptionRoot(at)
	if err != nil {
		t.Fatal(err)
	}
	b.Accept(t, &commands.SetConsumptionRoot{ConsumptionRoot: root, Last: last})
}

func hourOf(hour int64) string {
	return time.Unix(0, firstHour+hour*ledger.ConsumptionPeriod).UTC().Format(time.RFC3339)
}

func (b *billed) ask(t *testing.T, status int, query url.Values) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/audit/proof/consumption?"+query.Encode(), nil))
	if w.Code != status {
		t.Fatalf("%s: %d %s", query.Encode(), w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func (b *billed) check(text []byte) (*audit.Statement, error) {
	var s audit.Statement
	if err := audit.ReadEvidence(text, &s); err != nil {
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
	for about, row := range map[string]struct {
		project, from, to, want string
	}{
		"from the beginning":        {"their", "", hourOf(1), "10620000000000"}, // 3 for 59 minutes
		"between two hours":         {"their", hourOf(1), hourOf(2), "10800000000000"},
		"of a project that is new":  {"mine", hourOf(1), hourOf(2), "3600000000000"}, // 2 for 30 minutes
		"of a project that is none": {"other", hourOf(1), hourOf(2), ""},
		"before it is there":        {"mine", "", hourOf(1), ""},
	} {
		query := url.Values{"project": {row.project}, "to": {row.to}}
		if row.from != "" {
			query.Set("from", row.from)
		}
		text := b.ask(t, 200, query)
		s, err := b.check(text)
		if err != nil {
			t.Errorf("%s: %v", about, err)
			continue
		}
		got := ""
		if len(s.Consumed) > 0 {
			got = s.Consumed[0].AmountNS
		}
		if got != row.want {
			t.Errorf("%s: %s of VCPU, not %s", about, got, row.want)
		}
		if other := map[string]string{"mine": "their", "their": "mine"}[row.project]; other != "" && bytes.Contains(text, []byte(other)) {
			t.Errorf("%s: it names project %s", about, other)
		}
	}
	b.ask(t, 404, url.Values{"project": {"mine"}, "to": {hourOf(3)}})
	b.ask(t, 400, url.Values{"project": {"mine"}, "to": {hourOf(1)}, "from": {hourOf(2)}})
	b.ask(t, 400, url.Values{"project": {"mine"}})
	b.ask(t, 400, url.Values{"project": {"mine"}, "to": {"yesterday"}})
}

// TestForgedStatements: of a thousand statements in each of which one byte is another one, or
// that are put together of two, none is proved.
func TestForgedStatements(t *testing.T) {
	t.Parallel()
	b := bill(t)
	text := bytes.TrimSpace(b.ask(t, 200, url.Values{"project": {"mine"}, "from": {hourOf(1)}, "to": {hourOf(2)}}))
	if _, err := b.check(text); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		forged := bytes.Clone(text)
		at := random.IntN(len(forged))
		forged[at] ^= byte(1 + random.IntN(127))
		if _, err := b.check(forged); err == nil {
			t.Errorf("byte %d is %q instead of %q, and all is proved", at, forged[at], text[at])
		}
	}
	theirs := b.ask(t, 200, url.Values{"project": {"their"}, "from": {hourOf(1)}, "to": {hourOf(2)}})
	shifts := map[string]func(mine, their *audit.Statement){
		"another's end":       func(mine, their *audit.Statement) { mine.End = their.End },
		"another's beginning": func(mine, their *audit.Statement) { mine.Begin = their.Begin },
		"the hour before":     func(mine, _ *audit.Statement) { mine.To = mine.To.Add(-time.Hour) },
		"an hour too many":    func(mine, _ *audit.Statement) { *mine.From = mine.From.Add(-time.Hour) },
		"no beginning":        func(mine, their *audit.Statement) { *mine, mine.From, mine.Begin = *their, nil, nil },
		"no end":              func(mine, _ *audit.Statement) { mine.End = nil },
		"less":                func(mine, _ *audit.Statement) { mine.Consumed[0].AmountNS = "1" },
		"nothing":             func(mine, _ *audit.Statement) { mine.End.Consumption, mine.Consumed = nil, []proof.ClassConsumed{} },
	}
	for about, shift := range shifts {
		mine, their := parsed(t, text), parsed(t, theirs)
		shift(mine, their)
		forged, err := ledger.PlainJSON(mine)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.check(forged); err == nil {
			t.Errorf("%s: it is proved", about)
		}
	}
}

func parsed(t *testing.T, text []byte) *audit.Statement {
	t.Helper()
	s := new(audit.Statement)
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}
