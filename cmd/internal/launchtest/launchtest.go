// Package launchtest builds the programs, and runs them for tests.
package launchtest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// Coverage is the folder in which processes of the programs write their coverage, for
// .ci/cover; empty: they do not.
var Coverage = os.Getenv("ALLOT_COVER")

// folder has the built programs.
var folder string

// Program returns the path of a built program.
func Program(name string) string { return filepath.Join(folder, name) }

// Setup builds programs, which Program finds until cleanup is called.
func Setup(programs ...string) (cleanup func()) {
	dir, err := os.MkdirTemp("", "allot-test")
	if err != nil {
		panic(err)
	}
	folder = dir
	for _, name := range programs {
		from := "github.com/allot-project/allot/cmd/" + name
		build := []string{"-tags", paces, from}
		if Coverage != "" {
			build = append([]string{"-cover", "-coverpkg=github.com/allot-project/allot/..."}, build...)
			if err := os.Setenv("GOCOVERDIR", Coverage); err != nil {
				panic(err)
			}
		}
		if out, err := Build(Program(name), build...); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			os.Exit(1)
		}
	}
	flag.Parse()
	if !given("test.parallel") { // these tests wait for processes more than they compute
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	return func() { _ = os.RemoveAll(dir) } // it is in the folder for temporary files
}

// Main builds programs, and runs the tests of a package.
func Main(m *testing.M, programs ...string) {
	cleanup := Setup(programs...)
	code := m.Run()
	cleanup()
	os.Exit(code)
}

// paces is the tag of programs that take flags for how often they do their own upkeep.
const paces = "allot_paces"

// Build builds a program as packages do, with which it shares Go's build cache.
func Build(path string, args ...string) (out []byte, err error) {
	build := exec.Command("go", append([]string{"build", "-trimpath", "-o", path}, args...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	return build.CombinedOutput()
}

// given reports whether a flag is on the command line.
func given(name string) (is bool) {
	flag.Visit(func(f *flag.Flag) { is = is || f.Name == name })
	return is
}

// Run runs a command of a program, with variables in its environment. It must succeed or
// fail, as wanted.
func Run(t *testing.T, good bool, program string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(Program(program), args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if (err == nil) != good {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Shell runs a command line of a program, as a shell reads it, with nothing on standard input. Each
// value of a variable, as of $FILE, stands as "$FILE" in what is printed.
func Shell(t *testing.T, program, line string, variables map[string]string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ledgertest.Hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", `exec "$0" `+line, Program(program))
	cmd.Env = os.Environ()
	longestFirst := slices.SortedFunc(maps.Keys(variables), func(a, b string) int {
		return cmp.Or(len(variables[b])-len(variables[a]), strings.Compare(a, b))
	})
	for _, name := range longestFirst {
		cmd.Env = append(cmd.Env, name+"="+variables[name])
	}
	text, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &failed) {
		t.Fatalf("%s %s: %v, %v\n%s", program, line, ctx.Err(), err, text)
	}
	out = string(text)
	for _, name := range longestFirst {
		out = strings.ReplaceAll(out, variables[name], "$"+name)
	}
	return out, cmd.ProcessState.ExitCode()
}

// Read returns what a file holds.
func Read(t testing.TB, path string) string {
	t.Helper()
	return string(ledgertest.ReadFile(t, path))
}

// Write makes a file, or another content for it.
func Write(t testing.TB, path, content string) {
	t.Helper()
	ledgertest.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

// Output runs a command, which must succeed, and returns all that it prints.
func Output(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// Says requires that a text, such as what a program printed, has all of these parts.
func Says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// BytesOf returns a digest of everything in a folder but the lock, which has no contents.
func BytesOf(t *testing.T, folder string) string {
	t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == "lock" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(sum, "%s %d %x\n", strings.TrimPrefix(path, folder), len(content), sha256.Sum256(content))
		return err
	})
	ledgertest.OK(t, err)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// Send sends a request with some headers, and returns the status and the body of its
// answer. It leaves out empty headers.
func Send(method, url, body string, headers map[string]string) (int, string, error) {
	resp, answer, err := Exchange(method, url, body, headers)
	if err != nil {
		return 0, "", err
	}
	return resp.StatusCode, answer, nil
}

// Answer is Send for an answer that must have a status.
func Answer(t testing.TB, want int, method, url, body string, headers map[string]string) string {
	t.Helper()
	status, answer, err := Send(method, url, body, headers)
	if err != nil || status != want {
		t.Fatalf("%s %s: %d %s, %v; want %d", method, url, status, answer, err, want)
	}
	return answer
}

// client waits for no answer for ever, so that a server that hangs fails its own test.
var client = http.Client{Timeout: ledgertest.Hang}

// Exchange is Send for an answer whose header counts, too.
func Exchange(method, url, body string, headers map[string]string) (*http.Response, string, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	for name, value := range headers {
		switch {
		case value == "":
		case name == "Host":
			req.Host = value
		case name == "Connection":
			req.Close = value == "close"
		default:
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	answer, err := io.ReadAll(resp.Body)
	return resp, string(answer), err
}
