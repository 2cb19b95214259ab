package main_test

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHelp: the program says what its commands are for, and how a shell completes them.
func TestHelp(t *testing.T) {
	t.Parallel()
	run := func(args ...string) string { return allot(t, true, args...) }
	usual, all, page := run("serve", "--help"), run("serve", "--help-all"), run("manual")
	for name, row := range map[string]struct{ out, has string }{
		"commands by purpose": {run(), "Look at what was:\n  series "},
		"version":             {run("--version"), "allot 0."},
		"example":             {usual, "Example:\n\n    allot serve --data "},
		"usual":               {usual, "--help-all shows all"},
		"groups":              {all, "\nProxies and browsers:\n  --trusted-proxy"},
		"bash":                {run("completion", "bash"), "complete -o default -o bashdefault -C " + binary + " allot"},
		"zsh":                 {run("completion", "zsh"), "bashcompinit"},
		"fish":                {run("completion", "fish"), "complete -f -c allot"},
		"man page":            {page, ".SH EXIT STATUS\n.TP\n\\fB0\\fP\nIt is done"},
		"examples":            {page, "their usage\\&. Example: allot get provider host-007"},
		"files":               {page, "/etc/allot/allot\\&.yaml"},
	} {
		if !strings.Contains(row.out, row.has) {
			t.Errorf("%s: %q is missing in\n%s", name, row.has, row.out)
		}
	}
	if run("help", "serve") != usual {
		t.Error("allot help serve is not allot serve --help")
	}
	if n := strings.Count(usual, "\n  --") + strings.Count(usual, "\n      --") - 3; n != 15 {
		t.Errorf("%d flags are usual:\n%s", n, usual)
	}
	if n := strings.Count(page, "\n"); n >= 400 {
		t.Errorf("the man page has %d lines", n)
	}
}

// TestStartWithoutKeystone: a Keystone that is down keeps no server from starting. The start and /readyz say it, and
// the start tells where the console is, and whence a token comes.
func TestStartWithoutKeystone(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir(), "--keystone-url", "http://127.0.0.1:1/v3")
	says(t, s.Must(200, "GET", "/readyz", ""), `"keystone":"Keystone does not answer`)
	ledgertest.WaitFor(t, "the message of the start", func() bool { return strings.Contains(s.Logs.String(), "msg=serving") })
	says(t, s.Logs.String(),
		"level=WARN msg=\"Keystone does not answer", "nothing listens there", "console=http://"+s.HTTP+"/console/",
		"token=\"of Keystone: openstack token issue\"")
	s.Terminate()
}
