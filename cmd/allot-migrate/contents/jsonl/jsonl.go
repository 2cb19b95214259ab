// Package jsonl reads contents for a ledger from JSON lines: one object a line, a provider, a consumer, a class
// or a trait. docs/import-jsonl.md describes them. Servers tell their contents in the same form.
package jsonl

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

// ErrLine means that a line cannot be read.
var ErrLine = errors.New("the file has lines that cannot be read")

const maxErrors = 20

const maxLine = 16 << 20

// partsBits is the number of bits of an id that count parts of a line.
const partsBits = 20

type reader struct {
	rows   *contents.Rows
	errs   []error
	n      int64            // of the line, from 1
	parts  int64            // ids that were made of the line
	seen   map[string]int64 // providers
	holds  map[string]int64 // lines of consumers
	parent map[int]string   // parents by the places of their children
	held   []string         // the providers of the allocations

	names                      contents.IDs
	nameLines                  map[contents.Table][]int64 // where names were first met
	traitLines, aggregateLines []int64
}

// Read reads a whole file. Its error names the lines that are wrong.
func Read(in io.Reader, name string, readAt int64) (*contents.Rows, error) {
	r := &reader{
		rows: &contents.Rows{Kind: "jsonl", Source: name, Schema: "1", ReadAt: readAt},
		seen: make(map[string]int64), holds: make(map[string]int64), parent: make(map[int]string),
		nameLines: make(map[contents.Table][]int64),
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	for lines.Scan() {
		r.n++
		r.parts = 0
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			r.read(text)
		}
		if len(r.errs) >= maxErrors {
			r.errs = append(r.errs, errors.New("and maybe more"))
			return nil, r.failure()
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d has more than %d bytes", r.n+1, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", r.n+1, err)
	}
	r.connect()
	r.rows.Where = r.where
	return r.rows, r.failure()
}

func (r *reader) failure() error {
	if r.errs == nil {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrLine, errors.Join(r.errs...))
}

func (r *reader) fail(format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("line %d: "+format, append([]any{r.n}, args...)...))
}

func (r *reader) id() int64 {
	r.parts++
	return r.n<<partsBits | r.parts
}

func (r *reader) where(table contents.Table, id int64) string {
	switch table {
	case contents.ProviderTraits:
		return fmt.Sprintf("line %d", r.traitLines[id-1])
	case contents.ProviderAggregates:
		return fmt.Sprintf("line %d", r.aggregateLines[id-1])
	}
	if lines, names := r.nameLines[table]; names {
		return fmt.Sprintf("line %d", lines[id-1])
	}
	return fmt.Sprintf("line %d", id>>partsBits)
}

func (r *reader) read(text []byte) {
	var l present.Content
	if err := document.Decode(text, &l); err != nil {
		r.fail("%w", document.Plain(err))
		return
	}
	switch {
	case l.Error != "":
		r.fail("the server could not tell everything: %s", l.Error)
	case l.Kind == present.KindClass || l.Kind == present.KindTrait:
		r.bareName(&l)
	case l.Kind != present.KindProvider && l.Kind != present.KindConsumer:
		r.fail("kind is %q, and must be provider, consumer, class or trait", l.Kind)
	case l.UUID == "":
		r.fail("uuid is missing")
	case l.Kind == present.KindProvider:
		r.provider(&l)
	default:
		r.consumer(&l)
	}
}

// bareName reads a class or a trait. One that stands in other lines, too, has its
// place in the order of names from the first of them.
func (r *reader) bareName(l *present.Content) {
	bare := present.Content{Kind: l.Kind, Name: l.Name, CreatedAt: l.CreatedAt}
	if !reflect.DeepEqual(*l, bare) {
		r.fail("a %s has only name and created_at", l.Kind)
		return
	}
	if l.Name == "" {
		r.fail("name is missing")
		return
	}
	table, rows := contents.Classes, &r.rows.Classes
	if l.Kind == present.KindTrait {
		table, rows = contents.Traits, &r.rows.Traits
	}
	id := r.named(table, rows, l.Name)
	if l.CreatedAt != nil {
		(*rows)[id-1].Created = r.nanoseconds(l.CreatedAt)
	}
}

// times reads the times. A missing one is that of the import.
func (r *reader) times(l *present.Content) contents.Times {
	t := contents.Times{Created: r.rows.ReadAt}
	if l.CreatedAt != nil {
		t.Created = r.nanoseconds(l.CreatedAt)
	}
	if l.UpdatedAt != nil {
		t.Updated = r.nanoseconds(l.UpdatedAt)
	}
	return t
}

func (r *reader) nanoseconds(t *time.Time) int64 {
	n, counted := ledger.Nanoseconds(*t)
	if !counted {
		r.fail("%s is not of the years 1678 to 2261", t.Format(time.RFC3339))
	}
	return n
}

func (r *reader) provider(l *present.Content) {
	if l.Project != "" || l.User != "" || l.Type != "" || l.Allocations != nil {
		r.fail("project, user, type and allocations belong to a consumer")
		return
	}
	if first, twice := r.seen[l.UUID]; twice {
		r.fail("provider %s is in line %d, too", l.UUID, first>>partsBits)
		return
	}
	t, id := r.times(l), r.id()
	r.seen[l.UUID] = id
	slices.SortFunc(l.Counters, func(a, b ledger.Counter) int { return strings.Compare(a.Name, b.Name) })
	row := contents.ProviderRow{
		ID: id, UUID: l.UUID, Name: l.Name, Generation: contents.Some(l.Generation), Times: t,
		Counters: l.Counters, Draws: l.Draws,
	}
	said := &commands.ReplaceProviderCounters{Provider: ledger.UUID{1}, Counters: l.Counters, Draws: l.Draws}
	if rejection := commands.Check(said); rejection != nil {
		r.fail("%s", rejection.Message)
	}
	for _, draw := range l.Draws {
		r.named(contents.Classes, &r.rows.Classes, draw.Class)
	}
	if l.Parent != "" {
		r.parent[len(r.rows.Providers)] = l.Parent
	}
	r.rows.Providers = append(r.rows.Providers, row)
	for _, inv := range l.Inventories {
		r.inventory(inv, id, t)
	}
	for _, name := range l.Traits {
		if name == "" {
			r.fail("a trait without a name")
			return
		}
		r.rows.ProviderTraits = append(r.rows.ProviderTraits, contents.PairRow{
			Provider: id, Other: r.named(contents.Traits, &r.rows.Traits, name),
		})
		r.traitLines = append(r.traitLines, r.n)
	}
	for _, name := range l.Aggregates {
		r.rows.ProviderAggregates = append(r.rows.ProviderAggregates, contents.PairRow{
			Provider: id, Other: r.named(contents.Aggregates, &r.rows.Aggregates, name),
		})
		r.aggregateLines = append(r.aggregateLines, r.n)
	}
}

func or[T any](value *T, missing T) T {
	if value == nil {
		return missing
	}
	return *value
}

func (r *reader) inventory(inv present.Inventory, provider int64, t contents.Times) {
	if inv.Class == "" || inv.Total == nil {
		r.fail("an inventory needs class and total")
		return
	}
	if inv.UpdatedAt != nil {
		t.Updated = r.nanoseconds(inv.UpdatedAt)
	}
	r.rows.Inventories = append(r.rows.Inventories, contents.InventoryRow{
		ID: r.id(), Provider: provider, Class: r.named(contents.Classes, &r.rows.Classes, inv.Class), Total: *inv.Total,
		Reserved: inv.Reserved, MinUnit: or(inv.MinUnit, 1), MaxUnit: or(inv.MaxUnit, 1<<31-1), StepSize: or(inv.StepSize, 1),
		Ratio: or(inv.Ratio, 1), Times: t,
	})
}

func (r *reader) consumer(l *present.Content) {
	switch {
	case l.Name != "" || l.Parent != "" || l.Inventories != nil || l.Traits != nil || l.Aggregates != nil ||
		l.Counters != nil || l.Draws != nil:
		r.fail("name, parent, inventories, traits, aggregates, counters and draws belong to a provider")
		return
	case l.Project == "" || l.User == "":
		r.fail("a consumer needs project and user")
		return
	case len(l.Allocations) == 0:
		r.fail("a consumer needs allocations")
		return
	}
	if first, twice := r.holds[l.UUID]; twice {
		r.fail("consumer %s is in line %d, too", l.UUID, first)
		return
	}
	r.holds[l.UUID] = r.n
	t := r.times(l)
	row := contents.ConsumerRow{
		ID: r.id(), UUID: l.UUID, Generation: contents.Some(l.Generation), Times: t,
		Project: contents.Some(r.named(contents.Projects, &r.rows.Projects, l.Project)),
		User:    contents.Some(r.named(contents.Users, &r.rows.Users, l.User)),
	}
	if l.Type != "" {
		row.Type = contents.Some(r.named(contents.Types, &r.rows.Types, l.Type))
	}
	r.rows.Consumers = append(r.rows.Consumers, row)
	for _, a := range l.Allocations {
		if a.Provider == "" || a.Class == "" || a.Amount < 1 {
			r.fail("an allocation needs provider, class and an amount from 1 up")
			return
		}
		r.held = append(r.held, a.Provider)
		r.rows.Allocations = append(r.rows.Allocations, contents.AllocationRow{
			ID: r.id(), Class: r.named(contents.Classes, &r.rows.Classes, a.Class), Consumer: l.UUID, Used: a.Amount, Times: t,
		})
	}
}

// named returns the id of a name, which gets one when it is first met, so that custom classes
// get numbers in the order of the file.
func (r *reader) named(table contents.Table, rows *[]contents.NameRow, name string) int64 {
	id := r.names.Named(table, rows, name)
	if id > int64(len(r.nameLines[table])) {
		r.nameLines[table] = append(r.nameLines[table], r.n)
	}
	return id
}

// connect finds the providers that lines refer to. They may stand anywhere.
func (r *reader) connect() {
	for i := range r.rows.Providers {
		row := &r.rows.Providers[i]
		name, has := r.parent[i]
		if !has {
			continue
		}
		r.n = row.ID >> partsBits
		id, known := r.seen[name]
		if !known {
			r.fail("no provider %s to be the parent", name)
			continue
		}
		row.Parent = contents.Some(id)
	}
	places := make(map[int64]int, len(r.rows.Providers)) // by ids
	for i := range r.rows.Providers {
		places[r.rows.Providers[i].ID] = i
	}
	for i := range r.rows.Providers {
		r.draws(r.rows.Providers[i], places)
		r.rows.Providers[i].Root = contents.Some(r.root(r.rows.Providers[i], places))
	}
	for i := range r.rows.Allocations {
		row := &r.rows.Allocations[i]
		r.n = row.ID >> partsBits
		id, known := r.seen[r.held[i]]
		if !known {
			r.fail("no provider %s to hold something of", r.held[i])
		}
		row.Provider = id
		if len(r.errs) >= maxErrors {
			return
		}
	}
}

// draws finds the counters above from which a provider draws.
func (r *reader) draws(row contents.ProviderRow, places map[int64]int) {
	missing := make(map[string]bool)
	for _, draw := range row.Draws {
		missing[draw.Counter] = true
	}
	r.n = row.ID >> partsBits
	above := row
	for steps := 0; above.Parent.Set && steps < len(r.rows.Providers); steps++ {
		above = r.rows.Providers[places[above.Parent.Value]]
		for _, c := range above.Counters {
			delete(missing, c.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		r.fail("no provider above %s has a counter %s to draw from", row.UUID, name)
	}
}

// root walks up to the top. In a cycle, which a rule refuses, it stops somewhere.
func (r *reader) root(row contents.ProviderRow, places map[int64]int) int64 {
	for steps := 0; row.Parent.Set && steps < len(r.rows.Providers); steps++ {
		row = r.rows.Providers[places[row.Parent.Value]]
	}
	return row.ID
}
