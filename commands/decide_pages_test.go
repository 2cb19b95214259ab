package commands_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// page is a file of commands, or of rows: titles, commands and outcomes. The first lines of
// testdata/decide/*.txt say how they are written.
type page struct {
	path  string
	parts []string // which stand between empty lines
}

func readPage(t testing.TB, path string) *page {
	t.Helper()
	text := strings.TrimSpace(string(ledgertest.ReadFile(t, path)))
	return &page{path: path, parts: strings.Split(text, "\n\n")}
}

// decisions are all rows. Each is decided in a world of its own.
func decisions(t testing.TB) (rows []decision) {
	t.Helper()
	for _, path := range commandstest.Must(filepath.Glob("testdata/decide/*.txt")) {
		rows = append(rows, readPage(t, path).rows(t)...)
	}
	return append(rows, beyondJSON()...)
}

func (p *page) rows(t testing.TB) (rows []decision) {
	t.Helper()
	var shared steps
	for i, text := range p.parts {
		row := readPart(t, text)
		switch n := len(row.before); {
		case strings.HasPrefix(text, "## "):
			shared = row.before
		case n > 0:
			row.before, row.command = slices.Concat(shared, row.before[:n-1]), row.before[n-1]
			row.page, row.part = p, i
			rows = append(rows, row)
		}
	}
	return rows
}

// commands are all commands of a page without rows.
func (p *page) commands(t testing.TB) (list steps) {
	t.Helper()
	for _, text := range p.parts {
		list = append(list, readPart(t, text).before...)
	}
	return list
}

// readPart reads a row, or a heading, with all of its commands in before.
func readPart(t testing.TB, text string) (row decision) {
	t.Helper()
	var want []string
	text = strings.ReplaceAll(writtenOut(text), "\n ", " ")
	for _, line := range strings.Split(text, "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		switch mark {
		case "":
		case "#", "##":
			row.about = rest
		case "->":
			want = append(want, rest)
		case "as":
			row.project, line, _ = strings.Cut(rest, ": ")
			row.before = append(row.before, read(t, line))
		default:
			row.before = append(row.before, read(t, line))
		}
	}
	row.want = strings.Join(want, "\n")
	return row
}

var repeated = regexp.MustCompile(`(?s)<<(\d+)\*(.*?)>>`)

// writtenOut repeats what stands there as <<NUMBER*text>>.
func writtenOut(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(found string) string {
		match, all := repeated.FindStringSubmatch(found), strings.Builder{}
		for i := range commandstest.Must(strconv.Atoi(match[1])) {
			all.WriteString(strings.ReplaceAll(match[2], "####", fmt.Sprintf("%04d", i+1)))
		}
		return strings.TrimRight(all.String(), ", ")
	})
}

// answer writes on its page what follows from the row, if the page says something else.
func (row decision) answer(got outcome) {
	if row.page == nil || got.String() == row.want {
		return
	}
	asked, _, _ := strings.Cut(row.page.parts[row.part], "\n-> ")
	row.page.parts[row.part] = asked + "\n-> " + strings.ReplaceAll(got.String(), "\n", "\n-> ")
}

// writePages writes the files of all rows anew.
func writePages(t testing.TB, rows []decision) {
	t.Helper()
	var last *page
	for _, row := range rows {
		if row.page != nil && row.page != last {
			last = row.page
			text := strings.Join(last.parts, "\n\n") + "\n"
			ledgertest.OK(t, os.WriteFile(last.path, []byte(text), 0o600))
		}
	}
}
