package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestTextsAreCleaned: what a terminal obeys or does not show is escaped, and what people write is not.
func TestTextsAreCleaned(t *testing.T) {
	for text, want := range map[string]string{
		"compute-1.örtlich 名 🙂 é": "compute-1.örtlich 名 🙂 é", `a\b"c'`: `a\b"c'`, "": "",
		"a\nb\tc\r": `a\nb\tc\r`, "\x1b[2J": `\x1b[2J`, "\u009b": `\u009b`, "\x7f": `\x7f`, "\xff": `\xff`, "\ufffd": "\ufffd",
		"\u202e\u200f\u2066": `\u202e\u200f\u2066`, "\u200b\u200d\ufeff\u00ad\u2060": `\u200b\u200d\ufeff\u00ad\u2060`,
		"\u2028\u00a0\u3000": `\u2028\u00a0\u3000`, "\u3164\u115f\u2800\ufe0f": `\u3164\u115f\u2800\ufe0f`, "\U000e0041": `\U000e0041`,
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q becomes %s, want %s", text, got, want)
		}
		encoded, err := json.Marshal(text)
		ledgertest.OK(t, err)
		var back string
		clean, err := CleanJSON(encoded)
		if err != nil || json.Unmarshal(clean, &back) != nil || bytes.IndexFunc(clean, hidden) >= 0 {
			t.Errorf("%q becomes %s, %v", text, clean, err)
		}
		var was string
		if err := json.Unmarshal(encoded, &was); err != nil || back != was {
			t.Errorf("%q comes back as %q, %v", text, back, err)
		}
	}
	if _, err := CleanJSON([]byte("<html>")); err == nil {
		t.Error("a web page is JSON")
	}
}

// TestTablesAreAligned: columns are as wide as their cells, numbers end in line, and CSV has rows
// alone, none of which a spreadsheet computes.
func TestTablesAreAligned(t *testing.T) {
	rows := []Row{{Cells: []string{"=1+1", "5"}, Details: []string{"more"}}, {Cells: []string{"ö", "-12"}}}
	for format, want := range map[Format]string{
		Text: "above\nNAME    N\n=1+1    5\n         more\nö     -12\n", CSV: "name,n,text\n'=1+1,5,more\nö,-12,\n", JSON: "",
	} {
		var out bytes.Buffer
		p := &Printer{Out: &out, Format: format}
		p.Columns([]string{"name", "n"})
		ledgertest.OK(t, p.Say("%s", "above"))
		if err := p.Rows(rows...); err != nil || out.String() != want {
			t.Errorf("%d: %q, %v; want %q", format, out.String(), err, want)
		}
	}
}
