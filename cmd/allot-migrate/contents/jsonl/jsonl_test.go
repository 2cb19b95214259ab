package jsonl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/jsonl"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	host  = "11111111-1111-4111-8111-111111111111"
	child = "22222222-2222-4222-8222-222222222222"
)

// good are lines of every kind, children before their parents.
const good = `
{"kind":"consumer","uuid":"pod-1","project":"p","user":"u","type":"POD","generation":3,"created_at":"2024-01-01T00:00:00Z","allocations":[{"provider":"` + child + `","class":"CUSTOM_B","amount":2},{"provider":"` + host + `","class":"VCPU","amount":1}]}
{"kind":"provider","uuid":"` + child + `","parent":"` + host + `","inventories":[{"class":"CUSTOM_A","total":4},{"class":"CUSTOM_B","total":4,"reserved":1,"min_unit":1,"max_unit":4,"step_size":1,"allocation_ratio":1.5}],"draws":[{"class":"CUSTOM_B","counter":"SLICE","amount":2},{"class":"CUSTOM_B","counter":"MODE","amount":1,"mode":"MIG"}]}

{"kind":"provider","uuid":"` + host + `","name":"host","generation":5,"inventories":[{"class":"VCPU","total":8}],"traits":["CUSTOM_T"],"counters":[{"name":"SLICE","total":7},{"name":"MODE","total":1}],"aggregates":["rack 1"],"updated_at":"2024-01-02T00:00:00Z"}
{"kind":"class","name":"CUSTOM_UNUSED","created_at":"2023-01-02T00:00:00Z"}
{"kind":"trait","name":"CUSTOM_T"}
`

const readAt = 1_800_000_000_000_000_000

// TestGoodLines: all rows are there, and a plan can be made of them.
func TestGoodLines(t *testing.T) {
	t.Parallel()
	rows, err := jsonl.Read(strings.NewReader(good), "file", readAt)
	ledgertest.OK(t, err)
	plan, report, err := contents.Make(rows)
	if err != nil || plan == nil {
		t.Fatal(err, report)
	}
	below, consumer := plan.Providers[1], plan.Consumers[0]
	switch {
	case below.Provider.String() != child || below.Parent.String() != host || below.Origin != "line 3" || below.Name != child:
		t.Errorf("%+v", below)
	case plan.Providers[0].Generation != 5 || plan.Providers[0].Traits[0] != "CUSTOM_T" || len(plan.Providers[0].Aggregates) != 1:
		t.Errorf("%+v", plan.Providers[0])
	case consumer.Origin != "line 2" || consumer.Type != "POD" || consumer.Counted != 3 || consumer.Allocations[0].Class != "CUSTOM_B":
		t.Errorf("%+v", consumer)
	case fmt.Sprint(plan.Providers[0].Counters, below.Draws) != "[{MODE 1} {SLICE 7}] [{CUSTOM_B SLICE 2 } {CUSTOM_B MODE 1 MIG}]":
		t.Errorf("%+v", plan.Providers)
	case fmt.Sprint(plan.Classes) != "[{10000 CUSTOM_B} {10001 CUSTOM_A} {10002 CUSTOM_UNUSED}]":
		t.Errorf("%+v", plan.Classes)
	}
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
	twice := `{"kind":"provider","uuid":"` + host + `"}`
	_, err = jsonl.Read(strings.NewReader(twice+"\n"+twice), "file", readAt)
	launchtest.Says(t, fmt.Sprint(err), "line 2: ")
	_, err = jsonl.Read(strings.NewReader(strings.Repeat("nope\n", 1000)), "file", readAt)
	if err == nil || strings.Count(err.Error(), "line ") != 20 || !strings.Contains(err.Error(), "maybe more") {
		t.Error(err)
	}
}

// TestSchema: the published schema takes the good lines.
func TestSchema(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(good) {
		if refusedBySchema(t, line) {
			t.Errorf("the schema refuses %s", line)
		}
	}
}
