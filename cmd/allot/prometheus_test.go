package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
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
	rules, err := filepath.Abs("../../docs/deploy/prometheus-rules.yaml")
	must(t, err)
	if out, err := exec.Command("promtool", "check", "rules", rules).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	metrics, dir := freeAddress(t), t.TempDir()
	s := launch(t, t.TempDir(), "--metrics", metrics)
	s.makeProvider(4)
	config := filepath.Join(dir, "prometheus.yaml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\n"+
		"scrape_configs: [{job_name: allot, static_configs: [{targets: [%q]}]}]\n", rules, metrics)
	write(t, config, text)
	p := prometheus{t: t, address: freeAddress(t)}
	cmd := exec.Command(binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+p.address)
	cmd.Stderr = &p.said
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it is done with
		_ = cmd.Wait()
	})
	p.eventually(`up{job="allot"} == 1`)
	p.eventually(`allot_log_sequence > 2`)
	p.eventually(`allot_commands_total{command="CreateProvider",outcome="accepted"} == 1`)
	p.eventually(`allot_http_requests_total{route="/resource_providers",method="POST"} == 1`)
	p.eventually(`histogram_quantile(0.99, sum by (le) (allot_commit_stage_duration_seconds_bucket{stage="append"})) > 0`)
	p.checkRules()
}

type prometheus struct {
	t       *testing.T
	address string
	said    ledgertest.Output
}

// ask asks Prometheus's API.
func (p *prometheus) ask(path string, into any) error {
	resp, err := http.Get("http://" + p.address + path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	return json.NewDecoder(resp.Body).Decode(into)
}

// eventually waits until a query finds something.
func (p *prometheus) eventually(query string) {
	p.t.Helper()
	var answer struct {
		Status string `json:"status"`
		Data   struct {
			Result []any `json:"result"`
		} `json:"data"`
	}
	ledgertest.WaitFor(p.t, "Prometheus to find "+query, func() bool {
		err := p.ask("/api/v1/query?query="+url.QueryEscape(query), &answer)
		return err == nil && answer.Status == "success" && len(answer.Data.Result) > 0
	}, func() any { return fmt.Sprintf("%+v\n%s", answer, &p.said) })
}

// checkRules wants all rules to be evaluated without an error, and none to fire.
func (p *prometheus) checkRules() {
	p.t.Helper()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, State, LastError string } `json:"rules"`
			} `json:"groups"`
		} `json:"data"`
	}
	ledgertest.WaitFor(p.t, "12 rules that are well", func() bool {
		must(p.t, p.ask("/api/v1/rules", &answer))
		healthy := 0
		for _, group := range answer.Data.Groups {
			for _, rule := range group.Rules {
				if rule.Health == "ok" && rule.State != "firing" {
					healthy++
				}
				if rule.LastError != "" {
					p.t.Fatalf("%s: %s", rule.Name, rule.LastError)
				}
			}
		}
		return healthy >= 12
	}, func() any { return fmt.Sprintf("%+v\n%s", answer, &p.said) })
}
