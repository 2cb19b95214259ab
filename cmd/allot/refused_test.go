package main_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exit runs the binary with nothing on standard input, and returns its exit status, too.
func exit(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	text, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("%v: %v", args, err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%v hangs:\n%s", args, text)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// files are the arguments of refused commands.
type files struct {
	text, nothing, badYAML, unknownKey, secret, long, badPolicy, key, archive, data, empty, missing string

	silent string // an address that does not answer
}

// someFiles makes the files. The data folder is that of a ledger of two commits.
func someFiles(t *testing.T) (f files, public string) {
	t.Helper()
	dir := t.TempDir()
	make := func(name, contents string) string {
		path := filepath.Join(dir, name)
		write(t, path, contents)
		return path
	}
	f = files{
		text: make("text", "hello"), nothing: make("nothing", ""), badYAML: make("bad.yaml", "data: [\n"),
		unknownKey: make("unknown.yaml", "snapshot-recrods: 5\n"), secret: make("secret", "not as long"),
		long: make("long", "0123456789abcdef"), badPolicy: make("policy.yaml", "placement:traits:list: 'role:admin or'\n"),
		key: filepath.Join(dir, "key"), archive: filepath.Join(dir, "archive"), data: filepath.Join(dir, "data"),
		empty: filepath.Join(dir, "empty"), missing: filepath.Join(dir, "missing"),
	}
	must(t, os.Mkdir(f.empty, 0o750))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	f.silent = listener.Addr().String()
	make("text.sql", "")
	public = strings.TrimSpace(allot(t, true, "signing-key", "op.example", f.key))
	s := launch(t, f.data)
	s.Must(http.StatusOK, "POST", "/resource_providers", `{"name":"node"}`)
	s.End()
	s.Kill()
	allot(t, true, "export", f.archive, "--data", f.data)
	return f, public
}

// newFolder stands for a data folder that does not exist.
const newFolder = "NEW FOLDER"

// refusal is a command line that cannot be carried out, and a part of its error.
type refusal struct {
	says string
	args []string
}

// refusals are command lines, each with another fault.
func refusals(f files, public, taken string) []refusal {
	serve := func(args ...string) []string {
		return append([]string{"serve", "--data", newFolder, "--http", "127.0.0.1:0", "--nats", ""}, args...)
	}
	cluster := func(args ...string) []string {
		return append(serve("--cluster", "a:1,b:2,c:3", "--cluster-name", "zz"), args...)
	}
	return slices.Concat([]refusal{
		{`--http: "localhost" is not HOST:PORT`, serve("--http", "localhost")},
		{"other machines can reach --http 0.0.0.0:0", serve("--http", "0.0.0.0:0")},
		{"--http " + taken + ": another process has this address", serve("--http", taken)},
		{"other machines can reach --nats 0.0.0.0:0", serve("--nats", "0.0.0.0:0")},
		{"has its own users", serve("--nats-url", "nats://127.0.0.1:1", "--nats-users", f.text)},
		{"--nats-users " + f.text, serve("--nats", "127.0.0.1:0", "--nats-users", f.text)},
		{"--http 127.0.0.1:99999: 99999 is no port", serve("--http", "127.0.0.1:99999")},
		{"this machine has no such address", serve("--http", "192.0.2.1:8778", "--allow-noauth")},
		{`--nats-url "http://127.0.0.1:1" is no URL such as nats://`, serve("--nats-url", "http://127.0.0.1:1")},
		{"--nats-url nats://127.0.0.1:1: no NATS server answers there", serve("--nats-url", "nats://127.0.0.1:1")},
		{`--archive: not the URL of an archive: "/x"`, serve("--archive", "/x")},
		{`--log-level: "verbose" is none of debug, info, warn and error`, serve("--log-level", "verbose")},

		{`--cluster-lease: "5" is no duration such as 30s`, serve("--cluster-lease", "5")},
		{`did you mean "--data"?`, serve("--dta", "x")},
		{"unexpected argument extra", serve("extra")},
		{f.empty + " is a folder: name a file", serve("--config", f.empty)},
		{"its name is empty", []string{"serve", "--http", "127.0.0.1:0", "--nats", "", "--data", ""}},
		{"--data: it needs a value", []string{"serve", "--data"}},
		{"is neither a number of bytes, such as 256MiB, nor auto", serve("--disk-reserve", "much")},
		{"--tls-cert and --tls-key belong together", serve("--tls-cert", f.text)},
		{"--tls-cert " + f.text, serve("--tls-cert", f.text, "--tls-key", f.text)},
		{"has no private key that allot signing-key made", serve("--signing-key", f.text)},
		{"--policy-file " + f.text, serve("--policy-file", f.text)},
		{"--config: there is no " + f.missing, serve("--config", f.missing)},
		{"--config " + f.badYAML + ": line 1 is not YAML", serve("--config=" + f.badYAML)},
		{`unknown.yaml: "snapshot-recrods" is no flag`, serve("--config", f.unknownKey)},
		{"--trace-url: ", serve("--trace-url", "collector:4318")},
		{`--keystone-url "nonsense" is no URL such as`, serve("--keystone-url", "nonsense")},
		{"the data folder cannot be made", serve("--data", f.text)},
		{"the rule ends too early", serve("--policy-file", f.badPolicy)},
		{"--keystone-cloud nowhere", serve("--keystone-url", "http://127.0.0.1:5000/v3", "--keystone-cloud", "nowhere")},
		{"every client is an operator", serve("--nats", "127.0.0.1:21999", "--keystone-url", "http://127.0.0.1:5000/v3")},
		{"need --cluster, the list of all servers", serve("--cluster-name", "a")},
		{"--cluster-http needs", serve("--nats-url", "nats://127.0.0.1:1", "--cluster-http", "127.0.0.1:0")},
		{"--cluster-tls: there is no " + f.empty + "/cert.pem", cluster("--cluster-secret-file", f.long, "--cluster-listen", "127.0.0.1:0", "--cluster-tls", f.empty)},
		{"other machines can reach", cluster("--cluster-secret-file", f.long, "--cluster-listen", "0.0.0.0:0")},
		{"--cluster needs --cluster-secret-file", cluster()},
		{"must not contain blanks", cluster("--cluster-secret-file", f.secret, "--cluster-name", "a b")},
		{"name this server's with --cluster-listen", cluster("--cluster-secret-file", f.secret)},
		{"needs three", serve("--cluster", "a:1,b:2", "--cluster-secret-file", f.secret, "--cluster-listen", "127.0.0.1:0")},
		{"1s or more", cluster("--cluster-secret-file", f.secret, "--cluster-listen", "127.0.0.1:0", "--cluster-lease", "10ms")},
		{"shorter than 16 bytes", cluster("--cluster-secret-file", f.secret, "--cluster-listen", "127.0.0.1:0")},

		{`"ftp://x" is not http://HOST:PORT`, []string{"log", "--url", "ftp://x"}},
		{"contains no certificates", []string{"log", "--ca-file", f.text}},
		{`--candidates: invalid URL escape`, []string{"why-not", "--candidates", "%zz"}},
		{`"%zz" is no query such as resources=VCPU:4`, []string{"capacity", "%zz"}},
		{`--resources: "VCPU" is not CLASS=AMOUNT`, []string{"what-if", "--resources", "VCPU"}},
		{f.text + ": it is not JSON", []string{"what-if", f.text}},
		{"changes the present", []string{"orphans", "--consumers", f.text, "--yes", "--at", "3"}},
	}, logRefusals(f, public), []refusal{
		{"is no object in JSON", []string{"counters", "set", "5b7c4f2e-6a0e-4c58-9a3e-0f8a6d1c2b3d", "{"}},
		{"is not JSON", []string{"preferences", "set", "packed", "{"}},
		{"there is no " + f.missing, []string{"topologies", "set", "fabric", f.missing}},
		{"give the password on standard input", []string{"nats-password"}},
	})
}

// logRefusals are those of commands that read or write a log's files.
func logRefusals(f files, public string) []refusal {
	return []refusal{
		{f.text + " exists", []string{"export", f.text, "--archive", f.archive}},
		{"there is nothing from sequence 5 on", []string{"export", f.missing, "--archive", f.archive, "--from", "5"}},
		{"there is no sequence 9: the log ends at sequence 2", []string{"export", f.missing, "--archive", f.archive, "--to", "9"}},
		{"--nats-url: no NATS server answers there", []string{"export", f.missing, "--nats-url", "nats://127.0.0.1:1"}},
		{"not an archive that allot export wrote", []string{"import", f.text, "--data", f.missing}},
		{"belonged to a server", []string{"import", f.archive, "--data", f.data}},
		{"exactly one of --url, --data and --archive", []string{"backup", "--url", "a:1", "--data", f.data, "--to", "file://" + f.empty}},
		{"is given twice", []string{"backup", "--archive", f.archive, "--to", "file:///x", "--to", "file:///x"}},
		{"the archive is empty", []string{"restore", "--from", "file://" + f.empty, "--data", f.missing}},
		{"begins with neither", []string{"restore", "--from", f.archive, "--data", f.missing}},
		{"the archive is empty", []string{"verify", "--archive", "file://" + f.empty}},
		{"--state is for an archive", []string{"verify", "--archive", f.archive, "--state", f.missing}},
		{"belongs to a ledger, and a new one cannot begin beside it", []string{"init", "--data", f.data}},
		{"holds a log, which is not lost", []string{"cluster", "rejoin", "--data", f.data}},
		{"it holds no log", []string{"repair", "--data", f.empty, "--archive", filepath.Dir(f.text)}},
		{f.empty + " exists", []string{"replay", "--archive", f.archive, "--into", f.empty}},
		{"ends at sequence 2", []string{"replay", "--archive", f.archive, "--to", "9"}},
		{"--since proves nothing without --public-key", []string{"verify", "--archive", f.archive, "--since", f.text}},
		{"not a public key that allot signing-key printed", []string{"verify", "--archive", f.archive, "--public-key", f.text}},
		{"--public-key: there is no " + f.missing, []string{"verify", "--archive", f.archive, "--public-key", f.missing}},
		{"no signed checkpoint", []string{"verify", "--archive", f.archive, "--public-key", public}},
		{f.empty + " is empty", []string{"verify", "--data", f.empty}},
		{"not a good checkpoint", []string{"checkpoint", "--since", f.text, "--public-key", public}},
		{"give a RECORD, --since or --project", []string{"prove"}},
		{"--since needs --public-key", []string{"prove", "--since", f.text}},
		{"--public-key is needed", []string{"check-proof", f.text}},
		{"not evidence", []string{"check-proof", f.text, "--public-key", public}},
		{f.key + " exists: name another file", []string{"signing-key", "op.example", f.key}},
		{`"a b" cannot name a key`, []string{"signing-key", "a b", f.missing}},
		{"has no private key that allot signing-key made", []string{"sign", "--data", f.data, "--signing-key", f.text}},
	}
}

// askRefusals are those of a running server.
func askRefusals(server string) []refusal {
	ask := func(args ...string) []string { return append(args, "--url", server) }
	return []refusal{
		{"is this an Allot server? Check --url", []string{"log", "--url", "http://" + server + "/console"}},
		{"unknown flag --http", []string{"log", "--http", server}},
		{"resource_class: 'bad' is not made of A-Z, 0-9 and _", ask("limits", "set", "--class", "bad", "--most", "3")},
		{"no resource class VCPUX", ask("limits", "set", "--class", "VCPUX", "--most", "3")},
		{`--most: "x" is no whole number`, ask("limits", "set", "--class", "VCPU", "--most", "x")},
		{"missing flags: --most=N or --none", ask("limits", "set", "--class", "VCPU")},
		{"there are no such records", ask("history", "consumer", consumerID(1))},
		{`<of> must be one of "consumer",`, ask("history", "consumers", consumerID(1))},
		{`nothing found: no provider has the name "nosuch", or a uuid that begins with it`, ask("get", "provider", "nosuch")},
		{`nothing found: no provider has the name "nosuch"`, ask("holders", "nosuch", "--at", "1")},
		{"nothing found: consumer " + consumerID(1) + " holds nothing", ask("get", "consumer", consumerID(1))},
		{"nothing found: project q holds nothing", ask("get", "project", "q")},
		{"nothing found: there are no allocations", ask("list", "allocations")},
		{`did you mean "providers"?`, ask("list", "provider")},
		{"No such resource class VCPUS", ask("why-not", "--candidates", "resources=VCPUS:1")},
		{`"yesterday" is neither a sequence nor an RFC 3339 time`, ask("log", "--at", "yesterday")},
		{"no such moment: 99999: the sequence has not been reached", ask("log", "--at", "99999")},
		{"it was started without --cluster", ask("cluster", "status")},
		{"it has no key (--signing-key)", ask("checkpoint")},
		{"make it first", ask("backup", "--to", "file:///no/such/folder")},
	}
}

// libraries is what libraries, the kernel and bugs say.
var libraries = regexp.MustCompile(`panic|goroutine |%!|--help:|(listen|dial|read) tcp|no such file|not a directory|file exists|invalid character|\bEOF\b|deadline exceeded|` +
	`(: |\()(yaml|nats|tls|x509|slog|embedded|ledger|archive|bucket|policy): |unmarshal|does not validate|error_message|map\[|\*\w+\.\w+`)

// TestRefusedCommands: a command line that cannot be carried out ends with a sentence that says
// why in words of the program's own, and changes nothing. A server that
// was refused once starts when its flags are right.
func TestRefusedCommands(t *testing.T) {
	t.Parallel()
	f, public := someFiles(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = taken.Close() }) // nothing was written
	running := launch(t, t.TempDir())
	asked, begun := askRefusals(running.HTTP), ""
	for _, c := range append(asked, refusals(f, public, taken.Addr().String())...) {
		data := filepath.Join(t.TempDir(), "data")
		if i := slices.Index(c.args, newFolder); i >= 0 {
			c.args[i] = data
		}
		out, code := exit(t, c.args...)
		want := 1
		if strings.Contains(out, " --help shows what it takes") {
			want = 80
		}
		if code != want || !strings.Contains(out, c.says) || !strings.Contains(out, "allot: ") || libraries.MatchString(out) {
			t.Errorf("%q ends with %d; want %d and %q in words of its own:\n%s", c.args, code, want, c.says, out)
		}
		if _, err := os.Stat(data); err == nil && !slices.Contains(c.args, "--nats-url") {
			begun = data
		}
		for _, path := range []string{f.missing, filepath.Join(f.empty, "log")} {
			if _, err := os.Stat(path); err == nil {
				t.Fatalf("%q makes %s", c.args, path)
			}
		}
		if text, err := os.ReadFile(f.text); err != nil || string(text) != "hello" {
			t.Fatalf("%q changes a file to %q, %v", c.args, text, err)
		}
	}
	launch(t, begun).End()
	says(t, allot(t, true, "verify", "--data", f.data), "2")
}

// TestServeCheckFindsWhatWouldStopAStart: settings that are good end well, each fault is named, and
// nothing is made or changed.
func TestServeCheckFindsWhatWouldStopAStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := launch(t, filepath.Join(dir, "data"))
	text, config, fresh := filepath.Join(dir, "text"), filepath.Join(dir, "allot.yaml"), filepath.Join(dir, "new", "data")
	write(t, text, "hello")
	write(t, config, "log-level: info\n")
	for _, path := range []string{text, config} {
		if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		good bool
		says string
		args []string
	}{
		{true, "the server can start", nil},
		{true, "warning: every user of this machine can read " + config, []string{"--config", config}},
		{false, "--data " + text, []string{"--data", text}},
		{false, "another process has this address", []string{"--http", s.HTTP}},
		{false, "--metrics " + s.HTTP, []string{"--metrics", s.HTTP}},
		{false, "--policy-file", []string{"--policy-file", text}},
	} {
		args := append([]string{"serve", "--check", "--data", fresh, "--http", "127.0.0.1:0", "--nats", ""}, row.args...)
		if out, code := exit(t, args...); (code == 0) != row.good || !strings.Contains(out, row.says) {
			t.Errorf("%q ends with %d; want %v and %q:\n%s", row.args, code, row.good, row.says, out)
		}
	}
	if _, err := os.Stat(filepath.Dir(fresh)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the check has made a folder: %v", err)
	}
}
