package ledgertest

import (
	"os"
	"strings"
	"testing"
)

// Answers compares what each line of a file gives with what stands below it, indented by four
// spaces, where there may be an empty line between others. Lines that begin with # are comments.
// -update writes what is given.
func Answers(t *testing.T, path string, answer func(line, want string) string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(string(ReadFile(t, path)), "\n"), "\n")
	var now strings.Builder
	for i := 0; i < len(lines); {
		line := lines[i]
		now.WriteString(line + "\n")
		i++
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var below []string
		indented := func(i int) bool { return i < len(lines) && strings.HasPrefix(lines[i], "    ") }
		for ; indented(i) || i < len(lines) && lines[i] == "" && len(below) > 0 && indented(i+1); i++ {
			below = append(below, strings.TrimPrefix(lines[i], "    "))
		}
		want := strings.Join(below, "\n")
		got := strings.TrimSuffix(answer(line, want), "\n")
		if got != want && !*update {
			t.Errorf("%s: %s\ngives\n%s\nwant\n%s", path, line, got, want)
		}
		if got != "" {
			indented := "    " + strings.ReplaceAll(got, "\n", "\n    ") + "\n"
			now.WriteString(strings.ReplaceAll(indented, "\n    \n", "\n\n"))
		}
	}
	if *update {
		OK(t, os.WriteFile(path, []byte(now.String()), 0o600))
	}
}

// Asked are the lines of a file for Answers that are given an answer.
func Asked(path string) (lines []string) {
	for line := range strings.SplitSeq(string(Must(os.ReadFile(path))), "\n") {
		if line != "" && !strings.ContainsAny(line[:1], "# ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Has is what is wanted, for Answers, if a text has each line of it somewhere; else the text.
func Has(text, want string) string {
	for line := range strings.SplitSeq(want, "\n") {
		if line == "" || !strings.Contains(text, line) {
			return text
		}
	}
	return want
}

// Same compares a text with a file, which -update writes.
func Same(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		OK(t, os.WriteFile(path, []byte(got), 0o600))
	}
	if want := string(ReadFile(t, path)); got != want {
		t.Errorf("%s has\n%s\nand not\n%s", path, want, got)
	}
}
