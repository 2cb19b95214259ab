package jsonl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/jsonl"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const readAt = 1_800_000_000_000_000_000

// TestGoodLines: lines of every kind, children before their parents, are as the published schema wants them, and become
// a plan.
func TestGoodLines(t *testing.T) {
	t.Parallel()
	good := string(ledgertest.ReadFile(t, "testdata/good.jsonl"))
	for line := range strings.Lines(good) {
		if refusedBySchema(t, line) {
			t.Errorf("the schema refuses %s", line)
		}
	}
	rows := ledgertest.Must(jsonl.Read(strings.NewReader(good), "file", readAt))
	plan, report, err := contents.Make(rows)
	if err != nil || plan == nil {
		t.Fatal(err, report)
	}
	ledgertest.Same(t, "testdata/good.txt", placementdbtest.Dump(t, plan))
	for _, found := range report.Findings {
		for _, example := range found.Examples {
			if !strings.HasPrefix(example.Where, "line ") {
				t.Errorf("%s is at %s", found.Name, example.Where)
			}
		}
	}
}

// refusedBySchema reports whether the published schema refuses a line of JSON.
func refusedBySchema(t *testing.T, line string) bool {
	t.Helper()
	schema := ledgertest.Must(jsonschema.NewCompiler().Compile("../../../../docs/import-jsonl.schema.json"))
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
	return err == nil && schema.Validate(value) != nil
}

// TestMalformedLinesNameTheirLine: each is named with its number, and why it is refused.
func TestMalformedLinesNameTheirLine(t *testing.T) {
	t.Parallel()
	ledgertest.Answers(t, "testdata/bad.txt", func(line, want string) string {
		_, err := jsonl.Read(strings.NewReader("\n\n"+line+"\n"), "file", readAt)
		_, why, is := strings.Cut(fmt.Sprint(err), "line 3: ")
		if !is {
			t.Errorf("%s: %v", line, err)
		}
		if refusedBySchema(t, line) {
			why += "\nrefused by the schema"
		}
		return ledgertest.Has(why, want)
	})
	_, err := jsonl.Read(strings.NewReader("\n\n"+`{"kind":"provider","uuid":"a`+"\xff"+`"}`), "file", readAt)
	launchtest.Says(t, fmt.Sprint(err), "line 3: ", "UTF-8")
	for _, twice := range []string{
		`{"kind":"provider","uuid":"a"}`,
		`{"kind":"consumer","uuid":"a","project":"p","user":"u","allocations":[{"provider":"a","class":"VCPU","amount":1}]}`,
	} {
		_, err = jsonl.Read(strings.NewReader(twice+"\n"+twice), "file", readAt)
		launchtest.Says(t, fmt.Sprint(err), "line 2: ", " is in line 1, too")
	}
	_, err = jsonl.Read(strings.NewReader(strings.Repeat("nope\n", 1000)), "file", readAt)
	if err == nil || strings.Count(err.Error(), "line ") != 20 || !strings.Contains(err.Error(), "maybe more") {
		t.Error(err)
	}
}
