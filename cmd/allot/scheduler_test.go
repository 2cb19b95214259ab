package main_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// TestSchedulers runs the schedulers of docs/claim.md as they stand there: twice,
// because the second time they are told the same again.
func TestSchedulers(t *testing.T) {
	t.Parallel()
	programs := strings.Split(read(t, "../../docs/claim.md"), "```go\n")[1:]
	if len(programs) != 3 {
		t.Fatalf("docs/claim.md has %d programs", len(programs))
	}
	checkSchedulerThatWaits(t, programs[2])
	for i, program := range programs[:2] {
		s := launchUnguarded(t)
		small, large := "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
		for id, cores := range map[string]string{small: "2", large: "8"} {
			s.provide(id, id, `"VCPU": {"total": `+cores+`}, "MEMORY_MB": {"total": 1024}`)
		}
		path := buildProgram(t, program)
		ids := []string{
			"aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002", "aaaaaaaa-0000-4000-8000-000000000003",
		}
		for range 2 {
			cmd := exec.Command(path)
			cmd.Env = append(os.Environ(), "NATS_URL=nats://"+s.nats)
			cmd.Stdin = strings.NewReader(ids[0] + " p 6 512\n" + ids[1] + " p 2 512\n" + ids[2] + " p 3 1\n")
			out := output(t, cmd)
			want := fmt.Sprintf("^%s goes to %s\n%s goes to %s\n%s goes nowhere: .*no_candidates.*free.*\n$", ids[0], large, ids[1], small, ids[2])
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("program %d says\n%s\nwhere it should say\n%s", i, out, want)
			}
		}
	}
}

// buildProgram builds a program of a document, up to the end of its block.
func buildProgram(t *testing.T, block string) (path string) {
	t.Helper()
	program, _, _ := strings.Cut(block, "```")
	path = filepath.Join(t.TempDir(), "main")
	write(t, path+".go", program)
	if out, err := launchtest.Build(path, path+".go"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// checkSchedulerThatWaits has a scheduler begin with a full host: the first instance
// waits until the host's holder leaves, and gets the room; the one that is too large for
// any host goes on waiting.
func checkSchedulerThatWaits(t *testing.T, program string) {
	t.Helper()
	s := launchUnguarded(t)
	const host, holder = "11111111-1111-4111-8111-111111111111", "bbbbbbbb-0000-4000-8000-000000000001"
	const small, large = "aaaaaaaa-0000-4000-8000-000000000001", "aaaaaaaa-0000-4000-8000-000000000002"
	s.provide(host, "host", `"VCPU": {"total": 4}`)
	s.Must(http.StatusNoContent, "PUT", "/allocations/"+holder, `{"allocations": {"`+host+`": {"resources": {"VCPU": 4}}},
		"project_id": "p", "user_id": "u", "consumer_generation": null, "consumer_type": "INSTANCE"}`)
	cmd := exec.CommandContext(t.Context(), buildProgram(t, program))
	cmd.Env = append(os.Environ(), "NATS_URL=nats://"+s.nats)
	cmd.Stdin, cmd.Stderr = strings.NewReader(large+" p 5\n"+small+" p 3\n"), os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { // it waits for the large one
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	expect := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
			if strings.Contains(lines.Text(), "goes") {
				t.Fatalf("the scheduler says %q, want %q", lines.Text(), want)
			}
		}
		t.Fatalf("the scheduler ended without %q: %v", want, lines.Err())
	}
	expect(large + " waits")
	expect(small + " waits")
	s.Must(http.StatusNoContent, "DELETE", "/allocations/"+holder, "")
	expect(small + " goes to " + host)
	expect(large + " waits")
}
