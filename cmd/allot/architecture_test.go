package main_test

import (
	"fmt"
	"go/scanner"
	gotoken "go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/allot-project/allot/"

// homes are the import paths behind the names in the table's last column.
var homes = map[string]string{
	"btree":        "github.com/tidwall/btree",
	"hdrhistogram": "github.com/HdrHistogram/hdrhistogram-go",
	"bloom":        "github.com/bits-and-blooms/bloom/v3", "invopop": "github.com/invopop/jsonschema",
	"cors": "github.com/rs/cors", "gophercloud": "github.com/gophercloud/gophercloud/v2",
	"mysql": "github.com/go-sql-driver/mysql", "pgx": "github.com/jackc/pgx/v5", "sqlite": "modernc.org/sqlite",
	"lru": "github.com/hashicorp/golang-lru/v2", "wazero": "github.com/tetratelabs/wazero",
	"zstd": "github.com/klauspost/compress/zstd", "json-patch": "github.com/evanphx/json-patch/v5",
	"progressbar": "github.com/schollz/progressbar/v3",
	"jsonschema":  "github.com/santhosh-tekuri/jsonschema/v6", "nats.go/micro": "github.com/nats-io/nats.go/micro",
	"opentelemetry":      "go.opentelemetry.io/otel/sdk/trace",
	"highwayhash":        "github.com/minio/highwayhash",
	"minio-go":           "github.com/minio/minio-go/v7",
	"go-json-experiment": "github.com/go-json-experiment/json",
	"pebble":             "github.com/cockroachdb/pebble/v2", "nats.go/jetstream": "github.com/nats-io/nats.go/jetstream",
	"nats-server": "github.com/nats-io/nats-server/v2/server", "roaring": "github.com/RoaringBitmap/roaring/v2",
}

// TestFloors checks the floors table of ARCHITECTURE.md against the imports.
func TestFloors(t *testing.T) {
	t.Parallel()
	floors, owner := readFloors(t, read(t, "../../ARCHITECTURE.md"))
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "../../...").Output()
	must(t, err)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		if strings.HasSuffix(name, "test") {
			continue // helpers of tests may import anything
		}
		floor, listed := floors[name]
		if !listed {
			t.Errorf("%s is not in the table", name)
			continue
		}
		for _, imported := range fields[1:] {
			if below, ours := strings.CutPrefix(imported, module); ours && floors[below].row <= floor.row {
				t.Errorf("%s (floor %d, row %d) imports %s (floor %d, row %d), which does not stand below it",
					name, floor.number, floor.row, below, floors[below].number, floors[below].row)
			}
			if home, owned := owner[imported]; owned && home != name {
				t.Errorf("%s imports %s, whose sole home is %s", name, imported, home)
			}
		}
	}
}

// floor is the place of a package: the number of its floor, and its row in the
// table, from the top.
type floor struct{ number, row int }

// readFloors reads the table of floors: the place of each package, and which
// package alone may import a module. Floors are whole numbers that go down from
// row to row.
func readFloors(t *testing.T, text string) (floors map[string]floor, owner map[string]string) {
	t.Helper()
	floors, owner = make(map[string]floor), make(map[string]string)
	last := 1 << 30
	for row, cells := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\|[^|]*\\| ?([^|]*)\\|$").FindAllStringSubmatch(text, -1) {
		digits, _, _ := strings.Cut(cells[1], " ")
		number, err := strconv.Atoi(digits)
		if err != nil || number > last || number < last-1 && row > 0 {
			t.Errorf("%s: floor %q is no whole number, or not in order", cells[2], cells[1])
		}
		last = number
		floors[cells[2]] = floor{number, row}
		for _, name := range strings.FieldsFunc(cells[3], func(r rune) bool { return r == ',' || r == ' ' }) {
			path, known := homes[name]
			if !known {
				t.Errorf("the test does not know %q of %s", name, cells[2])
			}
			owner[path] = cells[2]
		}
	}
	if len(floors) < 10 || len(owner) != len(homes) {
		t.Fatalf("the table has %d packages and %d homes", len(floors), len(owner))
	}
	return floors, owner
}

// TestClientIsSmall: a program that imports the Go client builds these modules of others, and these packages, and no
// more: nothing of the server, and no search.
func TestClientIsSmall(t *testing.T) {
	t.Parallel()
	const modules = "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{else}}{{.Module.Path}}{{end}}{{end}}"
	out, err := exec.Command("go", "list", "-deps", "-f", modules, "../../api/client", "../../api/wire").Output()
	must(t, err)
	built := slices.Compact(slices.Sorted(strings.FieldsSeq(strings.ReplaceAll(string(out), module, ""))))
	want := []string{
		"api/client", "api/wire", "commands", "commands/demand", "commands/document", "commands/encoding",
		"github.com/evanphx/json-patch/v5", "github.com/go-json-experiment/json", "github.com/google/uuid",
		"github.com/klauspost/compress", // NATS over WebSockets
		"github.com/nats-io/nats.go", "github.com/nats-io/nkeys", "github.com/nats-io/nuid", "github.com/tidwall/btree",
		"github.com/vmihailenco/msgpack/v5", "github.com/vmihailenco/tagparser/v2",
		"golang.org/x/crypto", "golang.org/x/mod", "golang.org/x/sys",
		"ledger", "ledger/ordered", "projector/wanted",
	}
	if !slices.Equal(built, want) {
		t.Errorf("a client builds\n%s", strings.Join(built, "\n"))
	}
}

// TestJSONIsPlain: all JSON that leaves the process is made by ledger.PlainJSON,
// because encoding/json escapes <, > and & for HTML.
func TestJSONIsPlain(t *testing.T) {
	escaping := regexp.MustCompile(`json\.(Marshal|NewEncoder)\(`)
	for path, text := range sources(t, "api", "cmd", "commands/encoding", "commands/rejected") {
		found := escaping.FindString(text)
		allowed := strings.Contains(path, "keystonetest") || path == "commands/encoding/encoding.go"
		if found != "" && !allowed && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %s: ledger.PlainJSON and PlainEncoder write texts as they are", path, found)
		}
	}
}

// sources are the files of Go in some folders, by their paths.
func sources(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, folder := range folders {
		must(t, filepath.WalkDir("../../"+folder, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") {
				files[strings.TrimPrefix(path, "../../")] = read(t, path)
			}
			return err
		}))
	}
	return files
}

// TestTimeOfDay: the time of day is for what is recorded or shown. A duration measured by
// it is wrong when the clock is set: time.Time knows better, as long as it is not made a
// number.
func TestTimeOfDay(t *testing.T) {
	t.Parallel()
	const number = `\.Unix(Milli|Micro|Nano)?\(\)`
	measured := regexp.MustCompile(`(Store|Swap|Sub)\(.*` + number + `|` + number + `\)? *[-<>]|[-<>]=? *[\w.]+` + number)
	recorded := map[string]string{
		"projector/view.go":                    "when a commit was decided",
		"ledger/archive/packer.go":             "the age of commits",
		"commands/processes/limit_follower.go": "shown as a metric",
	}
	found := 0
	for path, text := range sources(t, "api", "cmd", "commands", "ledger", "projector", "snapshots") {
		for line := range strings.Lines(text) {
			if strings.HasSuffix(path, "_test.go") || !strings.Contains(line, ".Unix") || !measured.MatchString(line) {
				continue
			}
			if found++; recorded[path] == "" {
				t.Errorf("%s measures by the time of day: %s", path, line)
			}
		}
	}
	if found < len(recorded) {
		t.Errorf("only %d places were found, so the pattern finds nothing", found)
	}
}

// TestHops: every hop that ARCHITECTURE.md names is a function of that package.
func TestHops(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(read(t, "../../ARCHITECTURE.md"), "takes 14 hops")
	section, _, _ = strings.Cut(section, "\nIf the command is rejected")
	name := regexp.MustCompile("`((?:api|cmd|commands|ledger|projector)(?:/[a-z]+)*)\\.(?:(\\w+)\\.)?(\\w+)`")
	hops := name.FindAllStringSubmatch(section, -1)
	if len(hops) < 25 {
		t.Fatalf("only %d hops are named", len(hops))
	}
	for _, hop := range hops {
		receiver := ""
		if hop[2] != "" {
			receiver = `\(\w* ?\*?` + hop[2] + `\) `
		}
		function := regexp.MustCompile(`(?m)^func ` + receiver + hop[3] + `(\[.*\])?\(`)
		files, err := filepath.Glob("../../" + hop[1] + "/*.go")
		must(t, err)
		if !slices.ContainsFunc(files, func(file string) bool { return function.MatchString(read(t, file)) }) {
			t.Errorf("%s has no function %s of %q", hop[1], hop[3], hop[2])
		}
	}
}

// TestNamedTests: every test that a document names is there.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	there := make(map[string]bool)
	for _, text := range sources(t, "") {
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(text, -1) {
			there[found[1]] = true
		}
	}
	for _, document := range documents {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(read(t, document), -1) {
			if !there[name] {
				t.Errorf("%s names %s, which is no test", document, name)
			}
		}
	}
}

// vague matches words that name neither a thing nor a role.
var vague = regexp.MustCompile(`(?i)\b(?:(?:no|some|any)body|who(?:ever|m))\b`)

// vagueWords lists the vague words in comments and string literals of a Go file.
func vagueWords(path string, source []byte) (found []string) {
	files := gotoken.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(path, -1, len(source)), source, nil, scanner.ScanComments)
	for at, kind, text := s.Scan(); kind != gotoken.EOF; at, kind, text = s.Scan() {
		if kind != gotoken.COMMENT && kind != gotoken.STRING {
			continue
		}
		for _, span := range vague.FindAllStringIndex(text, -1) {
			line := files.Position(at).Line + strings.Count(text[:span[0]], "\n")
			found = append(found, fmt.Sprintf("%s:%d: %s", path, line, text[span[0]:span[1]]))
		}
	}
	return found
}

// TestSubjectsAreNamed: a comment or message says which client, server or thing it means.
func TestSubjectsAreNamed(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"package p // No" + "body waits.":                    "p.go:1: No" + "body",
		"package p\n/* one\nfor who" + "m it is */":          "p.go:3: who" + "m",
		"package p\nconst a, b = `who" + "ever`, \"silent\"": "p.go:2: who" + "ever",
		"package p\nvar any" + "body = 1":                    "", // a name is no sentence
	} {
		if got := strings.Join(vagueWords("p.go", []byte(source)), "; "); got != want {
			t.Errorf("%s: found %q, not %q", source, got, want)
		}
	}
	for path, source := range sources(t, "") {
		for _, word := range vagueWords(path, []byte(source)) {
			t.Errorf("%s: name the client, the server or the thing instead", word)
		}
	}
}
