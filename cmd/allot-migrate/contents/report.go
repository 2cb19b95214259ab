package contents

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// Report says what happens to the rows of an import.
type Report struct {
	Kind     string            `json:"kind"`
	Source   string            `json:"source"`
	Schema   string            `json:"schema,omitempty"`
	ReadAt   int64             `json:"read_at"`
	Tables   []TableCount      `json:"tables"`
	Rows     uint64            `json:"rows"`
	Imported uint64            `json:"imported"`
	Mended   uint64            `json:"mended"`
	LeftOut  uint64            `json:"left_out"`
	Refused  uint64            `json:"refused"`
	Untold   []string          `json:"untold,omitempty"` // what the source cannot tell
	Unkept   []string          `json:"unkept,omitempty"` // what a ledger has no place for
	Findings []*Finding        `json:"findings"`
	rows     map[rowKey]Effect // the gravest effect on each odd row
	byRule   map[string]*Finding
	leave    map[string]bool
	data     *Rows
}

// Finding is a rule, with the rows that it applied to.
type Finding struct {
	Rule
	Rows     uint64    `json:"rows"`
	Examples []Example `json:"examples"` // the first ones, in the order of the source
}

// Example is one odd row.
type Example struct {
	Where string `json:"where"`
	What  string `json:"what"`
}

// maxExamples bounds the rows that a report names for a rule.
const maxExamples = 10_000

// shownExamples is how many of them the report's text names.
const shownExamples = 3

type rowKey struct {
	table Table
	id    int64
}

func newReport(rows *Rows, leave []string) *Report {
	r := &Report{
		Kind: rows.Kind, Source: rows.Source, Schema: rows.Schema, ReadAt: rows.ReadAt, Tables: rows.Counts(),
		Untold: rows.Untold, Unkept: rows.Unkept,
		Findings: []*Finding{}, rows: make(map[rowKey]Effect), byRule: make(map[string]*Finding),
		leave: make(map[string]bool), data: rows,
	}
	for _, count := range r.Tables {
		r.Rows += count.Rows
	}
	for _, name := range leave {
		r.leave[name] = true
	}
	return r
}

// graver orders effects: what is left out is no longer mended.
var graver = map[Effect]int{Kept: 1, Mended: 2, LeftOut: 3, Refused: 4}

// note records that a rule applies to a row. A refused row is left out if the operator said so.
func (r *Report) note(rule Rule, table Table, id int64, what string, args ...any) {
	if rule.Effect == Refused && r.leave[rule.Name] {
		rule.Effect = LeftOut
	}
	found := r.finding(rule)
	found.Rows++
	if len(found.Examples) < maxExamples {
		text := strings.ToValidUTF8(fmt.Sprintf(what, args...), "\uFFFD")
		found.Examples = append(found.Examples, Example{Where: r.data.where(table, id), What: text})
	}
	key := rowKey{table, id}
	if before := r.rows[key]; graver[rule.Effect] > graver[before] {
		r.rows[key] = rule.Effect
	}
}

func (r *Report) finding(rule Rule) *Finding {
	if r.byRule[rule.Name] == nil {
		r.byRule[rule.Name] = &Finding{Rule: rule, Examples: []Example{}}
	}
	return r.byRule[rule.Name]
}

func (r *Report) leaveTable(rule Rule, table Table, rows uint64) {
	found := r.finding(rule)
	found.Rows += rows
	found.Examples = append(found.Examples, Example{Where: string(table), What: fmt.Sprintf("%d rows", rows)})
	r.LeftOut += rows
}

// finish sums up. imported is the number of rows that the plan holds.
func (r *Report) finish(imported uint64) error {
	r.Imported = imported
	for _, effect := range r.rows {
		switch effect {
		case Mended:
			r.Mended++
		case LeftOut:
			r.LeftOut++
		case Refused:
			r.Refused++
		case Kept:
		}
	}
	r.Findings = slices.SortedFunc(maps.Values(r.byRule), func(a, b *Finding) int {
		return cmp.Or(cmp.Compare(graver[b.Effect], graver[a.Effect]), cmp.Compare(a.Name, b.Name))
	})
	if r.Imported+r.LeftOut+r.Refused != r.Rows {
		return fmt.Errorf("importing: of %d rows %d are imported, %d left out and %d refused: "+
			"some would disappear unnamed, which is a bug of Allot; nothing was written", r.Rows, r.Imported, r.LeftOut, r.Refused)
	}
	return nil
}

func (r *Report) rules() []ledger.ImportRule {
	list := make([]ledger.ImportRule, 0, len(r.Findings))
	for _, found := range r.Findings {
		list = append(list, ledger.ImportRule{Name: found.Name, Rows: found.Rows})
	}
	slices.SortFunc(list, func(a, b ledger.ImportRule) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Summary is the last line of a report.
func (r *Report) Summary() string {
	why := func(effects ...Effect) string {
		var parts []string
		for _, found := range r.Findings {
			if slices.Contains(effects, found.Effect) {
				parts = append(parts, fmt.Sprintf("%s %d", found.Name, found.Rows))
			}
		}
		if len(parts) == 0 {
			return ""
		}
		return ": " + strings.Join(parts, ", ")
	}
	line := fmt.Sprintf("%d rows, %d imported, %d mended by rule%s, %d left out%s",
		r.Rows, r.Imported, r.Mended, why(Mended), r.LeftOut, why(LeftOut))
	if r.Refused > 0 {
		line += fmt.Sprintf("; %d refused%s", r.Refused, why(Refused))
	}
	return line
}

// WriteText writes the report for people. Its last line is the Summary.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "import of %s from %s", r.Kind, r.Source)
	if r.Schema != "" {
		fmt.Fprintf(&b, " (schema %s)", r.Schema)
	}
	b.WriteString("\n")
	for _, count := range r.Tables {
		fmt.Fprintf(&b, "  %-30s %9d\n", count.Table, count.Rows)
	}
	for _, untold := range r.Untold {
		fmt.Fprintf(&b, "not told by the source: %s\n", untold)
	}
	for _, unkept := range r.Unkept {
		fmt.Fprintf(&b, "not kept: %s\n", unkept)
	}
	for _, found := range r.Findings {
		fmt.Fprintf(&b, "%s %s (%d): %s\n", found.Effect, found.Name, found.Rows, found.Text)
		for _, example := range found.Examples[:min(shownExamples, len(found.Examples))] {
			fmt.Fprintf(&b, "    %s: %s\n", example.Where, example.What)
		}
		if more := found.Rows - uint64(min(shownExamples, len(found.Examples))); more > 0 {
			fmt.Fprintf(&b, "    and %d more\n", more)
		}
	}
	b.WriteString(r.Summary() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}
