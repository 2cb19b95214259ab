package contents_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// The world to which each test adds something odd: a host with a child, and a
// consumer with two allocations.
var (
	made    = contents.Times{Created: at("2024-01-01T00:00:00Z"), Updated: at("2024-01-02T00:00:00Z")}
	readAt  = at("2026-01-01T00:00:00Z")
	host    = parsed("11111111-1111-4111-8111-111111111111")
	child   = parsed("22222222-2222-4222-8222-222222222222")
	server  = parsed("44444444-4444-4444-8444-444444444444")
	another = ledgertest.ID(2, 2)
)

func at(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

func world() *contents.Rows {
	rows := placementdbtest.Rows()
	rows.Source, rows.ReadAt = "sqlite:x", readAt
	rows.Inventories[0].Times, rows.Consumers[0].Updated = made, at("2024-03-02T00:00:00Z")
	return rows
}

// fold writes the plan's log and folds it as a server would.
func fold(t *testing.T, plan *contents.Plan) *ledger.State {
	t.Helper()
	s := ledger.NewState()
	_, err := plan.Write(contents.Begin{
		Ledger: ledgertest.ID(9, 1), NewID: commandstest.NewID, Time: readAt, Actor: "test", Limit: 8 << 20,
	}, func(e ledger.Entry) error {
		commit, err := ledger.DecodeCommit(e.Data)
		if err == nil {
			_, err = s.Fold(commit)
		}
		return err
	})
	ledgertest.OK(t, err)
	return s
}

// TestWorld: everything arrives as it was.
func TestWorld(t *testing.T) {
	t.Parallel()
	plan, report, err := contents.Make(world())
	if err != nil || plan == nil || len(report.Findings) > 0 {
		t.Fatal(err, report)
	}
	if got := report.Summary(); got != "19 rows, 19 imported, 0 mended by rule, 0 left out" {
		t.Error(got)
	}
	s := fold(t, plan)
	p, _ := s.Provider(host)
	c, _ := s.Consumer(server)
	gold, _ := s.Classes().ID("CUSTOM_GOLD")
	switch {
	case p.Generation != 7 || p.CreatedAt != made.Created || p.UpdatedAt != at("2024-02-01T10:11:12Z") || p.Name != "host":
		t.Errorf("%+v", p)
	case !slices.Equal(p.Traits, []string{"HW_CPU_X86_AVX"}) || len(p.Aggregates) != 1:
		t.Errorf("%+v", p)
	case gold != 10000 || len(p.Inventories) != 1:
		t.Errorf("%d %+v", gold, p.Inventories)
	case p.Inventories[0].Used != 2 || p.Inventories[0].UpdatedAt != made.Updated:
		t.Errorf("%+v", p.Inventories)
	case *c.Owner != ledger.Owner{Project: "p", User: "u", Type: "INSTANCE"} || c.Generation != s.Head().Sequence:
		t.Errorf("%+v %+v", c, c.Owner)
	case c.CreatedAt != at("2024-03-01T00:00:00Z") || c.UpdatedAt != at("2024-03-02T00:00:00Z") || c.Allocations[0].Class != gold:
		t.Errorf("%+v", c)
	}
	if below, _ := s.Provider(child); below.Parent != host || below.Root != host || below.CreatedAt != made.Created+1 {
		t.Errorf("%+v", below)
	}
	if id, _ := s.Classes().ID("CUSTOM_GOLD"); s.NextClassID() != id+1 {
		t.Errorf("the next class is %d", s.NextClassID())
	}
}

// oddity is something odd in a world, and what comes of it.
type oddity struct {
	rule string
	odd  func(*contents.Rows)
	// right judges the State; nil for rows that are refused.
	right func(*ledger.State) bool
}

func oddities() []oddity {
	some := contents.Some
	other, strange := ledgertest.ID(1, 9), ledgertest.ID(0xab, 9)
	provider := func(change func(*contents.ProviderRow)) func(*contents.Rows) {
		p := contents.ProviderRow{ID: 3, UUID: other.String(), Name: "n", Root: some(3), Generation: some(1), Times: made}
		change(&p)
		return func(r *contents.Rows) { r.Providers = append(r.Providers, p) }
	}
	uuid := func(text string) func(*contents.Rows) {
		return provider(func(p *contents.ProviderRow) { p.UUID = text })
	}
	allocation := func(consumer string, provider, class, used int64) func(*contents.Rows) {
		return func(r *contents.Rows) {
			r.Allocations = append(r.Allocations, contents.AllocationRow{
				ID: 9, Provider: provider, Class: class, Consumer: consumer, Used: used, Times: made,
			})
		}
	}
	inventory := func(inv contents.InventoryRow) func(*contents.Rows) {
		inv.ID, inv.Times = 9, made
		return func(r *contents.Rows) { r.Inventories = append(r.Inventories, inv) }
	}
	consumer := func(c contents.ConsumerRow) func(*contents.Rows) {
		return func(r *contents.Rows) {
			c.ID, c.Times = 9, made
			r.Consumers = append(r.Consumers, c)
			if c.UUID == another.String() {
				allocation(c.UUID, 1, 0, 1)(r)
			}
		}
	}
	has := func(id ledger.UUID, right func(*ledger.Provider) bool) func(*ledger.State) bool {
		return func(s *ledger.State) bool {
			p, ok := s.Provider(id)
			return ok && right(p)
		}
	}
	named := func(name string) func(*ledger.State) bool {
		return has(other, func(p *ledger.Provider) bool { return p.Name == name && p.Root == other })
	}
	holds := func(id ledger.UUID, amount int64, owner ledger.Owner) func(*ledger.State) bool {
		return func(s *ledger.State) bool {
			c, ok := s.Consumer(id)
			return ok && c.Allocations[len(c.Allocations)-1].Amount == amount && *c.Owner == owner
		}
	}
	same := func(s *ledger.State) bool { return s.ProviderCount() == 2 && s.ConsumerCount() == 1 }
	fromText := func(s *ledger.State) bool { return s.ConsumerCount() == 2 }
	incomplete := ledger.Owner{Project: contents.IncompleteOwner, User: contents.IncompleteOwner}
	owned := ledger.Owner{Project: "p", User: "u", Type: "INSTANCE"}
	upper, long := strings.ToUpper(strange.String()), strings.Repeat("ä", 201)
	return []oddity{
		{"uuid-spelling", uuid(upper), has(strange, func(p *ledger.Provider) bool { return p.Name == "n" })},
		{"provider-uuid-invalid", uuid("host"), nil},
		{"provider-uuid-twice", uuid(strings.ReplaceAll(host.String(), "-", "")), nil},
		{"provider-name-missing", provider(func(p *contents.ProviderRow) { p.Name = "" }), named(other.String())},
		{"provider-name-twice", provider(func(p *contents.ProviderRow) { p.Name = "host" }), named(other.String())},
		{"provider-name-long", provider(func(p *contents.ProviderRow) { p.Name = long }), named(long)},
		{"provider-generation-missing", provider(func(p *contents.ProviderRow) { p.Generation.Set = false }), named("n")},
		{"provider-generation-negative", provider(func(p *contents.ProviderRow) { p.Generation.Value = -1 }), nil},
		{"provider-root-missing", provider(func(p *contents.ProviderRow) { p.Root.Set = false }), named("n")},
		{"provider-root-wrong", provider(func(p *contents.ProviderRow) { p.Parent = some(2) }),
			has(other, func(p *ledger.Provider) bool { return p.Root == host })},
		{"provider-parent-missing", provider(func(p *contents.ProviderRow) { p.Parent = some(77) }), nil},
		{"provider-parent-cycle", func(r *contents.Rows) { r.Providers[0].Parent = some(2) }, nil},
		{"text-not-utf8", provider(func(p *contents.ProviderRow) { p.Name = "a\xffb" }), nil},
		{"class-not-standard", func(r *contents.Rows) {
			r.Classes = append(r.Classes, contents.NameRow{ID: 50, Name: "MISSPELT"})
		}, func(s *ledger.State) bool {
			id, ok := s.Classes().ID("MISSPELT")
			return ok && id >= ledger.FirstCustomClass
		}},
		{"class-twice", func(r *contents.Rows) {
			r.Classes = append(r.Classes, contents.NameRow{ID: 10008, Name: "CUSTOM_GOLD"})
		}, same},
		{"class-missing", inventory(contents.InventoryRow{Provider: 2, Class: 4711, Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1}), nil},
		{"class-missing", allocation(another.String(), 1, 4711, 1), nil},
		{"trait-not-standard", func(r *contents.Rows) { r.Traits = append(r.Traits, contents.NameRow{ID: 9, Name: "HW_GONE"}) },
			func(s *ledger.State) bool { return s.HasTrait("HW_GONE") }},
		{"trait-twice", func(r *contents.Rows) { r.Traits = append(r.Traits, contents.NameRow{ID: 9, Name: "CUSTOM_A"}) }, same},
		{"membership-twice", func(r *contents.Rows) { r.ProviderTraits = append(r.ProviderTraits, r.ProviderTraits[0]) }, same},
		{"membership-twice", func(r *contents.Rows) {
			r.ProviderAggregates = append(r.ProviderAggregates, r.ProviderAggregates[0])
		}, same},
		{"reference-missing", func(r *contents.Rows) {
			r.ProviderTraits = append(r.ProviderTraits, contents.PairRow{Provider: 1, Other: 99})
		}, same},
		{"reference-missing", func(r *contents.Rows) {
			r.ProviderAggregates = append(r.ProviderAggregates, contents.PairRow{Provider: 1, Other: 99})
		}, same},
		{"reference-missing", allocation(another.String(), 99, 0, 1), same},
		{"reference-missing", inventory(contents.InventoryRow{Provider: 99}), same},
		{"aggregate-not-uuid", func(r *contents.Rows) { r.Aggregates[0].Name = "rack 1" }, same},
		{"aggregate-twice", func(r *contents.Rows) {
			r.Aggregates = append(r.Aggregates, contents.NameRow{ID: 2, Name: strings.ToUpper(r.Aggregates[0].Name)})
			r.ProviderAggregates = append(r.ProviderAggregates, contents.PairRow{Provider: 2, Other: 2})
		}, same},
		{"aggregate-empty", func(r *contents.Rows) {
			r.Aggregates = append(r.Aggregates, contents.NameRow{ID: 2, Name: other.String()})
		}, same},
		{"usage-unseen", func(r *contents.Rows) {
			r.Unseen = []contents.UnseenRow{{ID: 1, Provider: 1, Class: 0, Used: 5, Seen: 1}}
		}, nil},
		{"inventory-twice", inventory(contents.InventoryRow{Provider: 1, Class: 0, Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1}), nil},
		{"inventory-unusual", inventory(contents.InventoryRow{Provider: 2, Class: 0, Reserved: 5}),
			has(child, func(p *ledger.Provider) bool { return p.Inventories[0].Reserved == 5 && p.Inventories[0].Total == 0 })},
		{"ratio-invalid", inventory(contents.InventoryRow{Provider: 2, Class: 0, Total: 1, Ratio: math.Inf(1)}), nil},
		{"ratio-invalid", inventory(contents.InventoryRow{Provider: 2, Class: 0, Total: 1, Ratio: math.NaN()}), nil},
		{"ratio-invalid", inventory(contents.InventoryRow{Provider: 2, Class: 0, Total: 1, Ratio: -1}), nil},
		{"amount-out-of-range", inventory(contents.InventoryRow{Provider: 2, Class: 0, Total: ledger.MaxAmount + 1}), nil},
		{"amount-out-of-range", inventory(contents.InventoryRow{Provider: 2, Class: 0, Total: 1, Reserved: -1}), nil},
		{"amount-out-of-range", allocation(another.String(), 1, 0, ledger.MaxAmount+1), nil},
		{"amount-out-of-range", allocation(another.String(), 1, 0, -1), nil},
		{"amount-out-of-range", allocation(server.String(), 1, 0, ledger.MaxAmount), nil}, // together with the other one
		{"over-committed", allocation(another.String(), 1, 0, 200), holds(another, 200, incomplete)},
		{"over-committed", func(r *contents.Rows) { r.Inventories[0].Ratio = 0 }, holds(server, 2, owned)},
		{"units-broken", func(r *contents.Rows) { r.Inventories[0].MaxUnit = 1 }, holds(server, 2, owned)},
		{"units-broken", func(r *contents.Rows) { r.Inventories[0].MinUnit = 3 }, holds(server, 2, owned)},
		{"units-broken", func(r *contents.Rows) { r.Inventories[0].StepSize = 4 }, holds(server, 2, owned)},
		{"allocation-of-nothing", allocation(another.String(), 1, 0, 0), same},
		{"allocation-twice", allocation(server.String(), 1, 0, 4), holds(server, 6, owned)},
		{"allocation-without-inventory", allocation(another.String(), 2, 0, 4),
			has(child, func(p *ledger.Provider) bool { return p.Inventories[0].Used == 4 && p.Inventories[0].Capacity() == 0 })},
		{"consumer-not-uuid", allocation("my-vm", 1, 0, 1), fromText},
		{"uuid-spelling", allocation(upper, 1, 0, 1), fromText},
		{"uuid-spelling", allocation(strings.ReplaceAll(another.String(), "-", ""), 1, 0, 1), holds(another, 1, incomplete)},
		{"consumer-twice", consumer(contents.ConsumerRow{UUID: strings.ToUpper(server.String()), Project: some(1), User: some(1)}), same},
		{"consumer-missing", allocation(another.String(), 1, 0, 1), holds(another, 1, incomplete)},
		{"consumer-owner-missing", consumer(contents.ConsumerRow{UUID: another.String(), Project: some(1), User: some(77)}),
			holds(another, 1, ledger.Owner{Project: "p", User: contents.IncompleteOwner})},
		{"consumer-owner-missing", consumer(contents.ConsumerRow{UUID: another.String()}), holds(another, 1, incomplete)},
		{"consumer-type-missing", consumer(contents.ConsumerRow{
			UUID: another.String(), Project: some(1), User: some(1), Type: some(77),
		}), holds(another, 1, ledger.Owner{Project: "p", User: "u"})},
		{"consumer-without-allocations", consumer(contents.ConsumerRow{UUID: other.String()}), same},
		{"name-unused", func(r *contents.Rows) { r.Projects = append(r.Projects, contents.NameRow{ID: 2, Name: "gone"}) }, same},
		{"time-missing", provider(func(p *contents.ProviderRow) { p.Created = 0 }), named("n")},
		{"time-in-future", func(r *contents.Rows) { r.Providers[0].Updated = readAt + 1 }, same},
		{"time-backwards", func(r *contents.Rows) { r.Inventories[0].Updated = 1 }, same},
		{"time-backwards", func(r *contents.Rows) { r.Providers[0].Created = made.Created + 5 }, same}, // after its child
		{"with-its-provider", func(r *contents.Rows) { r.Providers[0].UUID = "host" }, nil},
	}
}

// TestOddities adds each oddity to a good world: its rule is named, all rows are
// counted, and rows that are refused stop the import unless they are left out.
func TestOddities(t *testing.T) {
	t.Parallel()
	tested := make(map[string]bool)
	for _, o := range append(oddities(), metalOddities()...) {
		tested[o.rule] = true
		rows := world()
		o.odd(rows)
		plan, report, err := contents.Make(rows)
		if err != nil {
			t.Fatalf("%s: %v", o.rule, err)
		}
		i := slices.IndexFunc(report.Findings, func(f *contents.Finding) bool { return f.Name == o.rule })
		if i < 0 || len(report.Findings[i].Examples) == 0 {
			t.Errorf("%s is not in the report: %s", o.rule, report.Summary())
			continue
		}
		if !strings.Contains(report.Summary(), o.rule) && report.Findings[i].Effect != contents.Kept {
			t.Errorf("%s is not in the summary: %s", o.rule, report.Summary())
		}
		switch {
		case (plan == nil) != (o.right == nil):
			t.Errorf("%s: refused is %v: %s", o.rule, plan == nil, report.Summary())
		case plan == nil:
			leaveOut(t, o)
		case !o.right(fold(t, plan)):
			t.Errorf("%s: the State is wrong: %s", o.rule, report.Summary())
		}
	}
	for _, rule := range contents.Rules {
		if !tested[rule.Name] {
			t.Errorf("the table has no %s", rule.Name)
		}
	}
}

// leaveOut imports a world without the rows that are refused.
func leaveOut(t *testing.T, o oddity) {
	t.Helper()
	var refusing []string
	for _, rule := range contents.Rules {
		if rule.Effect == contents.Refused {
			refusing = append(refusing, rule.Name)
		}
	}
	rows := world()
	o.odd(rows)
	plan, report, err := contents.Make(rows, refusing...)
	if err != nil || plan == nil || report.LeftOut == 0 || report.Rows != report.Imported+report.LeftOut {
		t.Errorf("%s: %v, %s", o.rule, err, report.Summary())
		return
	}
	fold(t, plan)
}

// TestDocumentedRules: docs/migrate.md has every rule, with its effect and text.
func TestDocumentedRules(t *testing.T) {
	t.Parallel()
	text := launchtest.Read(t, "../../../docs/migrate.md")
	for _, rule := range contents.Rules {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", rule.Name, rule.Effect, rule.Text)
		if !strings.Contains(text, row) {
			t.Errorf("docs/migrate.md lacks %s", row)
		}
	}
}

// TestOrderOfRows: lists keep the order of the rows, though the times are equal.
func TestOrderOfRows(t *testing.T) {
	t.Parallel()
	rows := world()
	for i := byte(20); i > 10; i-- { // the uuids fall while the ids rise
		rows.Providers = append(rows.Providers, contents.ProviderRow{
			ID: 30 - int64(i), UUID: ledgertest.ID(1, i).String(), Name: string(rune('a' + i)), Generation: contents.Some(0),
			Root: contents.Some(30 - int64(i)), Times: made,
		})
	}
	plan, _, err := contents.Make(rows)
	ledgertest.OK(t, err)
	for i, p := range plan.Providers {
		if p.Provider.String() != rows.Providers[i].UUID || i > 0 && p.CreatedAt <= plan.Providers[i-1].CreatedAt {
			t.Errorf("%s is in place %d", p.Origin, i)
		}
	}
}
