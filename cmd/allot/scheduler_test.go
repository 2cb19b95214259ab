package main_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSchedulers runs the schedulers of docs/claim.md as they stand there: twice,
// because the second time they are told the same again.
func TestSchedulers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/claim.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.Split(string(text), "```go\n")[1:]
	if len(programs) != 2 {
		t.Fatalf("docs/claim.md has %d programs", len(programs))
	}
	for i, program := range programs {
		s := launchUnguarded(t)
		small, large := "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
		for id, cores := range map[string]string{small: "2", large: "8"} {
			s.must(http.StatusOK, "POST", "/resource_providers", `{"name": "`+id+`", "uuid": "`+id+`"}`)
			s.must(http.StatusOK, "PUT", "/resource_providers/"+id+"/inventories", `{"resource_provider_generation": 0,
				"inventories": {"VCPU": {"total": `+cores+`}, "MEMORY_MB": {"total": 1024}}}`)
		}
		program, _, _ = strings.Cut(program, "```")
		path := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(path, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		ids := []string{
			"aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002", "aaaaaaaa-0000-4000-8000-000000000003",
		}
		for range 2 {
			cmd := exec.Command("go", "run", path)
			cmd.Env = append(os.Environ(), "NATS_URL=nats://"+s.nats)
			cmd.Stdin = strings.NewReader(ids[0] + " p 6 512\n" + ids[1] + " p 2 512\n" + ids[2] + " p 3 1\n")
			out, err := cmd.CombinedOutput()
			want := []string{ids[0] + " goes to " + large, ids[1] + " goes to " + small, ids[2] + " goes nowhere: "}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if err != nil || len(lines) != len(want) {
				t.Fatalf("program %d: %v\n%s", i, err, out)
			}
			for j := range want {
				if !strings.HasPrefix(lines[j], want[j]) {
					t.Errorf("program %d says\n%s\nwhere it should say\n%s", i, lines[j], want[j])
				}
			}
			if !strings.Contains(lines[2], "no_candidates") || !strings.Contains(lines[2], "free") {
				t.Errorf("program %d does not say why: %s", i, lines[2])
			}
		}
	}
}
