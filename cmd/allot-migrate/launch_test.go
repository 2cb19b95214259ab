package main

import (
	"cmp"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/api/rest/resttest"
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

// play plays a transcript in testdata, which api/rest/resttest explains, with the server or proxy at an address.
func play(t *testing.T, name, address string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text := read(t, path)
	server := inFrontOf(address)
	server.Transport = &http.Transport{DisableKeepAlives: true} // uwsgi ends connections without saying so
	now := resttest.PlayText(t, path, text, func(*testing.T, string) *resttest.World {
		return &resttest.World{Handler: server, Version: func(header http.Header, version string) {
			header.Set("X-Auth-Token", "admin")
			header.Set("Openstack-Api-Version", "placement "+cmp.Or(version, "latest"))
		}}
	})
	if now != text {
		write(t, path, now)
	}
}
