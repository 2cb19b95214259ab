package placementdb_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/importing/placementdb"
	"github.com/allot-project/allot/commands/importing/placementdb/placementdbtest"
)

// startDeadline is how long a database may take to start.
const startDeadline = 2 * time.Minute

// The password has characters that addresses must escape.
const (
	password = "s3cr/t@1"
	escaped  = "s3cr%2Ft%401"
)

// postgresServer starts a PostgreSQL of its own, and returns its host and port.
func postgresServer(t *testing.T) string {
	t.Helper()
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		t.Skip("skipped: there is no PostgreSQL server on this machine")
	}
	real, err := filepath.EvalSymlinks(initdb)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as := ordinaryUser(t, dir)
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o644); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	run := func(program string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(filepath.Dir(real), program), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	if out, err := run("initdb", "-D", data, "-U", "placement", "--auth=scram-sha-256", "--pwfile="+secret,
		"--no-sync", "-E", "UTF8").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	address := freePort(t)
	_, port, _ := net.SplitHostPort(address)
	server := run("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+dir,
		"-c", "fsync=off")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait()
	})
	return address
}

// ordinaryUser returns a user for the server, which refuses to run as root.
func ordinaryUser(t *testing.T, dir string) *syscall.Credential {
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

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// connected waits until the database answers.
func connected(t *testing.T, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for deadline := time.Now().Add(startDeadline); ; time.Sleep(20 * time.Millisecond) {
		err := db.PingContext(t.Context())
		if err == nil {
			return db
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestPostgreSQL reads everything as of one moment, though others write meanwhile,
// and shows no password in any error.
func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	address := postgresServer(t)
	url := fmt.Sprintf("postgresql://placement:%s@%s/", escaped, address)
	admin := connected(t, url+"postgres")
	placementdbtest.Fill(t, admin, "CREATE DATABASE placement", "CREATE DATABASE empty")
	db := connected(t, url+"placement")
	placementdbtest.Fill(t, db, placementdbtest.Statements("TIMESTAMP")...)

	source, err := placementdb.Parse("postgresql+psycopg2://placement:" + escaped + "@" + address + "/placement")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := source.Read(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sameWorld(t, rows, "postgresql://"+address+"/placement")
	oneMoment(t, source, db)

	for from, why := range map[string]string{
		fmt.Sprintf("postgresql://placement:%s@%s/placement", "wr0ng%2Fpass", address): "password authentication failed",
		url + "empty": "no tables at all",
		url + "none":  `database "none" does not exist`,
	} {
		_, err := read(t, from)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; want %q", from, err, why)
		}
		for _, secret := range []string{"wr0ng", password, escaped} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
}

// oneMoment writes to the database in the middle of a read: the read shows
// nothing of it.
func oneMoment(t *testing.T, source *placementdb.Database, db *sql.DB) {
	t.Helper()
	// More rows than a report of progress, so that the writes come in between.
	placementdbtest.Fill(t, db, `INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id)
		SELECT '2024-01-01 00:00:00', n, '00000000-0000-4000-8000-' || lpad(n::text, 12, '0'), 'n' || n, 0, n
		FROM generate_series(100, 3000) AS n`)
	var once bool
	rows, err := source.Read(t.Context(), func(_, _ uint64) {
		if once {
			return
		}
		once = true
		placementdbtest.Fill(t, db, "DELETE FROM allocations", "UPDATE consumers SET generation = 99", "DELETE FROM traits")
	})
	if err != nil || !once {
		t.Fatal(once, err)
	}
	if len(rows.Allocations) != 2 || rows.Consumers[0].Generation.Value != 2 || len(rows.Traits) != 2 {
		t.Errorf("it shows two moments: %d allocations, generation %d, %d traits",
			len(rows.Allocations), rows.Consumers[0].Generation.Value, len(rows.Traits))
	}
	var left int
	if err := db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM allocations").Scan(&left); err != nil || left != 0 {
		t.Errorf("the writes did not happen: %d, %v", left, err)
	}
}
