package main

import (
	"os"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func TestMain(m *testing.M) { launchtest.Main(m, "allot", name) }

// ownServer is the program that was built for the tests.
func ownServer() serverFlags { return serverFlags{Allot: launchtest.Program("allot")} }

// TestBench: the bench command measures every way of submitting, and leaves
// nothing behind.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	out := launchtest.Run(t, true, name, nil, "--dir", dir, "--duration", "100ms", "--clients", "4", "--pipelined", "2")
	launchtest.Says(t, out, "msgpack, one per request", "JSON, one per request", "msgpack, pipelined", "JSON, pipelined")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestFloods: beside hostile clients of each kind, another one is answered.
func TestFloods(t *testing.T) {
	out := launchtest.Run(t, true, name, nil, "floods", "--dir", t.TempDir(), "--hostile", "8", "--duration", "1s")
	launchtest.Says(t, out, "in quiet", "beside the flood", "100ms after it", "query over NATS", "memory")
}

// TestRefusedCommands: a command line that cannot be carried out ends with an error that
// says why.
func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	launchtest.CheckFlags(t, name, description, &program{})
	text := t.TempDir() + "/text"
	ledgertest.OK(t, os.WriteFile(text, nil, 0o600))
	for _, c := range []struct {
		says string
		args []string
	}{
		{"is a file, or below one", []string{"--dir", text}},
		{"unexpected argument now", []string{"commands", "now"}},
		{"--providers 0", []string{"claim", "--providers", "0"}},
		{"--claims -1", []string{"claim", "--claims=-1"}},
		{"--prefer must be one of", []string{"claim", "--prefer", "blue"}},
		{"no server to measure", []string{"claim", "--allot", text}},
	} {
		if out := launchtest.Run(t, false, name, nil, c.args...); !strings.Contains(out, c.says) || strings.Contains(out, "panic") {
			t.Errorf("%q: %s; want an error with %q", c.args, out, c.says)
		}
	}
}

// TestBenchClaim runs the whole measurement on a small ledger.
func TestBenchClaim(t *testing.T) {
	t.Parallel()
	c := &benchClaimCommand{
		serverFlags: ownServer(), Providers: 300, Claims: 300, Connected: 4, Pipelined: 64, Prefer: "spread", OldWay: 50,
	}
	result, err := c.run(t.Context(), t.TempDir())
	ledgertest.OK(t, err)
	for name, taken := range map[string]*timings{"claims": result.claims, "half": result.half, "old way": result.old} {
		if taken.rate() <= 0 {
			t.Errorf("%s: %v a second", name, taken.rate())
		}
	}
	if result.rejected.Load() != 0 {
		t.Errorf("%d claims were rejected", result.rejected.Load())
	}
	if err := c.print(result); err != nil {
		t.Error(err)
	}
}
