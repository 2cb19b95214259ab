package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestConsumption: rows in their form over HTTP, in pages, and refusals; TestConsumptionByAnything has all
// groupings, exactly.
func TestConsumption(t *testing.T) {
	clock := time.Date(2026, 4, 30, 23, 0, 0, 0, time.UTC)
	l := commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
		o.Now = func() time.Time { return clock }
	})
	q := ask(t, l, nil)
	host := l.Provider(
		t, "host", commands.Inventory{Class: "VCPU", Total: 8}, commands.Inventory{Class: "DISK_GB", Total: 100},
	)
	disk := l.Provider(t, "disk", commands.Inventory{Class: "DISK_GB", Total: 50})
	l.Accept(t, &commands.ReparentProvider{Provider: disk, Parent: host})
	consumer := commandstest.NewID()
	set := func(project string, provider ledger.UUID, class string, amount int64) {
		c := commandstest.Allocate(consumer, provider, class, amount)
		c.Allocations[0].Project, c.Allocations[0].AnyGeneration = project, true
		l.Accept(t, c)
	}
	set("a", host, "VCPU", 4)
	clock = clock.Add(90 * time.Minute)
	set("b", host, "VCPU", 6) // it moves to another project, and grows
	l.Accept(t, &commands.UpdateInventory{Provider: host, Inventory: commands.Inventory{Class: "VCPU", Total: 4}})
	clock = clock.Add(time.Hour)
	set("b", disk, "DISK_GB", 20)
	clock = clock.Add(time.Nanosecond)
	l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer})

	const interval = "from=2026-04-30T23:00:00Z&to=2026-05-02T00:00:00Z&"
	rows := func(query string) (list []string) {
		t.Helper()
		var answer wire.Consumption
		q.get(t, http.StatusOK, "/audit/consumption?"+query, &answer)
		for _, row := range answer.Rows {
			text, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(text))
		}
		return list
	}
	for query, want := range map[string][]string{
		interval: {
			`{"class":"DISK_GB","amount_ns":"20","hours":"0.000000000"}`,
			`{"class":"VCPU","amount_ns":"43200000000000","hours":"12.000000000"}`,
		},
		interval + "by=hour&project=b&user=user&type=unknown&class=VCPU": {
			`{"hour":"2026-05-01T00:00:00Z","amount_ns":"10800000000000","hours":"3.000000000"}`,
			`{"hour":"2026-05-01T01:00:00Z","amount_ns":"10800000000000","hours":"3.000000000"}`,
		},
		"from=2026-05-01T00:30:00Z&to=2026-05-01T01:30:00Z&provider=" + host.String() + "&class=VCPU": {
			`{"class":"VCPU","amount_ns":"21600000000000","hours":"6.000000000",` +
				`"capacity_ns":"14400000000000","capacity_hours":"4.000000000",` +
				`"idle_ns":"-7200000000000","idle_hours":"-2.000000000"}`,
		},
	} {
		if diff := cmp.Diff(want, rows(query)); diff != "" {
			t.Errorf("%s:\n%s", query, diff)
		}
	}

	var page wire.Consumption
	q.get(t, http.StatusOK, "/audit/consumption?"+interval+"limit=1", &page)
	if len(page.Rows) != 1 || *page.Rows[0].Class != "DISK_GB" || page.Next == "" || page.To != "2026-05-02T00:00:00Z" {
		t.Fatalf("%+v", page)
	}
	q.get(t, http.StatusOK, "/audit/consumption?"+interval+"limit=1&after="+url.QueryEscape(page.Next), &page)
	if len(page.Rows) != 1 || *page.Rows[0].Class != "VCPU" {
		t.Errorf("%+v", page)
	}
	var now wire.Consumption
	q.get(t, http.StatusOK, "/audit/consumption?from=1", &now)
	if now.Sequence != l.Views.View().Sequence() || now.From != "2026-04-30T23:00:00Z" || now.To <= "2026-05-01" {
		t.Errorf("%+v", now)
	}
	for _, bad := range []string{
		"", "from=1&provider=x", "from=1&tree=perhaps", "from=1&limit=0", "from=1&project=c&strict=true", "from=1&by=",
	} {
		q.get(t, http.StatusBadRequest, "/audit/consumption?"+bad, nil)
	}
}

// TestConsumptionOfDeletedClass: a class that is gone is called what it was called last.
func TestConsumptionOfDeletedClass(t *testing.T) {
	l, q := inMemory(t)
	l.Accept(t, &commands.CreateResourceClass{Name: "CUSTOM_OLD"})
	host := l.Provider(t, "host", commands.Inventory{Class: "CUSTOM_OLD", Total: 8})
	l.Accept(t, &commands.RenameResourceClass{Name: "CUSTOM_OLD", NewName: "CUSTOM_NEW"})
	l.Accept(t, &commands.DeleteProvider{Provider: host})
	l.Accept(t, &commands.DeleteResourceClass{Name: "CUSTOM_NEW"})
	var answer wire.Consumption
	q.get(t, http.StatusOK, "/audit/consumption?from=1&strict=true&class=CUSTOM_NEW&provider="+host.String(), &answer)
	if len(answer.Rows) != 1 || *answer.Rows[0].Class != "CUSTOM_NEW" || answer.Rows[0].AmountNS != "0" {
		t.Errorf("%+v", answer)
	}
}

// TestConsumptionMetrics: counters of what each project has held, as Prometheus reads them.
func TestConsumptionMetrics(t *testing.T) {
	clock := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	l := commandstest.StartWith(t, t.TempDir(), &memlog.Log{}, func(o *writer.Options) {
		o.Now = func() time.Time { return clock }
	})
	q := ask(t, l, nil)
	scrape := func() string {
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
		return strings.Join(lines, "\n")
	}
	if got := scrape(); got != "" {
		t.Errorf("of nothing: %s", got)
	}
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
	if got, want := scrape(), "VCPU project \"0\" 4.5\nDISK_GB project \"1\" 4.5"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
