package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestSessionDocument runs what README.md and docs/session.md say, and compares what is printed with what stands there.
func TestSessionDocument(t *testing.T) {
	t.Parallel()
	text := read(t, "../../docs/session.md")
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address)
	_, started, _ := strings.Cut(read(t, "../../README.md"), "serve --data ./data\n#   ")
	started, _, _ = strings.Cut(started, "```")
	logged := ""
	ledgertest.WaitFor(t, "the message that it serves", func() bool {
		logged = regexp.MustCompile(`.* msg=serving .*\n`).FindString(s.Logs.String())
		return logged != ""
	})
	compareShown(t, "", strings.NewReplacer("127.0.0.1:8778", s.HTTP, "127.0.0.1:4222", address).Replace(started), &logged)
	script := ""
	for i, block := range strings.Split(text, "```sh\n") {
		if code, _, _ := strings.Cut(block, "```"); i > 0 {
			script += code
		}
	}
	script = strings.Replace(script, "go run ./cmd/allot", binary, 1)
	printsWhatItSays(t, t.TempDir(), script, "ALLOT_URL=http://"+s.HTTP)
}

// printsWhatItSays runs a script in a folder. Below each command that prints something stands what that is, in comments
// that begin with three spaces; "..." stands for any text, or alone on its line for any lines.
func printsWhatItSays(t *testing.T, dir, script string, environment ...string) {
	t.Helper()
	file := filepath.Join(dir, "script")
	write(t, file, script)
	cmd := exec.Command("bash", "-euv", file) // it tells each command before it carries it out
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	out := output(t, cmd)
	commands, printed, said := strings.Split(script, "\n"), "", ""
	for line := range strings.Lines(out) {
		if len(commands) == 0 || strings.TrimSuffix(line, "\n") != commands[0] {
			printed += line
			continue
		}
		commands = commands[1:]
		if shown, is := strings.CutPrefix(line, "#   "); is || line == "#\n" {
			said += strings.TrimPrefix(shown, "#")
			continue
		}
		compareShown(t, script, said, &printed)
		said = ""
	}
	compareShown(t, script, said, &printed)
}

// varying are times and ids, of which some differ each time.
var varying = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// compareShown compares what a command printed with what is said of it; ids that the script gives do not vary.
func compareShown(t *testing.T, script, said string, printed *string) {
	t.Helper()
	given := regexp.MustCompile(`(?m)^#   .*$`).ReplaceAllString(script, "")
	fixed := func(text string) string {
		return varying.ReplaceAllStringFunc(text, func(found string) string {
			if strings.Contains(given, found) {
				return found
			}
			return "varying"
		})
	}
	pattern := ""
	for line := range strings.Lines(fixed(said)) {
		if line == "...\n" {
			pattern += `(?:.*\n)*`
		} else {
			pattern += strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, ".*")
		}
	}
	got := strings.TrimRight(fixed(*printed), "\n") + "\n"
	if said == "" {
		pattern = "\n"
	}
	if !regexp.MustCompile("^" + pattern + "$").MatchString(got) {
		t.Errorf("a command prints\n%s\nand the document says\n%s", *printed, said)
	}
	*printed = ""
}

// TestConsumptionDocument runs what docs/consumption.md says on the way from an empty ledger to a
// bill and its proof. The server's clock is a month behind at first.
func TestConsumptionDocument(t *testing.T) {
	t.Parallel()
	_, script, _ := strings.Cut(read(t, "../../docs/consumption.md"), "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	keys, script, _ := strings.Cut(script, "allot serve --data ledger --signing-key key &\n")
	early, late, found := strings.Cut(script, "# a month later\n")
	if !found {
		t.Fatal("docs/consumption.md has no such commands")
	}
	dir := t.TempDir()
	run := func(address, script string) {
		t.Helper()
		printsWhatItSays(t, dir, "allot() { "+binary+` "$@"; }`+"\n"+script, "ALLOT_URL=http://"+address)
	}
	run("", keys)
	data, key := filepath.Join(dir, "ledger"), filepath.Join(dir, "key")
	flags := []string{"--signing-key", key, "--pace-commit-consumption"}
	s := launch(t, data, append(flags, "--pace-clock-behind", (31*24*time.Hour).String())...)
	run(s.HTTP, early)
	s.Terminate()

	s = launch(t, data, flags...)
	hour := "/audit/proof/consumption?project=web&to=" + time.Now().UTC().Format("2006-01-02T15:00:00Z")
	s.Eventually(hour) // the hours that were missed are over
	run(s.HTTP, early[strings.Index(early, "api="):strings.Index(early, "placement $api/resource_providers -d")]+late)
	bill, err := os.ReadFile(filepath.Join(dir, "bill.csv"))
	if err != nil || !slices.ContainsFunc(strings.Split(string(bill), "\n"), func(line string) bool {
		return strings.Contains(line, "VCPU-Hours") && strings.Contains(line, "EUR")
	}) {
		t.Errorf("the bill is\n%s%v", bill, err)
	}
}

// TestNATSDocument runs the programs in docs/nats.md, which print what stands below them.
func TestNATSDocument(t *testing.T) {
	t.Parallel()
	text := read(t, "../../docs/nats.md")
	address := freeAddress(t)
	launch(t, t.TempDir(), "--nats", address)
	program := func(t *testing.T, language, file string) (source, prints string) {
		_, after, found := strings.Cut(text, "```"+language+"\n")
		code, after, _ := strings.Cut(after, "```\n\n```\n")
		prints, _, whole := strings.Cut(after, "```\n")
		source = filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(source, []byte(code), 0o600); err != nil || !found || !whole {
			t.Fatalf("docs/nats.md has no program in %s with what it prints: %v", language, err)
		}
		return source, prints
	}
	run := func(t *testing.T, want string, command ...string) {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "NATS_URL=nats://"+address)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("it prints\n%s%v, and the document says\n%s", out, err, want)
		}
	}
	t.Run("Go", func(t *testing.T) {
		source, prints := program(t, "go", "main.go")
		built := filepath.Join(t.TempDir(), "client")
		output(t, exec.Command("go", "build", "-o", built, source))
		run(t, prints, built)
	})
	t.Run("JavaScript", func(t *testing.T) {
		packages := ledgertest.Must(filepath.Abs("testdata/api/node_modules"))
		if _, err := os.Stat(packages + "/@nats-io/transport-node"); err != nil {
			t.Skip("skipped: NATS's client is not installed (npm ci in cmd/allot/testdata/api)")
		}
		source, prints := program(t, "js", "main.mjs")
		must(t, os.Symlink(packages, filepath.Join(filepath.Dir(source), "node_modules")))
		command := []string{"node", "--harmony-json-parse-with-source", source}
		if exec.Command("node", "-e", "JSON.rawJSON(1)").Run() == nil { // newer ones do not have the flag
			command = []string{"node", source}
		}
		run(t, prints, command...)
	})
}
