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
	ledgertest.Answers(t, "testdata/help.txt", func(line, want string) string {
		return ledgertest.Has(strings.ReplaceAll(run(strings.Fields(line)[1:]...), binary, "$PROGRAM"), want)
	})
	usual := run("serve", "--help")
	if run("help", "serve") != usual {
		t.Error("allot help serve is not allot serve --help")
	}
	if n := strings.Count(usual, "\n  --") + strings.Count(usual, "\n      --") - 2; n != 15 {
		t.Errorf("%d flags are usual:\n%s", n, usual)
	}
	if n := strings.Count(run("manual"), "\n"); n >= 400 {
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
