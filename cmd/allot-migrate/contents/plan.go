// Package contents decides how a ledger begins with the contents of something
// else. It is pure: rows, as a Placement's database holds them, become the records
// of the ledger's first commits, and a report. Each row is imported, or left out
// by a named rule; none disappears.
//
// Sources (packages below this one's name) read rows. The program writes the
// commits.
package contents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// Plan is what a ledger begins with, in an order in which it can be folded.
type Plan struct {
	Contents  ledger.ContentsImported
	Classes   []ledger.ClassCreated // without the standard ones
	Traits    []string              // without the standard ones
	Providers []ledger.ProviderImported
	Consumers []ledger.ConsumerImported
	// Unseen are usages that are more than the consumers hold. No ledger can begin with them.
	Unseen []UnseenUsage

	Chassis         []ledger.ChassisImported
	Nodes           []ledger.NodeImported
	NodeAllocations []ledger.NodeAllocationImported
}

// UnseenUsage is more of a class that is used than allocations of it can be seen.
type UnseenUsage struct {
	Provider   ledger.UUID
	Class      string
	Used, Seen int64
}

// String says where how much is used.
func (u UnseenUsage) String() string {
	return fmt.Sprintf("provider %s, %s: %d used, %d seen", u.Provider, u.Class, u.Used, u.Seen)
}

// Make turns rows into a plan and a report. The plan is nil if rows are refused;
// the report says which. leaveOut are names of rules that refuse rows; such rows are left out.
func Make(rows *Rows, leaveOut ...string) (*Plan, *Report, error) {
	for _, name := range leaveOut {
		if rule, known := RuleNamed(name); !known || rule.Effect != Refused {
			return nil, nil, fmt.Errorf("importing: no rule %q refuses rows: see docs/migrate.md for those that do", name)
		}
	}
	names, err := commands.NewAddStandardNames(ledger.NilUUID)
	if err != nil {
		return nil, nil, err
	}
	b := &builder{
		rows: rows, standard: names, report: newReport(rows, leaveOut), plan: &Plan{},
		classes: make(map[int64]string), traits: make(map[int64]string),
		providers: make(map[int64]*provider, len(rows.Providers)), known: make(map[int64]bool, len(rows.Providers)),
	}
	b.readClasses()
	b.readTraits()
	b.readProviders()
	b.readTraitsOfProviders()
	b.readAggregates()
	b.readInventories()
	b.readAllocations()
	b.readConsumers()
	b.readUnseen()
	b.noteOverCommitted()
	b.putProviders()
	b.putConsumers()
	b.readMetal()
	if err := b.report.finish(b.imported); err != nil {
		return nil, b.report, err
	}
	if b.report.Refused > 0 {
		return nil, b.report, nil
	}
	b.plan.Contents = ledger.ContentsImported{
		Kind: rows.Kind, Source: rows.Source, Schema: rows.Schema, ReadAt: rows.ReadAt,
		Rows: b.report.Rows, LeftOut: b.report.LeftOut, Rules: b.report.rules(),
	}
	return b.plan, b.report, nil
}

type builder struct {
	rows     *Rows
	standard *commands.AddStandardNames
	report   *Report
	plan     *Plan
	imported uint64

	classes   map[int64]string // by the rows' ids
	traits    map[int64]string
	providers map[int64]*provider // those that are imported
	ordered   []*provider         // in the order of their creation
	holders   []*holder           // in the order of their rows
	byUUID    map[ledger.UUID]*holder
	known     map[int64]bool // ids of rows of providers, also of those that are not imported
}

func (b *builder) note(rule Rule, table Table, id int64, what string, args ...any) {
	b.report.note(rule, table, id, what, args...)
}

func (b *builder) take() { b.imported++ }

func (b *builder) refusesText(text string, table Table, id int64) bool {
	if utf8.ValidString(text) {
		return false
	}
	b.note(textNotUTF8, table, id, "%q", text)
	return true
}

// readClasses puts the classes that are not standard into the plan. The numbers of
// custom classes stay, because lists are in their order.
func (b *builder) readClasses() {
	next := ledger.FirstCustomClass
	b.readNames(nameTable{
		table: Classes, rows: b.rows.Classes, into: b.classes, standard: b.standard.Classes,
		twice: classTwice, unusual: classNotStandard,
	}, func(row NameRow) {
		if id := row.ID; id >= int64(next) && id <= ledger.MaxAmount {
			next = ledger.ClassID(id)
		}
		b.plan.Classes = append(b.plan.Classes, ledger.ClassCreated{ID: next, Name: row.Name})
		next++
	})
}

func (b *builder) readTraits() {
	b.readNames(nameTable{
		table: Traits, rows: b.rows.Traits, into: b.traits, standard: b.standard.Traits,
		twice: traitTwice, unusual: traitNotStandard,
	}, func(row NameRow) { b.plan.Traits = append(b.plan.Traits, row.Name) })
}

// nameTable is a table of names of which every ledger has some.
type nameTable struct {
	table          Table
	rows           []NameRow
	into           map[int64]string
	standard       []string
	twice, unusual Rule
}

// readNames reads names in the order of their ids, and calls put with each that is new to the ledger.
func (b *builder) readNames(t nameTable, put func(NameRow)) {
	taken := make(map[string]bool)
	for _, row := range slices.SortedFunc(slices.Values(t.rows), byRowID) {
		if b.refusesText(row.Name, t.table, row.ID) {
			continue
		}
		b.take()
		t.into[row.ID] = row.Name
		switch {
		case taken[row.Name]:
			b.note(t.twice, t.table, row.ID, "%q", row.Name)
			continue
		case slices.Contains(t.standard, row.Name):
			continue
		case !strings.HasPrefix(row.Name, "CUSTOM_"):
			b.note(t.unusual, t.table, row.ID, "%q", row.Name)
		}
		taken[row.Name] = true
		put(row)
	}
}

func byRowID(a, b NameRow) int { return cmp.Compare(a.ID, b.ID) }

// importNamespace is the namespace of uuids that are made from other ids. It must
// never change: two imports of one source give one id.
var importNamespace = uuid.MustParse("6f3d8f0e-5d0b-5c53-9d3e-3f0f2a3f7b51")

// idOf reads a uuid in any spelling. Another text gets a uuid of its own.
func idOf(text string) (id ledger.UUID, usual, isUUID bool) {
	id, err := ledger.ParseUUID(text)
	if err != nil {
		return ledger.UUID(uuid.NewSHA1(importNamespace, []byte(text))), false, false
	}
	var usualForm [36]byte
	written, _ := id.AppendText(usualForm[:0]) // cannot fail
	return id, string(written) == text, true
}

// times brings a row's times in order.
func (b *builder) times(t Times, table Table, id int64) Times {
	if t.Created == 0 {
		b.note(timeMissing, table, id, "created_at is null")
		t.Created = b.rows.ReadAt
	}
	if t.Updated == 0 {
		t.Updated = t.Created
	}
	if t.Created > b.rows.ReadAt || t.Updated > b.rows.ReadAt {
		b.note(timeInFuture, table, id, "made %s, changed %s", timeText(t.Created), timeText(t.Updated))
		t.Created, t.Updated = min(t.Created, b.rows.ReadAt), min(t.Updated, b.rows.ReadAt)
	}
	if t.Updated < t.Created {
		b.note(timeBackwards, table, id, "made %s, changed %s", timeText(t.Created), timeText(t.Updated))
		t.Updated = t.Created
	}
	return t
}
