package commands_test

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	_ "github.com/allot-project/allot/ledger/ledgertest/racetest"
)

// TestStateAfterAnyCommands: after each of some random commands, every index and
// count of the State agrees with a scan of all entities, and each node is in a chassis
// that is there, or in none; and what is used of an inventory has not grown beyond its
// capacity. That also holds for a State that was stored and read again.
func TestStateAfterAnyCommands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := otherWorld(t, commandstest.SomeThings()...)
		draw := rapid.SampledFrom([]func(*rapid.T) commands.Command{
			commandstest.RandomCommand, commandstest.RandomProviderCommand, commandstest.RandomNodeCommand,
			commandstest.RandomChassisCommand, randomAllocate,
		}).Draw(rt, "about")
		for range 40 {
			c, beyond := draw(rt), beyondCapacity(w.State())
			if events, _ := w.carry(c); len(events) > 0 {
				checkIndexes(rt, w.State())
			}
			for slot, amount := range beyondCapacity(w.State()) {
				if amount > beyond[slot] && commands.OnlyHoldings(commands.NameOf(c)) {
					rt.Fatalf("%s lets %s be exceeded by %d, and it was by %d", commands.NameOf(c), slot, amount, beyond[slot])
				}
			}
		}
		var stored bytes.Buffer
		ledgertest.OK(rt, w.State().Encode(&stored))
		read := commandstest.Must(ledger.DecodeState(stored.Bytes()))
		checkIndexes(rt, read)
		was, err := w.State().Digest()
		if is, readErr := read.Digest(); err != nil || readErr != nil || is != was {
			rt.Errorf("stored and read, the State has the digest %s, not %s, %v, %v", is, was, err, readErr)
		}
	})
}

// beyondCapacity is by how much inventories are exceeded.
func beyondCapacity(s *ledger.State) map[string]int64 {
	beyond := map[string]int64{}
	s.Providers(func(p *ledger.Provider) bool {
		for _, inv := range p.Inventories {
			if more := inv.Used - inv.Units(); more > 0 {
				beyond[fmt.Sprint(p.UUID, " class ", inv.Class)] = more
			}
		}
		return true
	})
	return beyond
}

func checkIndexes(rt *rapid.T, s *ledger.State) {
	rt.Helper()
	for what, of := range map[string][2]any{
		"providers": {providersAsFound(s), providersAsLooked(s)},
		"names": {
			namesBy(s.ProviderNamed, s.NodeNamed, s.NodeAllocationNamed, s.NodeOfInstance, s.ChassisInUse), namesAsLooked(s),
		},
		"usages":     {usagesAsKept(s), usagesAsCounted(s)},
		"projects":   {projectsAsKept(s), projectsAsCounted(s)},
		"aggregates": {aggregatesAsKept(s), aggregatesAsCounted(s)},
		"classes":    {nodeClassesAsKept(s), nodeClassesAsCounted(s)},
	} {
		if !reflect.DeepEqual(of[0], of[1]) { // cmp takes a hundred times as long
			rt.Fatalf("%s, as they are kept (-) and as they are (+):\n%s", what, cmp.Diff(of[0], of[1]))
		}
	}
	s.Nodes(func(n *ledger.Node) bool {
		if id, err := ledger.ParseUUID(n.Chassis()); n.Chassis() != "" {
			if _, exists := s.Chassis(id); err != nil || !exists {
				rt.Fatalf("node %s is in chassis %s, which is not there: %v", n.UUID, n.Chassis(), err)
			}
		}
		return true
	})
}

// providersAsFound returns what the State's indexes say about each provider.
func providersAsFound(s *ledger.State) (lines []string) {
	s.Providers(func(p *ledger.Provider) bool {
		found, _ := s.Provider(p.UUID)
		named, _ := s.ProviderNamed(p.Name)
		var children []ledger.UUID
		s.Children(p.UUID, func(id ledger.UUID) bool { children = append(children, id); return true })
		lines = append(lines, fmt.Sprint(found.UUID, named, p.Root, children))
		for _, inv := range p.Inventories {
			lines = append(lines, fmt.Sprint(p.UUID, s.Classes().Name(inv.Class), inv.Used))
		}
		return true
	})
	return lines
}

// providersAsLooked returns the same, from a scan of all providers and consumers.
func providersAsLooked(s *ledger.State) (lines []string) {
	parents, used := make(map[ledger.UUID]ledger.UUID), make(map[ledger.UUID]map[ledger.ClassID]int64)
	s.Providers(func(p *ledger.Provider) bool {
		parents[p.UUID], used[p.UUID] = p.Parent, make(map[ledger.ClassID]int64)
		return true
	})
	s.Consumers(func(c *ledger.Consumer) bool {
		for _, a := range c.Allocations {
			used[a.Provider][a.Class] += a.Amount
		}
		return true
	})
	s.Providers(func(p *ledger.Provider) bool {
		root := p.UUID
		for !parents[root].IsNil() {
			root = parents[root]
		}
		var children []ledger.UUID
		for id, parent := range parents {
			if parent == p.UUID {
				children = append(children, id)
			}
		}
		slices.SortFunc(children, ledger.UUID.Compare)
		lines = append(lines, fmt.Sprint(p.UUID, p.UUID, root, children))
		for _, inv := range p.Inventories {
			lines = append(lines, fmt.Sprint(p.UUID, s.Classes().Name(inv.Class), used[p.UUID][inv.Class]))
			delete(used[p.UUID], inv.Class)
		}
		for class, amount := range used[p.UUID] {
			lines = append(lines, fmt.Sprint(p.UUID, "has no inventory of", class, "of which is held", amount))
		}
		return true
	})
	return lines
}

func usagesAsKept(s *ledger.State) map[ledger.Owner]string {
	kept := make(map[ledger.Owner]string)
	s.Usages(func(u *ledger.Usage) bool {
		found, _ := s.Usage(u.Owner)
		kept[*u.Owner] = fmt.Sprint(found.Consumers, found.Amounts)
		return true
	})
	return kept
}

func usagesAsCounted(s *ledger.State) map[ledger.Owner]string {
	consumers, amounts := make(map[ledger.Owner]int), make(map[ledger.Owner]map[ledger.ClassID]int64)
	s.Consumers(func(c *ledger.Consumer) bool {
		if amounts[*c.Owner] == nil {
			amounts[*c.Owner] = make(map[ledger.ClassID]int64)
		}
		consumers[*c.Owner]++
		for _, a := range c.Allocations {
			amounts[*c.Owner][a.Class] += a.Amount
		}
		return true
	})
	counted := make(map[ledger.Owner]string)
	for owner, n := range consumers {
		var list []ledger.ClassAmount
		for _, class := range slices.Sorted(maps.Keys(amounts[owner])) {
			list = append(list, ledger.ClassAmount{Class: class, Amount: amounts[owner][class]})
		}
		counted[owner] = fmt.Sprint(n, list)
	}
	return counted
}

// Names and ids that random commands give to entities and remove again.
var (
	drawnNames = strings.Split("abcdefghijk", "")
	drawnIDs   = func() (ids []ledger.UUID) {
		for kind := range byte(9) {
			for n := range byte(6) {
				ids = append(ids, ledgertest.ID(kind, n))
			}
		}
		return ids
	}()
)

// namesBy are where names and instances lead, including those that lead nowhere.
func namesBy(
	provider, node, allocation func(string) (ledger.UUID, bool), instance func(ledger.UUID) (ledger.UUID, bool),
	chassis func(ledger.UUID) bool,
) (lines []string) {
	for _, name := range drawnNames {
		for what, look := range []func(string) (ledger.UUID, bool){provider, node, allocation} {
			id, is := look(name)
			lines = append(lines, fmt.Sprint(name, what, id, is))
		}
	}
	for _, id := range drawnIDs {
		node, runs := instance(id)
		lines = append(lines, fmt.Sprint(id, node, runs, chassis(id)))
	}
	return lines
}

func in[K comparable](ids map[K]ledger.UUID) func(K) (ledger.UUID, bool) {
	return func(key K) (ledger.UUID, bool) { id, is := ids[key]; return id, is }
}

func namesAsLooked(s *ledger.State) []string {
	providers, nodes, allocations := map[string]ledger.UUID{}, map[string]ledger.UUID{}, map[string]ledger.UUID{}
	instances, chassis := map[ledger.UUID]ledger.UUID{}, map[string]bool{}
	s.Providers(func(p *ledger.Provider) bool { providers[p.Name] = p.UUID; return true })
	s.NodeAllocations(func(a *ledger.NodeAllocation) bool { allocations[a.Name] = a.UUID; return true })
	s.Nodes(func(n *ledger.Node) bool {
		nodes[n.Name], instances[n.Instance], chassis[n.Chassis()] = n.UUID, n.UUID, true
		return true
	})
	delete(instances, ledger.NilUUID)
	inUse := func(id ledger.UUID) bool { return chassis[id.String()] }
	return namesBy(in(providers), in(nodes), in(allocations), in(instances), inUse)
}

// nodeClass counts the nodes of a class.
type nodeClass struct {
	Nodes, NotAvailable, Associated, NoPowerState, Maintenance, Retired int
	Free                                                                []ledger.UUID
}

func nodeClassesAsKept(s *ledger.State) map[string]nodeClass {
	kept := make(map[string]nodeClass)
	s.Nodes(func(n *ledger.Node) bool {
		class := s.NodesOf(n.ResourceClass)
		if class == nil || !s.HasNodeClass(func(name string) bool { return name == n.ResourceClass }) {
			return true
		}
		one := nodeClass{
			class.Nodes, class.NotAvailable, class.Associated, class.NoPowerState, class.Maintenance, class.Retired, nil,
		}
		class.FreeNodes(func(n *ledger.Node) bool { one.Free = append(one.Free, n.UUID); return true })
		for i, id := range one.Free {
			if class.FreeNode(i).UUID != id || class.Free() != len(one.Free) {
				one.Free[i] = ledger.NilUUID
			}
		}
		kept[n.ResourceClass] = one
		return true
	})
	return kept
}

func nodeClassesAsCounted(s *ledger.State) map[string]nodeClass {
	counted := make(map[string]nodeClass)
	s.Nodes(func(n *ledger.Node) bool {
		class, free := counted[n.ResourceClass], true
		class.Nodes++
		for count, is := range map[*int]bool{
			&class.NotAvailable: n.ProvisionState != ledger.NodeAvailable, &class.Associated: !n.Instance.IsNil(),
			&class.NoPowerState: n.PowerState == "", &class.Maintenance: n.Maintenance, &class.Retired: n.Retired(),
		} {
			if is {
				*count++
				free = false
			}
		}
		if free {
			class.Free = append(class.Free, n.UUID)
		}
		counted[n.ResourceClass] = class
		return true
	})
	return counted
}

func projectsAsKept(s *ledger.State) map[string]int64 {
	kept := map[string]int64{}
	s.ProjectUsages(func(u *ledger.ProjectUsage) bool {
		for _, a := range u.Amounts {
			kept[nameOfClass(u.Project, a.Class)] = a.Amount
		}
		for _, c := range u.Consumers {
			kept[nameOfType(u.Project, c.Type)] = c.Count
		}
		return true
	})
	return kept
}

// projectsAsCounted counts for each project and those above it.
func projectsAsCounted(s *ledger.State) map[string]int64 {
	counted := map[string]int64{}
	if !s.Limited() {
		return counted
	}
	s.Consumers(func(c *ledger.Consumer) bool {
		for project, below := c.Owner.Project, true; below; project, below = s.ProjectParent(project) {
			kind := c.Owner.Type
			if kind == "" {
				kind = ledger.UnknownType
			}
			counted[nameOfType(project, kind)]++
			for _, a := range c.Allocations {
				counted[nameOfClass(project, a.Class)] += a.Amount
			}
		}
		return true
	})
	return counted
}

func nameOfClass(project string, class ledger.ClassID) string {
	return fmt.Sprint(project, " class ", class)
}

func nameOfType(project, kind string) string { return fmt.Sprint(project, " type ", kind) }
