package vitals

import (
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector/check"
)

var updateMetrics = flag.Bool("update-metrics", false, "write the table of docs/metrics.md anew")

// allMetrics are those of a server that has everything that has metrics.
func allMetrics() (rows []string, names map[string]bool) {
	m := &Metrics{
		Disks:       &Disks{DisksConfig: DisksConfig{NATS: new(embedded.Server), Archives: []*archive.Archive{nil}}},
		Instruments: NewInstruments(), Replica: new(leading.Replica), Scrubber: new(check.Scrubber),
		Tracer: new(tracing.Tracer), Limits: new(processes.LimitStatus), Witnesses: new(witness.Group),
		Keeper: func() *rejected.Keeper { return nil },
	}
	found := make(chan *prometheus.Desc)
	go func() {
		m.registry().Describe(found)
		close(found)
	}()
	described := regexp.MustCompile(`fqName: "(allot_[a-z_]+)", help: "(.*?)", (?:unit: ".*?", )?constLabels: {.*}, variableLabels: {(.*)}}`)
	names = make(map[string]bool)
	for one := range found {
		if parts := described.FindStringSubmatch(one.String()); parts != nil {
			rows = append(rows, "| `"+parts[1]+"` | "+strings.ReplaceAll(parts[3], ",", ", ")+" | "+parts[2]+" |")
			names[parts[1]] = true
		}
	}
	slices.Sort(rows)
	return rows, names
}

// TestMetricsTable: docs/metrics.md lists what is served.
func TestMetricsTable(t *testing.T) {
	const path, head = "../../../../docs/metrics.md", "|---|---|---|\n"
	before, table, found := strings.Cut(launchtest.Read(t, path), head)
	if !found {
		t.Fatal("docs/metrics.md has no table")
	}
	rows, _ := allMetrics()
	if len(rows) < 30 {
		t.Errorf("there are only %d metrics: %q", len(rows), rows)
	}
	want := strings.Join(rows, "\n") + "\n"
	if *updateMetrics {
		ledgertest.OK(t, os.WriteFile(path, []byte(before+head+want), 0o644))
		return
	}
	if table != want {
		t.Errorf("the table of docs/metrics.md is not what is served (go test ./cmd/allot/server/vitals -run MetricsTable -update-metrics):\n%s", want)
	}
}

// TestMetricsNamed: alerts and dashboard name metrics that there are.
func TestMetricsNamed(t *testing.T) {
	_, names := allMetrics()
	for _, file := range []string{"prometheus-rules.yaml", "grafana.json"} {
		text := launchtest.Read(t, "../../../../docs/deploy/"+file)
		if strings.HasSuffix(file, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is not JSON", file)
		}
		used := regexp.MustCompile(`\ballot_[a-z_]+`).FindAllString(text, -1)
		if len(used) < 10 {
			t.Errorf("%s names only %q", file, used)
		}
		for _, name := range used {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !names[name] && !names[base] {
				t.Errorf("%s names %s, which is not served", file, name)
			}
		}
	}
}
