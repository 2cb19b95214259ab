package main_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestPrometheus has a real Prometheus watch a server by the rules in
// docs/deploy.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("skipped: there is no prometheus")
	}
	rules := ledgertest.Must(filepath.Abs("../../docs/deploy/prometheus-rules.yaml"))
	output(t, exec.Command("promtool", "check", "rules", rules))
	metrics, dir := freeAddress(t), t.TempDir()
	s := launch(t, t.TempDir(), "--metrics", metrics)
	s.makeProvider(4)
	config := filepath.Join(dir, "prometheus.yaml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: allot, static_configs: [{targets: [%q]}]}]\n", rules, metrics)
	write(t, config, text)
	address := freeAddress(t)
	p := prometheus{begin(t, address, exec.Command(binary, "--config.file="+config,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address))}
	p.eventually(`up{job="allot"} == 1`)
	p.eventually(`allot_log_sequence > 2`)
	p.eventually(`allot_commands_total{command="CreateProvider",outcome="accepted"} == 1`)
	p.eventually(`allot_http_requests_total{route="/resource_providers",method="POST"} == 1`)
	p.eventually(`histogram_quantile(0.99, sum by (le) (allot_commit_stage_duration_seconds_bucket{stage="append"})) > 0`)
	// All rules are evaluated without an error, and none fires.
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, State, LastError string } `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	ledgertest.WaitFor(t, "12 rules that are well", func() bool {
		must(t, p.ask("/api/v1/rules", &answer))
		healthy := 0
		for _, group := range answer.Data.Groups {
			for _, rule := range group.Rules {
				if rule.Health == "ok" && rule.State != "firing" && rule.LastError == "" {
					healthy++
				}
			}
		}
		return healthy >= 12
	}, func() any { return fmt.Sprintf("%+v\n%s", answer, p.Logs) })
}

type prometheus struct{ *server }

// ask asks Prometheus's API.
func (p *prometheus) ask(path string, into any) error {
	_, text, err := sendTo("GET", "http://"+p.HTTP+path, "", nil)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// eventually waits until a query finds something.
func (p *prometheus) eventually(query string) {
	p.T.Helper()
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Result []any `json:"result"`
		} `json:"data"`
	}
	ledgertest.WaitFor(p.T, "Prometheus to find "+query, func() bool {
		err := p.ask("/api/v1/query?query="+url.QueryEscape(query), &answer)
		return err == nil && answer.Status == "success" && len(answer.Data.Result) > 0
	}, func() any { return fmt.Sprintf("%+v\n%s", answer, p.Logs) })
}

// readMetrics returns what a server's /metrics says, by series.
func readMetrics(t *testing.T, address string) map[string]float64 {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	must(t, err)
	defer func() { _ = resp.Body.Close() }() // it was read
	series := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		end := strings.LastIndexByte(lines.Text(), ' ')
		value, err := strconv.ParseFloat(lines.Text()[end+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		series[lines.Text()[:end]] = value
	}
	if lines.Err() != nil || len(series) == 0 {
		t.Fatalf("%d series, %v", len(series), lines.Err())
	}
	return series
}
