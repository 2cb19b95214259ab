package main_test

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHelp: the program says what its commands are for, and how a shell completes them.
func TestHelp(t *testing.T) {
	t.Parallel()
	for args, has := range map[string]string{
		"":                 "Look at what was:\n  series ",
		"--version":        "allot 0.",
		"help serve":       "--help-all shows all",
		"serve --help-all": "\nProxies and browsers:\n  --trusted-proxy",
		"completion bash":  "complete -o default -o bashdefault -C " + binary + " allot",
		"manual":           ".SH EXIT STATUS\n.TP\n\\fB0\\fP\nIt is done",
	} {
		says(t, allot(t, true, strings.Fields(args)...), has)
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
