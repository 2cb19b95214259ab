package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

// TestHostileNamesForgeNoDifference: names of a Placement's clients reach no terminal as they are.
func TestHostileNamesForgeNoDifference(t *testing.T) {
	const hostile = "x\x1b]0;pwned\x07\nforged-row\u202e"
	for _, inJSON := range []bool{false, true} {
		var out bytes.Buffer
		c := comparePlacementCommand{JSON: inJSON}
		if err := c.print(&out, []contents.Difference{{What: "trait " + hostile, Field: hostile, Left: hostile, Right: hostile}}); err != nil {
			t.Fatal(err)
		}
		text, ended := strings.CutSuffix(out.String(), "\n")
		if !ended || !strings.Contains(text, "forged-row") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("it prints %q", out.String())
		}
	}
}
