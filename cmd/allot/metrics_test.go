package main_test

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

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
