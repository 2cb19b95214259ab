package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestAggregateSpelling: an aggregate is shown as it was first spelt for the provider,
// and is the same aggregate in every spelling.
func TestAggregateSpelling(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	host, id := ledgertest.ID(1, 1), ledgertest.ID(0xab, 2)
	l.Accept(t, &commands.CreateProvider{Provider: host, Name: "host"})
	dashed, plain := id.String(), ledger.SpelledPlain.Text(id)
	path, generation := "/resource_providers/"+host.String()+"/aggregates", 0
	put := func(texts ...string) {
		t.Helper()
		list := `["` + strings.Join(texts, `","`) + `"]`
		if len(texts) == 0 {
			list = "[]"
		}
		body := fmt.Sprintf(`{"aggregates":%s,"resource_provider_generation":%d}`, list, generation)
		expect(t, h, "PUT", path, body, 200)
		generation++
	}
	shows := func(texts ...string) {
		t.Helper()
		want := `"aggregates":["` + strings.Join(texts, `","`) + `"]`
		if r := send(h, "GET", path, ""); !strings.Contains(strings.ReplaceAll(r.Body.String(), " ", ""), want) {
			t.Errorf("%s lacks %s", r.Body, want)
		}
	}
	other := ledgertest.ID(3, 1).String()
	put(plain)
	shows(plain)
	for _, spelt := range []string{dashed, plain, strings.ToUpper(dashed)} {
		expect(t, h, "GET", "/resource_providers?member_of="+spelt, "", 200, host.String())
	}
	put(other, dashed)
	shows(other, plain)
	expectAt(t, h, "1.1", "PUT", path, fmt.Sprintf(`["%s","%s"]`, other, strings.ToUpper(dashed)), 200)
	shows(other, plain)
	put(other)
	put(strings.ToUpper(dashed), other)
	shows(strings.ToUpper(dashed), other)
	put()
	put("urn:uuid:" + dashed)
	shows(dashed)
}
