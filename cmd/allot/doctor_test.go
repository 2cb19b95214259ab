package main_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoctor: what the doctor finds, and whether it ends well, for flags that
// are good and for each that is not.
func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := launch(t, filepath.Join(dir, "data"))
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	open, text := filepath.Join(dir, "open"), filepath.Join(dir, "text")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { // whatever the umask
		t.Fatal(err)
	}
	write(t, text, "hello")
	nobody := freeAddress(t)
	data := filepath.Join(dir, "data")
	for _, row := range []struct {
		args       []string
		what, kind string
		says       string
	}{
		{[]string{"--data", filepath.Join(dir, "new")}, "data folder", "ok", "is not there yet"},
		{[]string{"--data", data}, "data folder", "ok", "is closed to others"},
		{[]string{"--data", open}, "data folder", "warning", "can be entered by anybody"},
		{[]string{"--data", text}, "data folder", "fault", "is no folder"},
		{nil, "disk sync", "", "in the middle of"},
		{nil, "open files", "", "at most"},
		{[]string{"--data", data, "--http", s.http}, "server", "ok", "it runs at " + s.http + " as leader"},
		{[]string{"--http", other.Listener.Addr().String()}, "--http", "fault", "not by Allot"},
		{[]string{"--http", "192.0.2.1:80", "--allow-noauth"}, "--http", "fault", "192.0.2.1"},
		{[]string{"--http", "0.0.0.0:0"}, "flags", "fault", "other machines can reach"},
		{[]string{"--tls-cert", text, "--tls-key", text}, "--tls-cert", "fault", "PEM"},
		{[]string{"--nats-url", "nats://" + nobody}, "--nats-url", "fault", "no servers available"},
		{[]string{"--keystone-url", "http://" + nobody}, "--keystone-url", "fault", "connection refused"},
		{nil, "--keystone-url", "warning", "not authenticated"},
	} {
		args := append([]string{"doctor", "--json", "--data", dir, "--http", "127.0.0.1:0", "--nats", ""}, row.args...)
		out, ok := call(t, args...)
		found, faults := false, 0
		for scan := bufio.NewScanner(strings.NewReader(out)); scan.Scan(); {
			var said struct{ What, Finding, Says, Do string }
			if json.Unmarshal(scan.Bytes(), &said) != nil {
				continue // the last line
			}
			if said.Finding == "fault" {
				faults++
			}
			found = found || said.What == row.what && strings.Contains(said.Says, row.says) &&
				(row.kind == "" || said.Finding == row.kind)
		}
		if !found || ok != (faults == 0) {
			t.Errorf("%q: %d faults, ends well: %v; want %s of %s with %q:\n%s", args, faults, ok, row.kind, row.what, row.says, out)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", ".allot-doctor-*")); err != nil || len(left) > 0 {
		t.Errorf("the doctor has left %q: %v", left, err)
	}
}
