package main_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestPastStays: questions about the past, by sequence and by time, have the answers that
// they had before: after a kill, when more has come, and when the read models were made again
// from the log. Commands of the past that come again are known.
func TestPastStays(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "operator.example", key)
	s := launch(t, data, "--signing-key", key)
	s.makeProvider(1_000_000)
	consumers := make([]string, 60)
	for i := range consumers {
		consumers[i] = uuid.NewString()
		s.must(204, "PUT", "/allocations/"+consumers[i], allocation())
	}
	ids := make(map[string]string) // of the commands that released consumers
	for _, consumer := range consumers[:10] {
		ids[consumer] = uuid.Must(uuid.NewV7()).String()
		sendAgain(t, s, consumer, ids[consumer], 204)
	}
	want := make(map[string]string)
	for _, q := range pastQuestions(t, s, consumers) {
		want[q] = s.must(200, "GET", q, "")
	}
	ask := func(when string) {
		t.Helper()
		for q := range want {
			if got := s.must(200, "GET", q, ""); got != want[q] {
				t.Errorf("%s, %s: it was\n%.600s\nand is\n%.600s", when, q, want[q], got)
			}
		}
		for consumer, id := range ids {
			sendAgain(t, s, consumer, id, 204)
		}
		sendAgain(t, s, consumers[0], uuid.Must(uuid.NewV7()).String(), 404) // the control: another command
	}
	s.kill()
	s = launch(t, data, "--signing-key", key)
	ask("after a kill")
	for range 50 {
		s.must(204, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	ask("when more has come")
	s.terminate()
	if err := os.RemoveAll(filepath.Join(data, "readmodel")); err != nil {
		t.Fatal(err)
	}
	s = launch(t, data, "--signing-key", key)
	ask("made again")
	s.must(400, "GET", "/allocations/"+consumers[0]+"?at=1000000", "")
	tomorrow := url.QueryEscape(time.Now().Add(24 * time.Hour).Format(time.RFC3339))
	s.must(400, "GET", "/allocations/"+consumers[0]+"?at="+tomorrow, "")
	s.terminate()
}

// sendAgain sends a command that releases a consumer.
func sendAgain(t *testing.T, s *server, consumer, id string, want int) {
	t.Helper()
	status, body, err := s.call("DELETE", "/allocations/"+consumer, id, "")
	if err != nil || status != want {
		t.Errorf("command %s: %d, want %d: %.300s (%v)", id, status, want, body, err)
	}
}

// pastQuestions returns questions about moments up to now.
func pastQuestions(t *testing.T, s *server, consumers []string) (list []string) {
	t.Helper()
	const provider = "11111111-1111-4111-8111-111111111111"
	var record struct {
		Sequence int    `json:"sequence"`
		Time     string `json:"time"`
	}
	last := 0
	lines := strings.Split(strings.TrimSpace(s.must(200, "GET", "/audit/records", "")), "\n")
	for _, line := range []string{lines[len(lines)/2], lines[len(lines)-1]} {
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" {
			t.Fatalf("%s: %v", line, err)
		}
		if last == 0 {
			at := "at=" + url.QueryEscape(record.Time)
			list = append(list, "/audit/why?provider="+provider+"&consumer="+consumers[0]+"&"+at,
				"/allocations/"+consumers[3]+"?"+at, "/audit/fleet?class=VCPU&"+at)
		}
		last = record.Sequence
	}
	list = append(list, fmt.Sprintf("/audit/records?from=1&at=%d", last))
	for _, consumer := range consumers[:12] {
		list = append(list, fmt.Sprintf("/audit/history?consumer=%s&at=%d", consumer, last),
			fmt.Sprintf("/audit/why?provider=%s&consumer=%s&at=%d", provider, consumer, last-12))
	}
	for at := 2; at < last; at += 9 {
		list = append(list, fmt.Sprint("/audit/digest?at=", at), fmt.Sprint("/audit/checkpoint?at=", at),
			fmt.Sprint("/audit/providers?at=", at), fmt.Sprintf("/audit/timeline?limit=9&at=%d", at))
	}
	return list
}
