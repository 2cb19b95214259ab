package main

import (
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

func TestMain(m *testing.M) { launchtest.Main(m, "allot", name) }

var (
	must  = ledgertest.OK
	says  = launchtest.Says
	read  = launchtest.Read
	write = launchtest.Write
)

// allot runs a command of the server's program, which must succeed or fail, as wanted.
func allot(t *testing.T, good bool, args ...string) string {
	t.Helper()
	return launchtest.Run(t, good, "allot", nil, args...)
}

// migrate runs a command of this program, which must succeed or fail, as wanted.
func migrate(t *testing.T, good bool, args ...string) string {
	t.Helper()
	return launchtest.Run(t, good, name, nil, args...)
}

// migrateWith is migrate with a variable in the environment.
func migrateWith(t *testing.T, variable string, good bool, args ...string) string {
	t.Helper()
	return launchtest.Run(t, good, name, []string{variable}, args...)
}
