package projector

import (
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestStoredForms folds fixed logs and compares every key and value with the files. If a form changed under the same
// schemaVersion, read models of an older build would be misread.
func TestStoredForms(t *testing.T) {
	tables := tablesOnPaper(t)
	used := map[byte]bool{tableTree: true} // it begins with 256 records: see TestTreeOfTheLog
	for _, history := range ledgertest.Histories(t) {
		t.Run(history.Name, func(t *testing.T) {
			now := storedForms(t, history.Commits)
			for _, line := range now {
				used[tableOfLine(t, line)] = true
			}
			name := fmt.Sprintf("forms-v%d.%s.golden", schemaVersion, history.Name)
			golden := ledgertest.Golden(t, name, strings.Join(now, "\n")+"\n")
			changed := make(map[byte]string)
			for _, line := range differing(strings.Fields(golden), now) {
				changed[tableOfLine(t, line)] = line
			}
			for _, table := range slices.Sorted(maps.Keys(changed)) {
				t.Errorf("table %c (%s) has another form than in %s: "+
					"raise schemaVersion, then write the new files with -update\n%s",
					table, tables[table], name, changed[table])
			}
		})
	}
	for table, what := range tables {
		if !used[table] {
			t.Errorf("no history writes to table %c (%s): add one to ledgertest.Histories", table, what)
		}
	}
}

// empty returns read models of nothing, until the test ends.
func empty(t *testing.T) *Projector {
	t.Helper()
	p := ledgertest.Must(Open(t.TempDir(), quiet))
	t.Cleanup(func() { ledgertest.OK(t, p.Close()) })
	return p
}

// storedForms returns every key with every value that it had after some commit, as lines of key=value in hexadecimal.
func storedForms(t *testing.T, commits []*ledger.Commit) []string {
	t.Helper()
	p := empty(t)
	state := ledger.NewState()
	lines := make(map[string]bool)
	for _, c := range commits {
		changes := ledgertest.Must(state.Fold(c))
		ledgertest.OK(t, p.Fold(c, changes))
		it := ledgertest.Must(p.models.Load().Iterate(nil, nil))
		for ok := it.First(); ok; ok = it.Next() {
			lines[fmt.Sprintf("%x=%x", it.Key(), it.Value())] = true
		}
		ledgertest.OK(t, it.Finish(nil))
	}
	return slices.Sorted(maps.Keys(lines))
}

// differing returns the lines that only one of two lists has.
func differing(a, b []string) (lines []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return lines
}

func tableOfLine(t *testing.T, line string) byte {
	t.Helper()
	table := ledgertest.Must(hex.DecodeString(strings.TrimLeft(line, "+- ")[:2]))
	return table[0]
}

// tablesOnPaper reads the list of tables in keys.go, which must have each letter in its code.
func tablesOnPaper(t *testing.T) map[byte]string {
	t.Helper()
	source := string(ledgertest.ReadFile(t, "keys.go"))
	tables := make(map[byte]string)
	for line := range strings.Lines(source) {
		// The list's lines: "//", a tab, the key's parts, two blanks or more, the meaning.
		key, what, found := strings.Cut(strings.TrimPrefix(line, "//\t"), "  ")
		if strings.HasPrefix(line, "//\t") && found && key != "" {
			if tables[key[0]] != "" {
				t.Errorf("two tables are called %c", key[0])
			}
			tables[key[0]] = strings.TrimSpace(what)
		}
	}
	for _, letter := range regexp.MustCompile(`'([A-Za-z])'`).FindAllStringSubmatch(source, -1) {
		if tables[letter[1][0]] == "" {
			t.Errorf("table %s is not in the list in keys.go", letter[1])
		}
	}
	return tables
}
