package contents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

var (
	made   = contents.Times{Created: at("2024-01-01T00:00:00Z"), Updated: at("2024-01-02T00:00:00Z")}
	readAt = at("2026-01-01T00:00:00Z")
)

func at(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t.UnixNano()
}

// world is a host with a child, and a consumer with two allocations, changed by statements.
func world(t *testing.T, statements ...string) *contents.Rows {
	t.Helper()
	changed := append([]string{
		"UPDATE inventories SET updated_at = '2024-01-02 00:00:00' WHERE id = 1",
		"UPDATE consumers SET updated_at = '2024-03-02 00:00:00'",
	}, statements...)
	db := ledgertest.Must(placementdb.Parse("sqlite:" + placementdbtest.SQLite(t, changed...)))
	rows := ledgertest.Must(db.Read(t.Context(), nil))
	rows.ReadAt = readAt
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

// TestGoodWorlds: where nothing is odd, everything arrives as it was.
func TestGoodWorlds(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string]*contents.Rows{"placement": world(t), "ironic": metalWorld(t)} {
		plan, report, err := contents.Make(rows)
		ledgertest.OK(t, err)
		s := fold(t, plan)
		lines := slices.DeleteFunc(changed(t, nil, entities(t, s, true)), func(line string) bool {
			return strings.Contains(line, `{"CreatedAt":"2026`) && !strings.Contains(line, "CUSTOM_") // every ledger has it
		})
		ledgertest.Same(t, "testdata/good_"+name+".txt", fmt.Sprintf("%s; %d findings; at sequence %d the next class is %d\n%s\n",
			report.Summary(), len(report.Findings), s.Head().Sequence, s.NextClassID(), strings.Join(lines, "\n")))
	}
}

// entities are those of a State, by kind and name, in JSON: whole, or without times. What is zero is left out.
func entities(t *testing.T, s *ledger.State, whole bool) map[string]map[string]any {
	t.Helper()
	found := make(map[string]map[string]any)
	add := func(kind string, name any, entity any) bool {
		text, err := json.Marshal(entity)
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber() // for times, which are nanoseconds
		var members map[string]any
		ledgertest.OK(t, err, decoder.Decode(&members))
		tidy(members, whole)
		found[fmt.Sprint(kind, " ", name)] = members
		return true
	}
	s.Providers(func(p *ledger.Provider) bool { return add("provider", p.UUID, p) })
	s.Consumers(func(c *ledger.Consumer) bool { return add("consumer", c.UUID, c) })
	s.Traits(func(trait *ledger.Trait) bool { return add("trait", trait.Name, trait) })
	for _, class := range s.Classes().All() {
		add("class", class.Name, class)
	}
	s.Nodes(func(n *ledger.Node) bool {
		if id, runs := s.NodeOfInstance(n.Instance); runs && id == n.UUID {
			add("instance", n.Instance, map[string]any{})
		}
		return add("node", n.UUID, n)
	})
	s.NodeAllocations(func(a *ledger.NodeAllocation) bool { return add("node allocation", a.UUID, a) })
	s.AllChassis(func(c *ledger.Chassis) bool { return add("chassis", c.UUID, c) })
	return found
}

// tidy takes what is zero out of an entity, and writes times as people do; or, unless it is to be whole, takes them
// out, too.
func tidy(value any, whole bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			tidy(member, whole)
			isID, isTime := slices.Contains([]string{"Parent", "Instance", "Allocation", "Node"}, name), strings.HasSuffix(name, "At")
			none := isID && member == ledger.NilUUID.String() || slices.Contains([]string{"0", "", "<nil>", "[]"}, fmt.Sprint(member))
			if none || !whole && (isTime || member == false) {
				delete(value, name)
			} else if isTime {
				nanoseconds, _ := member.(json.Number).Int64()
				value[name] = time.Unix(0, nanoseconds).UTC()
			}
		}
	case []any:
		for _, member := range value {
			tidy(member, whole)
		}
	}
}

// changed says what differs in the entities of a State, one entity to a line.
func changed(t *testing.T, good, now map[string]map[string]any) (lines []string) {
	t.Helper()
	for name := range good {
		if now[name] == nil {
			lines = append(lines, name+" is missing")
		}
	}
	for name, members := range now {
		maps.DeleteFunc(members, func(member string, value any) bool { return reflect.DeepEqual(good[name][member], value) })
		if good[name] == nil || len(members) > 0 {
			text := ledgertest.Must(json.Marshal(members))
			lines = append(lines, name+" "+string(text))
		}
	}
	slices.Sort(lines)
	return lines
}

// imported says what an import makes of rows: what is found, the summary, and the entities that are
// not those of a good world.
func imported(
	t *testing.T, rows *contents.Rows, good map[string]map[string]any, found map[string]bool,
) string {
	t.Helper()
	plan, report, err := contents.Make(rows)
	ledgertest.OK(t, err)
	var lines []string
	for _, f := range report.Findings {
		found[f.Name] = true
		lines = append(lines, fmt.Sprintf("%s: %s, %s %.60s", f.Name, f.Effect, f.Examples[0].Where, f.Examples[0].What))
	}
	lines = append(lines, report.Summary())
	if plan == nil {
		plan, report, err = contents.Make(rows, refusing()...)
		if err != nil || plan == nil || report.LeftOut == 0 || report.Rows != report.Imported+report.LeftOut {
			t.Errorf("without what is refused: %v, %s", err, report.Summary())
			return ""
		}
		fold(t, plan)
		return strings.Join(append(lines, report.Summary()), "\n")
	}
	return strings.Join(append(lines, changed(t, good, entities(t, fold(t, plan), false))...), "\n")
}

// refusing are the rules that refuse rows.
func refusing() (names []string) {
	for _, rule := range contents.Rules {
		if rule.Effect == contents.Refused {
			names = append(names, rule.Name)
		}
	}
	return names
}

// TestOddities: what is odd in a good world is named, all rows are counted, and rows that are refused
// stop the import unless they are left out.
func TestOddities(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	for file, world := range map[string]func(*testing.T, ...string) *contents.Rows{
		"testdata/odd_placement.txt": world, "testdata/odd_ironic.txt": metalWorld,
	} {
		plan, _, err := contents.Make(world(t))
		ledgertest.OK(t, err)
		good := entities(t, fold(t, plan), false)
		ledgertest.Answers(t, file, func(statements, _ string) string {
			return imported(t, world(t, strings.Split(statements, "; ")...), good, found)
		})
	}
	rows := world(t)
	rows.Unseen = []contents.UnseenRow{{ID: 1, Provider: 1, Class: 0, Used: 5, Seen: 1}} // only Placement's API tells
	if text := imported(t, rows, nil, found); !strings.Contains(text, "1 refused: usage-unseen 1") {
		t.Error(text)
	}
	for _, rule := range contents.Rules {
		if !found[rule.Name] {
			t.Errorf("the texts have no %s", rule.Name)
		}
	}
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
	rows := world(t)
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
