package main_test

import (
	"fmt"
	"io/fs"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// times is how often a fault is injected: a few times with the other tests, and
// as often as docs/reliability.md says with "make faults".
func times(few, many int) int {
	switch {
	case os.Getenv("ALLOT_FAULTS") != "":
		return many
	case testing.Short():
		return max(1, few/4)
	}
	return few
}

// tell prints a row of the table in docs/reliability.md.
func tell(t *testing.T, fault string, injected int, outcome string) {
	t.Helper()
	t.Logf("FAULT | %s | %d | %s |", fault, injected, outcome)
}

// outcomes counts outcomes by what was damaged.
type outcomes struct {
	mu     sync.Mutex
	counts map[string]map[string]int // guarded by mu
}

func (c *outcomes) add(kind, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]map[string]int)
	}
	if c.counts[kind] == nil {
		c.counts[kind] = make(map[string]int)
	}
	c.counts[kind][outcome]++
}

func (c *outcomes) tell(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var kinds []string
	for kind := range c.counts {
		kinds = append(kinds, kind)
	}
	sort.Strings(kinds)
	for _, kind := range kinds {
		total, outcomes := 0, []string{}
		for outcome, n := range c.counts[kind] {
			total += n
			outcomes = append(outcomes, fmt.Sprintf("%d %s", n, outcome))
		}
		sort.Strings(outcomes)
		tell(t, kind, total, strings.Join(outcomes, ", "))
	}
}

// damages are the kinds of damage to a file.
var damages = map[string]func(*rand.Rand, string) error{
	"a bit flipped": func(random *rand.Rand, path string) error {
		return change(path, func(content []byte) []byte {
			content[random.Intn(len(content))] ^= 1 << random.Intn(8)
			return content
		})
	},
	"cut": func(random *rand.Rand, path string) error {
		return change(path, func(content []byte) []byte { return content[:random.Intn(len(content))] })
	},
	"deleted": func(_ *rand.Rand, path string) error { return os.Remove(path) },
}

func change(path string, how func([]byte) []byte) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, how(content), 0o600)
}

// kindOf returns the kind of a file in a data folder.
func kindOf(path string) string {
	parts := strings.Split(filepath.ToSlash(path), "/")
	switch {
	case parts[0] == "log" && strings.Contains(path, "ALLOT_REJECTED"):
		return "rejected commands"
	case parts[0] == "log" && strings.HasSuffix(path, ".blk"):
		return "the log's blocks"
	case parts[0] == "log" && len(parts) == 2:
		return "the log's high-water mark"
	case parts[0] == "log":
		return "the log's index and configuration"
	case parts[0] == "readmodel" && strings.HasSuffix(path, ".sst"):
		return "read models' tables"
	case parts[0] == "readmodel":
		return "read models' other files"
	}
	return parts[0]
}

// TestDamagedFiles flips bits in files of every kind, cuts or deletes them, in
// the data folder of a killed server and of one that stopped in order. The server
// then refuses, and changes no byte; or it serves the same contents.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "operator.example", key)
	flags := []string{"--pace-snapshot-records", "20", "--signing-key", key}
	stopped := filepath.Join(t.TempDir(), "data")
	s := launch(t, stopped, flags...)
	s.makeProvider(1000)
	for range 60 {
		s.must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	s.must(
		http.StatusConflict, "PUT", "/allocations/"+uuid.NewString(),
		strings.Replace(allocation(), `"VCPU":1`, `"VCPU":5000`, 1),
	)
	want := contents{
		s.must(http.StatusOK, "GET", "/audit/records", ""), s.must(http.StatusOK, "GET", provider+"/allocations", ""),
	}
	s.terminate()
	s = launch(t, stopped, flags...) // once more, so that the read models have tables
	s.terminate()
	killed := copied(t, stopped)
	launch(t, killed, flags...).kill()

	random := rand.New(rand.NewSource(5))
	var found outcomes
	slots := make(chan struct{}, 2)
	var all sync.WaitGroup
	for n := range times(36, 200) {
		whole := stopped
		if n%2 == 1 {
			whole = killed
		}
		data := copied(t, whole)
		kind, what := damageOne(t, random, data, n/2)
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			found.add(kind, afterDamage(t, data, what, want))
			if err := os.RemoveAll(data); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found.tell(t)
	refusals := 0
	for _, byOutcome := range found.counts {
		refusals += byOutcome["refused"]
	}
	if refusals == 0 {
		t.Error("no damage was ever refused: the test damages nothing")
	}
}

// contents are everything that must be the same after damage was repaired.
type contents struct{ records, allocations string }

// damageOne damages a file of the nth kind.
func damageOne(t *testing.T, random *rand.Rand, data string, n int) (kind, what string) {
	t.Helper()
	byKind := make(map[string][]string)
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(data, path)
		if info, infoErr := entry.Info(); infoErr == nil && info.Size() > 0 {
			kind := kindOf(relative)
			byKind[kind] = append(byKind[kind], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var kinds, ways []string
	for kind := range byKind {
		kinds = append(kinds, kind)
	}
	for way := range damages {
		ways = append(ways, way)
	}
	sort.Strings(kinds)
	sort.Strings(ways)
	kind = kinds[n%len(kinds)]
	path := byKind[kind][random.Intn(len(byKind[kind]))]
	way := ways[random.Intn(len(ways))]
	if err := damages[way](random, path); err != nil {
		t.Fatal(err)
	}
	return kind, fmt.Sprintf("%s: %s", strings.TrimPrefix(path, data), way)
}

// afterDamage returns how the server reacted to the damage.
func afterDamage(t *testing.T, data, what string, want contents) string {
	t.Helper()
	before := bytesOf(t, data)
	s := start(t, data)
	serves := s.waitServing()
	if !serves && strings.Contains(s.logs.String(), "read models set aside") {
		s = start(t, data) // as a supervisor does
		serves = s.waitServing()
	}
	defer s.kill()
	if !serves {
		if after := bytesOf(t, data); after != before {
			t.Errorf("%s: refused, and changed on the disk", what)
		}
		if text := s.logs.String(); !strings.Contains(text, "To recover") || strings.Contains(text, "panic") ||
			strings.Contains(text, "goroutine") {
			t.Errorf("%s: refused without good advice:\n%s", what, text)
		}
		return "refused"
	}
	leave := s.supervise()
	got := contents{s.eventually("/audit/records"), s.eventually(provider + "/allocations")}
	leave()
	if got.records != want.records && !strings.HasPrefix(got.records, want.records) ||
		got.allocations != want.allocations {
		t.Errorf("%s: what is read is not what was written:\n%s", what, s.logs)
		return "WRONG"
	}
	return "served the same"
}

// eventually reads something of a server that meets damage, ends and is started again.
// An answer that had begun by then has an error at its end, or none.
func (s *server) eventually(path string) (answer string) {
	s.t.Helper()
	ledgertest.WaitFor(s.t, path, func() bool {
		status, text, err := s.call("GET", path, "", "")
		if err == nil && status != http.StatusOK && status != http.StatusServiceUnavailable {
			s.t.Fatalf("%s: %d %s, %v\n%s", path, status, text, err, s.logs)
		}
		answer = text
		return err == nil && status == http.StatusOK && !strings.Contains(text, "\n{\"error\":") && !strings.HasPrefix(text, "{\"error\":")
	})
	return answer
}
