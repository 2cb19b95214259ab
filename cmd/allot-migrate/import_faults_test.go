package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// faultyLink is a connection to a server that something happens to once a number of bytes
// has come from the server.
type faultyLink struct {
	address string
	after   int64
	act     func() // in the middle; the bytes go on when it returns
	cut     bool   // the connection ends there

	once  sync.Once
	acted chan struct{} // closed when act has begun
}

// newLink listens for connections to a server until the test ends.
func newLink(t *testing.T, to string, l *faultyLink) *faultyLink {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l.address, l.acted = listener.Addr().String(), make(chan struct{})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go l.carry(client, to)
		}
	}()
	return l
}

// carry passes bytes on in both directions.
func (l *faultyLink) carry(client net.Conn, to string) {
	defer func() { _ = client.Close() }() // the other end sees the end
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client) // it ends with the connection
		_ = server.Close()
	}()
	if _, err := io.CopyN(client, server, l.after); err != nil {
		return
	}
	l.once.Do(func() {
		close(l.acted)
		if l.act != nil {
			l.act()
		}
	})
	if !l.cut {
		_, _ = io.Copy(client, server)
	}
}

// paddedProviders are statements that put providers into a database that has the world, of
// 200 bytes and more each.
func paddedProviders(n int) (list []string) {
	for first := 0; first < n; first += 1000 {
		var rows []string
		for i := first; i < min(n, first+1000); i++ {
			rows = append(rows, fmt.Sprintf("('2024-01-01 00:00:00', %d, '00000000-0000-4000-8000-%012d', 'host-%d-%s', 1, %d)",
				i+100, i, i, strings.Repeat("x", 100), i+100))
		}
		list = append(list, "INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id) VALUES "+
			strings.Join(rows, ", "))
	}
	return list
}

// faultyImport runs an import that must fail with a sentence, show no password, and
// leave nothing.
func faultyImport(t *testing.T, why, address string) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	cmd := exec.Command(launchtest.Program(name), "import", "placement", "--data", data)
	cmd.Env = append(os.Environ(), "ALLOT_PLACEMENT="+address, "OS_TOKEN=admin")
	text, err := cmd.CombinedOutput()
	out := string(text)
	if err == nil || !strings.Contains(out, why) || !strings.Contains(out, "nothing was imported") || strings.Contains(out, placementdbtest.Password) {
		t.Errorf("%v: %s; want %q", err, out, why)
	}
	if left, err := os.ReadDir(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestImportConnectionFaults cuts connections to databases at many places, and kills the
// databases in the middle: each import says what happened and leaves nothing.
func TestImportConnectionFaults(t *testing.T) {
	placementdbtest.OnServers(t, func(t *testing.T, server *placementdbtest.Server) {
		db := server.Build(t, "placement", placementdbtest.Statements)
		placementdbtest.Fill(t, db, paddedProviders(10_000)...) // some megabytes
		showsNoPassword(t, server)
		for _, after := range []int64{16_384, 200_000, 600_000, 1_200_000} {
			l := newLink(t, server.Host, &faultyLink{after: after, cut: true})
			faultyImport(t, "the connection was lost", server.Through(l.address).Connection("placement"))
		}
		l := newLink(t, server.Host, &faultyLink{after: 400_000, act: server.Kill})
		faultyImport(t, "the connection was lost", server.Through(l.address).Connection("placement"))
		faultyImport(t, "nothing listens there", server.Connection("placement"))
	})
}

// TestImportThroughBrokenAPI cuts connections to a REST API in the middle of an answer.
func TestImportThroughBrokenAPI(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	migrate(t, true, "import", "placement", "--data", data, "--from",
		"sqlite:"+placementdbtest.SQLite(t, paddedProviders(3000)...))
	s := launchtest.Launch(t, data)
	for _, after := range []int64{300, 100_000, 400_000} {
		l := newLink(t, s.HTTP, &faultyLink{after: after, cut: true})
		faultyImport(t, "EOF", "http://"+l.address)
	}
	s.Terminate()
}

// showsNoPassword holds an import in the middle: the command line of the process has
// no password, and the ledger, its output and its files have none afterwards. Killed there, it
// leaves a folder that no server serves, and it can be started again.
func showsNoPassword(t *testing.T, server *placementdbtest.Server) {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	for _, killed := range []bool{true, false} {
		release := make(chan struct{})
		l := newLink(t, server.Host, &faultyLink{after: 500_000, act: func() { <-release }})
		file := filepath.Join(t.TempDir(), "placement.conf")
		text := "[placement_database]\nconnection = " + server.Through(l.address).Connection("placement") + "\n"
		write(t, file, text)
		var out bytes.Buffer
		cmd := exec.Command(launchtest.Program(name), "import", "placement", "--from-file", file, "--data", data)
		cmd.Stdout, cmd.Stderr = &out, &out
		must(t, cmd.Start())
		<-l.acted
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
		if err != nil || !bytes.Contains(line, []byte("--from-file")) || bytes.Contains(line, []byte(placementdbtest.Password)) {
			t.Errorf("%q %v", line, err)
		}
		if killed {
			_ = cmd.Process.Kill() // the state of the process says whether it worked
		}
		close(release)
		if err := cmd.Wait(); (err != nil) != killed {
			t.Fatalf("%v: %s", err, out.String())
		}
		if killed {
			launchtest.Refused(t, data, "import", "unfinished", "it was to come from a Placement")
		}
		if strings.Contains(out.String(), placementdbtest.Password) {
			t.Error(out.String())
		}
	}
	s := launchtest.Launch(t, data)
	s.Must(200, "GET", "/resource_providers/"+importedHost, "")
	s.Terminate()
	if got := s.Logs.String(); strings.Contains(got, placementdbtest.Password) {
		t.Error(got)
	}
	noneHas(t, data, placementdbtest.Password)
}
