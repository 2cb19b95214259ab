package main_test

import (
	"io"
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// TestSelfAudit: a server that audits itself says so in its metrics.
func TestSelfAudit(t *testing.T) {
	address := freeAddress(t)
	s := busy(t, t.TempDir(), "--audit-every", "20ms", "--metrics", address)
	metric := func(name string) float64 {
		t.Helper()
		resp, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }() // nothing was written
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^allot_` + name + ` (\S+)$`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("no %s in\n%s", name, text)
		}
		value, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	newest := metric("log_sequence")
	s.must(204, "DELETE", "/allocations/22222222-2222-4222-8222-000000000001", "")
	for deadline := time.Now().Add(hang); metric("audit_sequence") <= newest || metric("audit_lag_commits") > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the audit is not done:\n%s", s.logs)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if metric("audit_good") != 1 || metric("audit_timestamp_seconds") == 0 || metric("audit_duration_seconds") == 0 {
		t.Errorf("the audit found something:\n%s", s.logs)
	}
}
