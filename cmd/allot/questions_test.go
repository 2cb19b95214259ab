package main_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

func consumerID(n int) string { return fmt.Sprintf("22222222-2222-4222-8222-%012d", n) }

// TestOrphans compares a ledger with a list, and releases what orphans hold.
func TestOrphans(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir())
	s.makeProvider(100)
	for i := range 6 {
		s.Must(204, "PUT", "/allocations/"+consumerID(i), allocation())
	}
	s.Must(204, "DELETE", "/allocations/"+consumerID(4), "")
	dir := t.TempDir()
	file := filepath.Join(dir, "known")
	write(t, file, "# everybody\n"+consumerID(0)+"\n\n"+consumerID(1)+" # one\n"+consumerID(4)+"\n"+consumerID(9)+"\n")
	orphans := func(good bool, args ...string) string {
		t.Helper()
		return allot(t, good, append([]string{"orphans", "--url", s.HTTP}, args...)...)
	}
	says(t, orphans(true, "--older-than", "0s", "--consumers", file),
		"orphan   "+consumerID(2), "orphan   "+consumerID(3), "orphan   "+consumerID(5),
		"allocation delete "+consumerID(5), "made by admin with AllocateForConsumers",
		"missing  "+consumerID(4)+"\n         holds nothing since", "ReleaseConsumer",
		"missing  "+consumerID(9)+"\n         holds nothing, and never did", "3 orphans, 2 owners")
	says(t, orphans(true, "--older-than", "0s", "--consumers", file, "--at", "4"), "1 hold something: 0 orphans")
	orphans(false, "--consumers", file, "--at", "4", "--yes")
	says(t, orphans(true, "--consumers", file), "0 orphans, 2 owners without allocations; 5 changed")
	if out := orphans(true, "--older-than", "0s", "--consumers", file, "--yes", "--json"); strings.Count(
		out, `"healed":"released"`,
	) != 3 {
		t.Errorf("%s", out)
	}
	for i, want := range map[int]bool{0: true, 1: true, 2: false, 3: false, 5: false} {
		if got := strings.Contains(s.Must(200, "GET", "/allocations/"+consumerID(i), ""), "VCPU"); got != want {
			t.Errorf("consumer %d holds something: %v", i, got)
		}
	}
	says(t, orphans(true, "--older-than", "0s", "--consumers", file, "--yes"), "0 orphans")
}

// TestEverydayReads: what the command line prints of a small ledger, and of records as they come, until it is
// interrupted. The package ask tests each answer.
func TestEverydayReads(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir())
	s.makeProvider(8)
	s.Must(http.StatusNoContent, "PUT", "/allocations/"+consumerID(1), allocation())
	s.mustMetal(http.StatusCreated, "POST", "/nodes", `{"driver": "ipmi", "name": "metal", "resource_class": "gold"}`)
	ledgertest.Answers(t, "testdata/reads.txt", func(line, want string) string {
		return ledgertest.Has(allot(t, true, append(strings.Fields(line)[1:], "--url", s.HTTP)...), want)
	})
	follow := exec.Command(binary, "log", "--url", s.HTTP, "--from", "6", "--follow")
	pipe, err := follow.StdoutPipe()
	must(t, err)
	must(t, follow.Start())
	s.Must(http.StatusNoContent, "DELETE", "/allocations/"+consumerID(1), "")
	lines := bufio.NewReader(pipe)
	for _, want := range []string{"COMMAND", "ReleaseConsumer"} {
		line, err := lines.ReadString('\n')
		must(t, err)
		says(t, line, want)
	}
	must(t, follow.Process.Signal(os.Interrupt), follow.Wait())
}
