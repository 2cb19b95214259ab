package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestSessionDocument runs what README.md and docs/session.md say, and compares what is printed with what stands there.
func TestSessionDocument(t *testing.T) {
	t.Parallel()
	text := read(t, "../../docs/session.md")
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address)
	readme := read(t, "../../README.md")
	_, started, _ := strings.Cut(readme, "serve --data ./data\n#   ")
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
	for line := range strings.Lines(string(out)) {
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
