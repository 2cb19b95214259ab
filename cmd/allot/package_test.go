package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// machine is a copy of this one to install packages on: what is changed there
// lies in a layer of its own, which goes when the test ends.
type machine struct {
	t      *testing.T
	root   string // as this machine sees it
	mounts int    // the process that keeps the mounts
}

// newMachine lays a layer over the files of this machine.
func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	const script = `set -e
		mount -t tmpfs tmpfs "$1" && mkdir "$1/changes" "$1/work" "$1/root"
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changes,workdir=$1/work" "$1/root"
		mount -t proc proc "$1/root/proc" && mount --rbind /dev "$1/root/dev" && mkdir -p "$1/root/run/test"
		echo mounted; exec sleep infinity`
	keeper := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", dir)
	var said bytes.Buffer
	keeper.Stderr = &said
	out, err := keeper.StdoutPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		t.Skipf("skipped: no mounts of the test's own: %v", err)
	}
	t.Cleanup(func() {
		_ = keeper.Process.Kill() // it keeps the mounts, and does nothing else
		_ = keeper.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "mounted\n" {
		t.Skipf("skipped: no layer over the files of this machine: %q %v\n%s", line, err, &said)
	}
	return &machine{t: t, root: filepath.Join(dir, "root"), mounts: keeper.Process.Pid}
}

// command is one to be run on the machine.
func (m *machine) command(args ...string) *exec.Cmd {
	inside := append([]string{"--mount", fmt.Sprintf("--target=%d", m.mounts), "chroot", m.root}, args...)
	cmd := exec.Command("nsenter", inside...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	return cmd
}

// run runs a command there, which has to end well, and returns what it printed.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	return output(m.t, m.command(args...))
}

// fails runs a command there, which has to end badly.
func (m *machine) fails(args ...string) {
	m.t.Helper()
	if out, err := m.command(args...).CombinedOutput(); err == nil {
		m.t.Errorf("%q ended well:\n%s", args, out)
	}
}

// unit reads a setting of the installed unit.
func (m *machine) unit(key string) string {
	m.t.Helper()
	for line := range strings.Lines(m.run("cat", "/usr/lib/systemd/system/allot.service")) {
		if value, ok := strings.CutPrefix(line, key+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	m.t.Fatalf("the unit does not say %s", key)
	return ""
}

// service is the server as systemd would run it.
type service struct {
	m      *machine
	cmd    *exec.Cmd
	socket *net.UnixConn // where it tells how it is
	said   bytes.Buffer
}

// startService runs what the unit says, as the unit's user, and waits until it
// says that it is ready.
func (m *machine) startService() *service {
	m.t.Helper()
	const socket = "/run/test/notify"
	m.run("rm", "-f", socket)
	// The path of a socket is short: this process enters by the keeper's root.
	outside := fmt.Sprintf("/proc/%d/root%s", m.mounts, filepath.Join(m.root, socket))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: outside, Net: "unixgram"})
	must(m.t, err)
	m.t.Cleanup(func() { _ = conn.Close() }) // the service has ended
	m.run("chmod", "0777", socket, "/run/test")
	s := &service{m: m, socket: conn}
	user := m.unit("User")
	words := append([]string{"setpriv", "--reuid=" + user, "--regid=" + m.unit("Group"), "--clear-groups",
		"env", "NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=200000"}, strings.Fields(m.unit("ExecStart"))...)
	s.cmd = m.command(words...)
	s.cmd.Stderr = &s.said
	must(m.t, s.cmd.Start())
	m.t.Cleanup(func() { _ = s.cmd.Process.Kill() }) // it may have ended
	s.hears("READY=1")
	s.hears("WATCHDOG=1")
	return s
}

// hears waits until the server has told something to systemd.
func (s *service) hears(want string) {
	s.m.t.Helper()
	must(s.m.t, s.socket.SetReadDeadline(time.Now().Add(hang)))
	for message := make([]byte, 4096); ; {
		n, err := s.socket.Read(message)
		if err != nil {
			s.m.t.Fatalf("systemd was never told %s: %v\n%s", want, err, &s.said)
		}
		if string(message[:n]) == want {
			return
		}
	}
}

// stop ends the server as systemd does.
func (s *service) stop() {
	s.m.t.Helper()
	must(s.m.t, s.cmd.Process.Signal(syscall.SIGTERM))
	s.hears("STOPPING=1")
	if err := s.cmd.Wait(); err != nil {
		s.m.t.Fatalf("%v\n%s", err, &s.said)
	}
}

// debs are the package that make deb has built, and a newer release, which differs in its version alone.
func debs(t *testing.T) (older, newer string) {
	t.Helper()
	built, err := filepath.Glob("../../dist/allot_*.deb")
	if err != nil || len(built) != 1 {
		t.Skip("skipped: make deb has not been run")
	}
	if older, err = filepath.Abs(built[0]); err != nil {
		t.Fatal(err)
	}
	newer = filepath.Join(t.TempDir(), "newer.deb")
	const script = `set -eu
		dpkg-deb --raw-extract "$1" "$2"
		version=$("$2/usr/bin/allot" version | sed -n 's/^allot //p')
		sed -i "s|${version//./\\.}|9${version#?}|g" "$2"/usr/bin/*
		sed -i "s|^Version: .|Version: 9|" "$2/DEBIAN/control"
		dpkg-deb -Znone --build "$2" "$3"`
	output(t, exec.Command("bash", "-c", script, "bash", older, t.TempDir()+"/x", newer))
	return older, newer
}

// version is what the installed program says that it is.
func (m *machine) version() string {
	m.t.Helper()
	said := m.run("allot", "version")
	if !regexp.MustCompile(`(?s)^allot \S+\nlevel \d+\ncommit `).MatchString(said) {
		m.t.Errorf("it is %q", said)
	}
	return strings.Fields(said)[1]
}

// traces are the files and users of the package, but for the ledger's.
func (m *machine) traces() string {
	m.t.Helper()
	return m.run("sh", "-c", "find /etc /usr/bin /usr/lib/systemd /usr/share /run /var -xdev -name '*allot*'"+
		" ! -path '/var/lib/allot/*' | sort; getent passwd allot; getent group allot; true")
}

// TestPackage installs the package, starts what it installed as its unit says, uses it, upgrades it, goes
// back and removes it: the configuration stays as it was changed, and the ledger is never touched. Without
// a ledger a purge leaves nothing.
func TestPackage(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("skipped: only root installs packages")
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("skipped: there is no dpkg")
	}
	older, newer := debs(t)
	m := newMachine(t)
	m.run("rm", "-f", "/var/lib/man-db/auto-update") // the index of all manuals, which takes 6 s each time
	before := m.traces()
	m.run("dpkg", "--install", newer)
	for _, name := range []string{"allot", "allot-migrate", "allot-bench"} {
		m.run("gzip", "--test", "/usr/share/man/man1/"+name+".1.gz")
		m.run(name, "version")
	}
	upgraded := m.version()
	m.checkUnit()
	m.run("dpkg", "--purge", "allot")
	if after := m.traces(); after != before {
		t.Errorf("a purge leaves\n%s\nand before there was\n%s", after, before)
	}

	m.run("dpkg", "--install", older)
	if got := m.version(); got >= upgraded {
		t.Errorf("the older release is %s, and the newer one %s", got, upgraded)
	}
	if got := strings.TrimSpace(m.run("stat", "-c", "%A %U:%G", "/etc/allot/allot.yaml")); got != "-rw-r----- root:allot" {
		t.Errorf("the configuration, which may hold secrets, is %s", got)
	}
	rest, conf := freeAddress(t), "/etc/allot/allot.yaml"
	m.run("sed", "-i", "s|^http: .*|http: "+rest+"|; s|^nats: .*|nats: "+freeAddress(t)+"|", conf)
	changed := m.run("cat", conf)
	serves := func(made string, there ...string) {
		t.Helper()
		if got := m.run("cat", conf); got != changed {
			t.Errorf("%s has been changed:\n%s", conf, got)
		}
		s, placement := m.startService(), launchtest.Server{T: t, HTTP: rest}
		for _, id := range there {
			placement.Must(http.StatusOK, "GET", "/resource_providers/"+id, "")
		}
		body := `{"name": "` + made + `", "uuid": "` + made + `"}`
		placement.Must(http.StatusOK, "POST", "/resource_providers", body)
		s.stop()
	}
	const first, second, third = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222",
		"33333333-3333-4333-8333-333333333333"
	serves(first)
	m.run("dpkg", "--install", newer)
	if got := m.version(); got != upgraded {
		t.Errorf("after the upgrade it is %s, not %s", got, upgraded)
	}
	serves(second, first)
	m.run("dpkg", "--install", older)
	if got := m.version(); got == upgraded {
		t.Errorf("after the way back it is still %s", got)
	}
	serves(third, first, second)

	m.run("dpkg", "--remove", "allot")
	m.fails("test", "-e", "/usr/bin/allot")
	m.run("test", "-e", conf)
	says(t, m.run("dpkg", "--purge", "allot"), "the ledger in /var/lib/allot was kept")
	m.fails("test", "-e", conf)
	m.run("test", "-d", "/var/lib/allot/log")
	m.run("sh", "-c", "rm -r /var/lib/allot && userdel allot") // as it says
	if after := m.traces(); after != before {
		t.Errorf("what is left is\n%s\nand before there was\n%s", after, before)
	}
	if _, err := os.Stat("/var/lib/allot"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the test has left something on this machine: %v", err)
	}
}

// checkUnit has systemd read the unit.
func (m *machine) checkUnit() {
	m.t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		m.t.Log("skipped: systemd-analyze, which would read the unit, is not there")
		return
	}
	said := m.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/allot.service")
	if strings.Contains(said, "allot.service") {
		m.t.Errorf("systemd says of the unit:\n%s", said)
	}
}
