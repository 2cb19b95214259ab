package main_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestHotHistory: what has left the read models is answered as before, by sequence
// and by time, also after a kill, from the log, from an archive, and by the checks of
// a stopped server. What only an archive has that is away is refused in one sentence.
func TestHotHistory(t *testing.T) {
	t.Parallel()
	dir, data, metrics := filepath.Join(t.TempDir(), "archive"), t.TempDir(), freeAddress(t)
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "operator.example", key)
	flags := []string{
		"--archive", "file://" + dir, "--archive-part-records", "20", "--archive-part-age", "500ms", "--archive-cache", "1",
		"--metrics", metrics, "--snapshot-records", "10", "--signing-key", key,
	}
	cold := append(slices.Clone(flags), "--hot-history", "1s", "--hot-history-records", "10")
	bounded := append(slices.Clone(cold), "--hot-log-records", "1")
	s := launch(t, data, flags...)
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
	last, questions := hotHistoryQuestions(t, s, consumers)
	want := make(map[string]string)
	for _, q := range questions {
		want[q] = s.must(200, "GET", q, "")
	}
	ask := func(when string) {
		t.Helper()
		for _, q := range questions {
			if got := s.must(200, "GET", q, ""); got != want[q] {
				t.Errorf("%s, %s: it was\n%.600s\nand is\n%.600s", when, q, want[q], got)
			}
		}
		for consumer, id := range ids {
			sendAgain(t, s, consumer, id, 204)
		}
		s.must(404, "DELETE", "/allocations/"+consumers[0], "") // the control: another command
	}
	leaves := func(metric string) {
		t.Helper()
		waitFor(t, metric+" goes on", func() bool {
			s.must(204, "PUT", "/allocations/"+uuid.NewString(), allocation())
			time.Sleep(5 * time.Millisecond) // parts end by age, too
			return readMetrics(t, metrics)[metric] > float64(last)
		})
	}
	hasLeft := func(metric string, least float64) {
		t.Helper()
		waitFor(t, "what has left is counted, and nothing is wrong", func() bool {
			m := readMetrics(t, metrics)
			return m[metric] >= least && m["allot_hot_history_keeps"] == 0
		})
	}
	ask("before")
	if m := readMetrics(t, metrics); m["allot_hot_history_first_sequence"] != 1 || m["allot_hot_history_left_commits_total"] != 0 {
		t.Errorf("without --hot-history commits have left: %v", m)
	}
	s.kill()
	s = launch(t, data, cold...)
	leaves("allot_hot_history_first_sequence")
	hasLeft("allot_hot_history_left_commits_total", float64(last))
	ask("from the log")
	leaves("allot_hot_history_first_view")
	ask("from past versions")
	hasLeft("allot_hot_history_left_epochs_total", 2)
	s.kill()
	s = launch(t, data, bounded...)
	ask("after a kill")
	leaves("allot_hot_log_first_sequence")
	ask("from the archive")
	s.terminate()
	if out := allot(t, true, "verify", "--data", data, "--archive", "file://"+dir); !strings.Contains(out, "read models") {
		t.Errorf("%s", out)
	}
	hotHistoryAway(t, dir, func() *server { s = launch(t, data, bounded...); return s }, consumers, questions[0], ids)
	waitFor(t, "the archive is read again", func() bool {
		status, _, err := s.call("GET", questions[0], "", "")
		return err == nil && status == 200
	})
	ask("when the archive is back")
	s.terminate()
	for _, without := range [][]string{
		{"serve", "--data", data, "--http", "127.0.0.1:0", "--nats", ""}, {"verify", "--data", data},
	} {
		if out := allot(t, false, without...); !strings.Contains(out, "--archive") {
			t.Errorf("%s without an archive: %s", without[0], out)
		}
	}
	if err := os.RemoveAll(filepath.Join(data, "readmodel")); err != nil {
		t.Fatal(err)
	}
	s = launch(t, data, flags...)
	ask("made again")
	if m := readMetrics(t, metrics); m["allot_hot_history_first_sequence"] != 1 {
		t.Errorf("without --hot-history commits have left: %v", m)
	}
	s.terminate()
}

const hotProvider = "11111111-1111-4111-8111-111111111111"

// sendAgain sends a command that releases a consumer.
func sendAgain(t *testing.T, s *server, consumer, id string, want int) {
	t.Helper()
	status, body, err := s.call("DELETE", "/allocations/"+consumer, id, "")
	if err != nil || status != want || want == 503 && !strings.Contains(body, "only in archives, and none of them can be read now") {
		t.Errorf("command %s: %d, want %d: %.300s (%v)", id, status, want, body, err)
	}
}

// hotHistoryQuestions returns questions about what is there, and the sequence up to
// which they ask.
func hotHistoryQuestions(t *testing.T, s *server, consumers []string) (last int, list []string) {
	t.Helper()
	var middle struct {
		Sequence int    `json:"sequence"`
		Time     string `json:"time"`
	}
	lines := strings.Split(strings.TrimSpace(s.must(200, "GET", "/audit/records", "")), "\n")
	for _, line := range []string{lines[len(lines)/2], lines[len(lines)-1]} {
		if err := json.Unmarshal([]byte(line), &middle); err != nil || middle.Time == "" {
			t.Fatalf("%s: %v", line, err)
		}
		if last == 0 {
			list = append(list, "/audit/why?provider="+hotProvider+"&consumer="+consumers[0]+"&at="+url.QueryEscape(middle.Time),
				"/allocations/"+consumers[3]+"?at="+url.QueryEscape(middle.Time),
				"/audit/fleet?class=VCPU&at="+url.QueryEscape(middle.Time))
		}
		last = middle.Sequence
	}
	list = append(list, fmt.Sprintf("/audit/records?from=1&at=%d", last))
	for _, consumer := range consumers[:12] {
		list = append(list, fmt.Sprintf("/audit/history?consumer=%s&at=%d", consumer, last), fmt.Sprintf("/audit/why?provider=%s&consumer=%s&at=%d", hotProvider, consumer, last-12))
	}
	for at := 2; at < last; at += 9 {
		list = append(list, fmt.Sprint("/audit/digest?at=", at), fmt.Sprint("/audit/checkpoint?at=", at),
			fmt.Sprint("/audit/providers?at=", at), fmt.Sprintf("/audit/timeline?limit=9&at=%d", at))
	}
	return last, list
}

// hotHistoryAway: while the archive is away, a server starts, and answers what needs
// no archive. Commands as old as what has left are not carried out.
func hotHistoryAway(
	t *testing.T, dir string, launched func() *server, consumers []string, old string, ids map[string]string,
) {
	t.Helper()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	s := launched()
	for range 2 {
		for _, path := range []string{old, "/audit/history?consumer=" + consumers[0], "/allocations/" + consumers[3] + "?at=30"} {
			text := s.must(503, "GET", path, "")
			if !strings.Contains(text, "only in archives, and none of them can be read now") || strings.Contains(text, dir) {
				t.Errorf("%s: %s", path, text)
			}
		}
		for consumer, id := range ids {
			sendAgain(t, s, consumer, id, 503)
		}
		s.must(200, "GET", "/allocations/"+consumers[20], "")
		s.must(200, "GET", "/audit/status", "")
		s.must(204, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
}

// TestHotHistoryOfReplicas: each replica lets commits leave its own read models, and
// all of them answer alike, also one that takes trimmed ones from another.
func TestHotHistoryOfReplicas(t *testing.T) {
	t.Parallel()
	flags := []string{
		"--archive", "file://" + t.TempDir(), "--archive-part-records", "20", "--archive-part-age", "500ms", "--hot-history", "1s",
	}
	r := launchReplicas(t, flags...)
	leader := r.leader()
	r.list[leader].makeProvider(1_000_000)
	waitFor(t, "commits leave the read models of all replicas", func() bool {
		r.list[leader].must(204, "PUT", "/allocations/"+uuid.NewString(), allocation())
		return !slices.ContainsFunc(r.list[:], func(s *server) bool {
			return strings.Count(s.logs.String(), "commits have left the read models") < 2
		})
	})
	alike := func() {
		t.Helper()
		_, now := r.list[leader].standing("/healthz")
		for at := uint64(1); at <= now.Sequence; at += max(1, now.Sequence/9) {
			for _, q := range []string{"/audit/digest?at=%d", "/audit/records?from=1&at=%d"} {
				path := fmt.Sprintf(q, at)
				want := r.list[leader].must(200, "GET", path, "")
				for i, s := range r.list {
					if got := s.must(200, "GET", path, ""); got != want {
						t.Errorf("replica %d, %s: %.300s\nwant %.300s", i+1, path, got, want)
					}
				}
			}
		}
	}
	alike()
	other := (leader + 1) % len(r.list)
	r.lose(other)
	for _, gone := range []string{"readmodel", "snapshots"} {
		if err := os.RemoveAll(filepath.Join(r.data(other), gone)); err != nil {
			t.Fatal(err)
		}
	}
	r.begin(other, flags...)
	r.list[other].waitReady()
	alike()
}
