package main_test

import (
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestDamagedFilesAreNotSilent flips bits in, and cuts, files of a stopped
// server: log, read models and snapshots. Afterwards the server refuses to
// start, or reading the log fails, or everything reads as before.
func TestDamagedFilesAreNotSilent(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	whole := t.TempDir()
	s := launch(t, whole, "--snapshot-records", "20")
	s.makeProvider(1000)
	for range 60 {
		s.must(http.StatusNoContent, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	wantLog := s.must(http.StatusOK, "GET", "/audit/records", "")
	wantAllocations := s.must(http.StatusOK, "GET", provider+"/allocations", "")
	s.kill()
	random := rand.New(rand.NewSource(5))
	results := map[string]int{}
	for range rounds {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(data, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		path := damageOneFile(t, random, data)
		results[afterDamage(t, data, path, wantLog, wantAllocations)]++
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(results)
	if results["refused"] == 0 {
		t.Error("no damage was ever refused: the test damages nothing")
	}
}

// afterDamage says what the server made of the damage.
func afterDamage(t *testing.T, data, path, wantLog, wantAllocations string) string {
	t.Helper()
	s := start(t, data)
	if !s.waitServing() {
		if s.logs.Len() == 0 {
			t.Errorf("%s: the server stopped without a word", path)
		}
		return "refused"
	}
	defer s.kill()
	status, log, err := s.call("GET", "/audit/records", "", "")
	if err != nil || status != http.StatusOK {
		return "reading refused"
	}
	if strings.Contains(log, `{"error":`) {
		return "reading found it"
	}
	status, allocations, err := s.call("GET", provider+"/allocations", "", "")
	if err != nil || status >= 500 {
		return "reading refused"
	}
	if log != wantLog && !strings.HasPrefix(log, wantLog) || allocations != wantAllocations {
		t.Errorf("%s: damage changed what is read, silently", path)
	}
	return "harmless"
}

func damageOneFile(t *testing.T, random *rand.Rand, data string) string {
	t.Helper()
	var files []string
	err := filepath.Walk(data, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	path := files[random.Intn(len(files))]
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := random.Intn(len(content))
	if random.Intn(5) == 0 {
		content = content[:at]
	} else {
		content[at] ^= 1 << random.Intn(8)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(path, data)
}
