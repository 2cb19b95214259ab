package placementdbtest

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// Password is that of the user placement in all servers. It has characters that
// addresses must escape.
const Password = "s3cr/t@1"

// Server is a database server of a test's own.
type Server struct {
	Process *launchtest.Server

	Scheme string // mysql or postgresql
	Host   string // HOST:PORT
	driver string
	admin  string // a database that always exists
}

// start starts a server that ends with the test, when a signal asks it to.
func start(t *testing.T, address string, cmd *exec.Cmd, end os.Signal) *launchtest.Server {
	t.Helper()
	s := launchtest.Begin(t, address, cmd)
	t.Cleanup(func() {
		_ = s.Cmd.Process.Signal(end) // it may have ended
		<-s.Exited
	})
	return s
}

// Kill ends the server at once with all its processes, as a crash does.
func (s *Server) Kill() {
	pid := s.Process.Cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // PostgreSQL has one for each client
	_ = s.Process.Cmd.Process.Kill()                                               // it may have ended
	for _, child := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
		}
	}
	<-s.Process.Exited
}

// Through returns the server as it is reached through another address.
func (s *Server) Through(address string) *Server {
	other := *s
	other.Host = address
	return &other
}

// Address returns the address of a database, with the password.
func (s *Server) Address(database string) string {
	u := url.URL{Scheme: s.Scheme, Host: s.Host, Path: "/" + database, User: url.UserPassword("placement", Password)}
	return u.String()
}

// Connection is Address as Placement's configuration has it.
func (s *Server) Connection(database string) string {
	driver := map[string]string{"mysql": "mysql+pymysql", "postgresql": "postgresql+psycopg2"}[s.Scheme]
	return fmt.Sprintf("%s://placement:%s@%s/%s", driver, url.QueryEscape(Password), s.Host, database)
}

// Create makes an empty database and connects to it.
func (s *Server) Create(t testing.TB, database string) *sql.DB {
	t.Helper()
	Fill(t, s.connect(t, s.admin), "CREATE DATABASE "+database)
	return s.connect(t, database)
}

// connect waits until the server answers.
func (s *Server) connect(t testing.TB, database string) *sql.DB {
	t.Helper()
	source := s.Address(database)
	if s.Scheme == "mysql" {
		source = fmt.Sprintf("placement:%s@tcp(%s)/%s", Password, s.Host, database)
	}
	db, err := sql.Open(s.driver, source)
	ledgertest.OK(t, err)
	t.Cleanup(func() { _ = db.Close() })
	ledgertest.WaitFor(t, "the database server", func() bool {
		err = db.PingContext(context.WithoutCancel(t.Context()))
		return err == nil
	}, func() any { return err })
	return db
}

// OnServers runs a test with a server of each kind that Placement runs on.
func OnServers(t *testing.T, test func(*testing.T, *Server)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) *Server{"MariaDB": MariaDB, "PostgreSQL": PostgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// Build makes a database, and runs statements in it, which depend on the database's type of times.
func (s *Server) Build(t testing.TB, database string, statements func(timeType string) []string) *sql.DB {
	t.Helper()
	db := s.Create(t, database)
	Fill(t, db, statements(map[string]string{"mysql": "DATETIME", "postgresql": "TIMESTAMP"}[s.Scheme])...)
	return db
}

// PostgreSQL starts a server, or skips the test where there is none.
func PostgreSQL(t *testing.T) *Server {
	t.Helper()
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		t.Skip("skipped: there is no PostgreSQL server on this machine")
	}
	programs := ledgertest.Must(filepath.EvalSymlinks(initdb))
	dir := folder(t)
	as := ordinaryUser(t, dir)
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(Password), 0o644); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(programs), program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	launchtest.Output(t, run("initdb", "-D", data, "-U", "placement", "--auth=scram-sha-256", "--pwfile="+secret,
		"--no-sync", "-E", "UTF8"))
	host, port := FreePort(t)
	process := start(t, host, run("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories="+dir, "-c", "fsync=off"), syscall.SIGINT)
	return &Server{Process: process, Scheme: "postgresql", Host: host, driver: "pgx", admin: "postgres"}
}

// MariaDB starts a server, or skips the test where there is none.
func MariaDB(t *testing.T) *Server {
	t.Helper()
	install, err1 := exec.LookPath("mariadb-install-db")
	program, err2 := exec.LookPath("mariadbd")
	if err1 != nil || err2 != nil {
		t.Skip("skipped: there is no MariaDB server on this machine")
	}
	dir := folder(t)
	// Each server that starts removes all servers' temporary tables from a shared folder.
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		return cmd
	}
	who := ledgertest.Must(user.Current())
	data, me := filepath.Join(dir, "data"), "--user="+who.Username
	launchtest.Output(t, run(install, "--no-defaults", "--datadir="+data, me, "--skip-test-db",
		"--auth-root-authentication-method=normal"))
	init := filepath.Join(dir, "init.sql")
	grants := fmt.Sprintf("CREATE USER IF NOT EXISTS placement@'%%' IDENTIFIED BY '%s';\n"+
		"GRANT ALL ON *.* TO placement@'%%';\n", Password)
	ledgertest.OK(t, os.WriteFile(init, []byte(grants), 0o600))
	host, port := FreePort(t)
	process := start(t, host, run(program, "--no-defaults", "--datadir="+data, me, "--port="+port,
		"--bind-address=127.0.0.1", "--socket="+filepath.Join(dir, "socket"), "--init-file="+init, "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=0", "--character-set-server=utf8mb4"), syscall.SIGTERM)
	return &Server{Process: process, Scheme: "mysql", Host: host, driver: "mysql", admin: "mysql"}
}

// folder is a folder with a short name, because names of sockets are short.
func folder(t testing.TB) string {
	t.Helper()
	dir := ledgertest.Must(os.MkdirTemp("", "db"))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// ordinaryUser returns a user for PostgreSQL, which refuses to run as root.
func ordinaryUser(t testing.TB, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("skipped: PostgreSQL does not run as root, and there is no user postgres")
	}
	uid, err1 := strconv.ParseUint(who.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(who.Gid, 10, 32)
	if err1 != nil || err2 != nil || os.Chown(dir, int(uid), int(gid)) != nil {
		t.Fatal(err1, err2)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// FreePort returns a free address of this machine.
func FreePort(t testing.TB) (address, port string) {
	t.Helper()
	address = ledgertest.FreeAddress(t)
	_, port, _ = net.SplitHostPort(address)
	return address, port
}
