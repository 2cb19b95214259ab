package audit_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

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
	l, q := clocked(t, &clock)
	cpu, storage := commands.Inventory{Class: "VCPU", Total: 8}, commands.Inventory{Class: "DISK_GB", Total: 100}
	host, disk := l.Provider(t, "host", cpu, storage), l.Provider(t, "disk", storage)
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
	cpu.Total = 4
	l.Accept(t, &commands.UpdateInventory{Provider: host, Inventory: cpu})
	clock = clock.Add(time.Hour)
	set("b", disk, "DISK_GB", 20)
	clock = clock.Add(time.Nanosecond)
	l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer})

	const path, interval = "/audit/consumption?", "from=2026-04-30T23:00:00Z&to=2026-05-02T00:00:00Z&"
	const held = `{"class":"DISK_GB","amount_ns":"20","hours":"0.000000000"},` +
		`{"class":"VCPU","amount_ns":"43200000000000","hours":"12.000000000"}`
	for query, want := range map[string]string{
		interval: held,
		interval + "by=hour&project=b&user=user&type=unknown&class=VCPU": `` +
			`{"hour":"2026-05-01T00:00:00Z","amount_ns":"10800000000000","hours":"3.000000000"},` +
			`{"hour":"2026-05-01T01:00:00Z","amount_ns":"10800000000000","hours":"3.000000000"}`,
		"from=2026-05-01T00:30:00Z&to=2026-05-01T01:30:00Z&provider=" + host.String() + "&class=VCPU": `` +
			`{"class":"VCPU","amount_ns":"21600000000000","hours":"6.000000000",` +
			`"capacity_ns":"14400000000000","capacity_hours":"4.000000000",` +
			`"idle_ns":"-7200000000000","idle_hours":"-2.000000000"}`,
	} {
		if text := q.text(t, path+query); !strings.Contains(text, `"rows":[`+want+`]`) {
			t.Errorf("%s: %s lacks %s", query, text, want)
		}
	}
	var classes []string
	pages(t, q, path+interval+"limit=1", "after", func(page wire.Consumption) ([]wire.ConsumptionRow, string) {
		if len(page.Rows) > 0 {
			classes = append(classes, fmt.Sprint(len(page.Rows), *page.Rows[0].Class, page.To))
		}
		return page.Rows, url.QueryEscape(page.Next)
	})
	if want := []string{"1DISK_GB2026-05-02T00:00:00Z", "1VCPU2026-05-02T00:00:00Z"}; !slices.Equal(classes, want) {
		t.Errorf("in pages: %q", classes)
	}
	now := told[wire.Consumption](t, q, path+"from=1")
	if now.Sequence != l.Views.View().Sequence() || now.From != "2026-04-30T23:00:00Z" || now.To <= "2026-05-01" {
		t.Errorf("%+v", now)
	}
	q.refused(t, 400, path, "", "from=1&provider=x", "from=1&tree=perhaps", "from=1&limit=0",
		"from=1&project=c&strict=true", "from=1&by=")
}

// TestConsumptionOfDeletedClass: a class that is gone is called what it was called last.
func TestConsumptionOfDeletedClass(t *testing.T) {
	l, q := inMemory(t)
	l.Accept(t, &commands.CreateResourceClass{Name: "CUSTOM_OLD"})
	host := l.Provider(t, "host", commands.Inventory{Class: "CUSTOM_OLD", Total: 8})
	l.Accept(t, &commands.RenameResourceClass{Name: "CUSTOM_OLD", NewName: "CUSTOM_NEW"})
	l.Accept(t, &commands.DeleteProvider{Provider: host})
	l.Accept(t, &commands.DeleteResourceClass{Name: "CUSTOM_NEW"})
	text := q.text(t, "/audit/consumption?from=1&strict=true&class=CUSTOM_NEW&provider="+host.String())
	if !strings.Contains(text, `"rows":[{"class":"CUSTOM_NEW","amount_ns":"0",`) {
		t.Error(text)
	}
}

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
