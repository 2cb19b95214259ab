package sentences

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// said is an event that is told, at its record's time.
type said struct {
	Teller
	at int64
}

type tellers map[reflect.Type]func(ledger.Event, said) []any

func tell[T ledger.Event](in tellers, say func(e T, s said) []any) {
	in[reflect.TypeFor[T]()] = func(e ledger.Event, s said) []any { return say(e.(T), s) }
}

var events = func() tellers {
	in := make(tellers)
	catalog(in)
	providers(in)
	allocations(in)
	rules(in)
	nodes(in)
	nodeAllocations(in)
	return in
}()

func provider(id ledger.UUID) thing { return thing{wire.OfProvider, id.String()} }

func catalog(in tellers) {
	tell(in, func(e ledger.LedgerCreated, _ said) []any { return []any{"began the ledger ", e.Ledger.String()} })
	tell(in, func(e ledger.StandardNamesAdded, _ said) []any {
		classes := plural(len(e.Classes), "standard class", "standard classes")
		traits := plural(len(e.Traits), "trait", "traits")
		return []any{"added " + classes + " and " + traits}
	})
	tell(in, func(e ledger.TraitCreated, _ said) []any { return []any{"created trait ", e.Name} })
	tell(in, func(e ledger.TraitDeleted, _ said) []any { return []any{"deleted trait ", e.Name} })
	tell(in, func(e ledger.ClassCreated, _ said) []any { return []any{"created resource class ", e.Name} })
	tell(in, func(e ledger.ClassRenamed, s said) []any {
		return []any{"renamed resource class ", cmp.Or(s.Class(e.ID), strconv.FormatUint(uint64(e.ID), 10)), " to ", e.Name}
	})
	tell(in, func(e ledger.ClassDeleted, _ said) []any { return []any{"deleted resource class ", e.Name} })
	tell(in, func(e ledger.TermBegan, _ said) []any {
		return []any{"began term " + strconv.FormatUint(e.Number, 10) + ", led by " + e.Leader}
	})
	tell(in, func(e ledger.ConsumptionRootSet, _ said) []any {
		return []any{"committed to what ", plural(int(e.Projects), "project", "projects"), " consumed up to " + moment(e.At)}
	})
	tell(in, func(e ledger.ContentsImported, _ said) []any {
		return []any{"imported ", plural(int(e.Rows), "row", "rows"), " from " + e.Source}
	})
}

func providers(in tellers) {
	tell(in, func(e ledger.ProviderCreated, _ said) []any {
		return append([]any{"created provider ", provider(e.Provider)}, below(e.Parent)...)
	})
	tell(in, func(e ledger.ProviderImported, _ said) []any {
		return append([]any{"imported provider ", provider(e.Provider)}, below(e.Parent)...)
	})
	tell(in, func(e ledger.ProviderRenamed, s said) []any {
		parts := []any{"renamed provider ", provider(e.Provider), " to ", e.Name}
		if before := s.Provider(e.Provider); before != nil {
			parts[1] = before.Name
			parts[3] = provider(e.Provider)
		}
		return parts
	})
	tell(in, func(e ledger.ProviderReparented, s said) []any {
		parts := []any{"moved provider ", provider(e.Provider)}
		if e.Parent.IsNil() {
			parts = append(parts, " to the top")
		}
		parts = append(parts, below(e.Parent)...)
		if before := s.provider(e.Provider); before.Parent != nil {
			parts = append(append(parts, ", before"), below(*before.Parent)...)
		}
		return parts
	})
	tell(in, func(e ledger.ProviderDeleted, _ said) []any { return []any{"deleted provider ", provider(e.Provider)} })
	tell(in, func(e ledger.InventoriesReplaced, s said) []any {
		return s.inventories(e.Provider, "the inventories", e.Inventories, func(string) bool { return true })
	})
	tell(in, func(e ledger.InventorySet, s said) []any {
		return s.inventories(e.Provider, "the inventory", []ledger.InventoryRecord{e.Inventory},
			func(class string) bool { return class == e.Inventory.Class })
	})
	tell(in, func(e ledger.InventoryDeleted, s said) []any {
		parts := []any{"deleted the inventory of " + e.Class + " of ", provider(e.Provider)}
		return append(parts, s.beforeInventories(e.Provider, func(class string) bool { return class == e.Class })...)
	})
	tell(in, func(e ledger.ProviderTraitsReplaced, s said) []any {
		was := s.provider(e.Provider).Traits
		return append([]any{"set the traits of ", provider(e.Provider)}, changed(was, e.Traits, plain)...)
	})
	tell(in, func(e ledger.ProviderAggregatesReplaced, s said) []any {
		was := s.provider(e.Provider).Aggregates
		return append([]any{"set the aggregates of ", provider(e.Provider)}, changed(was, e.Aggregates, aggregate)...)
	})
	tell(in, func(e ledger.ProviderCountersReplaced, s said) []any {
		was := s.provider(e.Provider)
		before, after := draws(was.Draws), draws(e.Draws)
		for _, one := range was.Counters {
			before = append(before, number(one.Total)+" "+one.Name)
		}
		for _, one := range e.Counters {
			after = append(after, number(one.Total)+" "+one.Name)
		}
		return append([]any{"set the counters of ", provider(e.Provider)}, changed(before, after, plain)...)
	})
	tell(in, func(e ledger.ProviderGenerationsAdvanced, _ said) []any {
		return []any{"advanced the generations of ", plural(len(e.Providers), "provider", "providers")}
	})
}

// provider and node are what they were before; nothing is in those that were not.
func (s said) provider(id ledger.UUID) *wire.Provider {
	return cmp.Or(s.Provider(id), &wire.Provider{})
}

func (s said) node(id ledger.UUID) *wire.Node { return cmp.Or(s.Node(id), &wire.Node{}) }

func below(parent ledger.UUID) []any {
	if parent.IsNil() {
		return nil
	}
	return []any{" below ", provider(parent)}
}

func plain(text string) any { return text }

func aggregate(id ledger.UUID) any { return thing{ofAggregate, id.String()} }

// ofAggregate is the kind of aggregates, which topologies name.
const ofAggregate = "aggregate"

func draws(list []ledger.DrawRecord) (texts []string) {
	for _, d := range list {
		texts = append(texts, "one "+d.Class+" draws "+cmp.Or(d.Mode, number(d.Amount))+" of "+d.Counter)
	}
	return texts
}

// changed tells what was added to a list and what was removed from it, or all of it
// where there was nothing before.
func changed[T comparable](before, after []T, name func(T) any) []any {
	if len(before) == 0 {
		return append([]any{": "}, listed(after, name)...)
	}
	without := func(list, those []T) []T {
		return slices.DeleteFunc(slices.Clone(list), func(one T) bool { return slices.Contains(those, one) })
	}
	added, removed := without(after, before), without(before, after)
	parts := []any{": "}
	if len(added) > 0 {
		parts = append(append(parts, "added "), listed(added, name)...)
	}
	if len(removed) > 0 {
		if len(added) > 0 {
			parts = append(parts, "; ")
		}
		parts = append(append(parts, "removed "), listed(removed, name)...)
	}
	if len(parts) == 1 {
		return append(parts, "as before")
	}
	return parts
}

func listed[T any](list []T, name func(T) any) (parts []any) {
	if len(list) == 0 {
		return []any{"none"}
	}
	for i, one := range list {
		switch {
		case i == maxList:
			return append(parts, " and ", int64(len(list)-i), " more")
		case i > 0:
			parts = append(parts, ", ")
		}
		parts = append(parts, name(one))
	}
	return parts
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(int64(n)) + " " + many
}

// inventories tells what inventories of a provider are, and what those were that change with them.
func (s said) inventories(
	id ledger.UUID, what string, list []ledger.InventoryRecord, changes func(class string) bool,
) []any {
	parts := append([]any{"set " + what + " of ", provider(id), ": "}, listed(list, func(i ledger.InventoryRecord) any {
		return inventory(i.Class, wire.InventoryAmounts{
			Total: i.Total, Reserved: i.Reserved, MinUnit: i.MinUnit, MaxUnit: i.MaxUnit, StepSize: i.StepSize, Ratio: i.Ratio,
		})
	})...)
	return append(parts, s.beforeInventories(id, changes)...)
}

func (s said) beforeInventories(id ledger.UUID, of func(class string) bool) []any {
	was := slices.DeleteFunc(slices.Clone(s.provider(id).Inventories), func(i wire.Inventory) bool { return !of(i.Class) })
	if len(was) == 0 {
		return nil
	}
	name := func(i wire.Inventory) any { return inventory(i.Class, i.InventoryAmounts) }
	return append([]any{", before "}, listed(was, name)...)
}

// inventory says what is unusual of it, too.
func inventory(class string, i wire.InventoryAmounts) string {
	var unusual []string
	if i.Reserved != 0 {
		unusual = append(unusual, number(i.Reserved)+" reserved")
	}
	if i.Ratio != 1 {
		unusual = append(unusual, "ratio "+strconv.FormatFloat(i.Ratio, 'g', -1, 64))
	}
	if i.MinUnit > 1 || i.StepSize > 1 || i.MaxUnit < i.Total {
		units := fmt.Sprintf("units %s to %s by %s", number(i.MinUnit), number(i.MaxUnit), number(i.StepSize))
		unusual = append(unusual, units)
	}
	text := number(i.Total) + " " + class
	if len(unusual) > 0 {
		text += " (" + strings.Join(unusual, ", ") + ")"
	}
	return text
}

func allocations(in tellers) {
	tell(in, func(e ledger.AllocationsReplaced, s said) []any {
		return s.consumer(e.Consumer, s.before(e.Consumer), s.after(e, 0))
	})
	tell(in, func(e ledger.AllocationsReserved, s said) []any {
		until := e.Until
		if e.Lifetime > 0 {
			until = s.at + e.Lifetime
		}
		return s.consumer(e.Consumer, s.before(e.Consumer), s.after(e.AllocationsReplaced, until))
	})
	tell(in, func(e ledger.AllocationsClaimed, s said) []any {
		parts := s.consumer(e.Consumer, s.before(e.Consumer), s.after(e.AllocationsReplaced, e.Until))
		if e.From != nil {
			parts = append(parts, ", from reservation ", thing{wire.OfConsumer, e.From.String()})
		}
		return append(parts, ", chosen with score "+strconv.FormatFloat(e.Score, 'g', -1, 64))
	})
	tell(in, func(e ledger.ConsumerImported, s said) []any {
		return []any{"imported consumer ", thing{wire.OfConsumer, e.Consumer.String()}, " (project ",
			thing{wire.OfProject, e.Project}, "): ", s.held(s.after(e.AllocationsReplaced, 0))}
	})
	tell(in, func(e ledger.ConsumerRemoved, s said) []any { return s.consumer(e.Consumer, s.before(e.Consumer), nil) })
}

func rules(in tellers) {
	tell(in, func(e ledger.LimitSet, s said) []any {
		parts := append([]any{"limited "}, limited(e.Project, e.Class, e.Type)...)
		return append(append(parts, ": at most ", e.Most), before(s.Limit(e.Project, e.Class, e.Type))...)
	})
	tell(in, func(e ledger.LimitRemoved, s said) []any {
		parts := append([]any{"took away the limit of "}, limited(e.Project, e.Class, e.Type)...)
		return append(parts, before(s.Limit(e.Project, e.Class, e.Type))...)
	})
	tell(in, func(e ledger.AggregateLimitSet, s said) []any {
		parts := []any{"limited " + e.Class + " in aggregate ", aggregate(e.Aggregate), ": at most ", e.Most}
		return append(parts, before(s.AggregateLimit(e.Aggregate, e.Class))...)
	})
	tell(in, func(e ledger.AggregateLimitRemoved, s said) []any {
		parts := []any{"took away the limit of " + e.Class + " in aggregate ", aggregate(e.Aggregate)}
		return append(parts, before(s.AggregateLimit(e.Aggregate, e.Class))...)
	})
	tell(in, func(e ledger.ProjectPlaced, s said) []any {
		parts := []any{"put project ", thing{wire.OfProject, e.Project}, " at the top"}
		if e.Parent != "" {
			parts = append(parts[:2], " below project ", thing{wire.OfProject, e.Parent})
		}
		if was := s.Parent(e.Project); was != "" {
			parts = append(parts, ", before below ", thing{wire.OfProject, was})
		}
		return parts
	})
	tell(in, func(e ledger.PreferenceSet, s said) []any {
		return []any{"set preference " + e.Name + ": " + cut(string(e.Prefer)), comma("before ", cut(s.Preference(e.Name)))}
	})
	tell(in, func(e ledger.PreferenceRemoved, s said) []any {
		return []any{"took away preference " + e.Name, comma("before ", cut(s.Preference(e.Name)))}
	})
	tell(in, func(e ledger.TopologySet, _ said) []any {
		domains := plural(len(e.Members), "domain", "domains")
		return []any{"declared topology " + e.Name + ": " + domains + " of " + strings.Join(e.Levels, ", ")}
	})
	tell(in, func(e ledger.TopologyRemoved, _ said) []any { return []any{"took away topology " + e.Name} })
}

func limited(project, class, consumers string) []any {
	of := cmp.Or(class, "consumers of type "+consumers)
	if project == "" {
		return []any{"every project to " + of}
	}
	return []any{"project ", thing{wire.OfProject, project}, " to " + of}
}

func before(most *int64) []any {
	if most == nil {
		return nil
	}
	return []any{", before ", *most}
}

func cut(text string) string {
	if len(text) > maxText {
		return text[:maxText] + "..."
	}
	return text
}

// comma begins with a comma what is not empty.
func comma(what, text string) string {
	if text == "" {
		return ""
	}
	return ", " + what + text
}

func node(id ledger.UUID) thing { return thing{wire.OfNode, id.String()} }

func chassis(id ledger.UUID) thing { return thing{wire.OfChassis, id.String()} }

func nodes(in tellers) {
	tell(in, func(e ledger.NodeCreated, _ said) []any { return []any{"enrolled node ", node(e.Node)} })
	tell(in, func(e ledger.NodeImported, _ said) []any {
		return []any{"imported node ", node(e.Node), ", " + e.ProvisionState}
	})
	tell(in, func(e ledger.NodeDescribed, s said) []any {
		parts := []any{"described node ", node(e.Node)}
		if was := s.Node(e.Node); was != nil {
			return append(parts, comma("changed: ", strings.Join(fields(was.NodeDescription, e.Description), ", ")))
		}
		return parts
	})
	tell(in, func(e ledger.NodeStateSet, s said) []any {
		parts := []any{"set node ", node(e.Node), " to " + e.ProvisionState}
		was := s.node(e.Node)
		if was.ProvisionState != e.ProvisionState {
			parts = append(parts, comma("before ", was.ProvisionState))
		}
		if was.PowerState != e.PowerState {
			parts = append(parts, comma("", e.PowerState))
		}
		switch {
		case e.Maintenance:
			parts = append(parts, ", in maintenance"+colon(e.MaintenanceReason))
		case was.Maintenance:
			parts = append(parts, ", out of maintenance")
		}
		return parts
	})
	tell(in, func(e ledger.NodeTraitsReplaced, s said) []any {
		return append([]any{"set the traits of node ", node(e.Node)}, changed(s.node(e.Node).Traits, e.Traits, plain)...)
	})
	tell(in, func(e ledger.NodeInstanceSet, s said) []any {
		parts := []any{"took the instance off node ", node(e.Node)}
		if !e.Instance.IsNil() {
			parts = []any{"put instance ", thing{wire.OfConsumer, e.Instance.String()}, " on node ", node(e.Node)}
		}
		if was := s.node(e.Node).Instance; was != nil {
			parts = append(parts, ", before ", thing{wire.OfConsumer, was.String()})
		}
		return parts
	})
	tell(in, func(e ledger.NodeDeleted, _ said) []any { return []any{"deleted node ", node(e.Node)} })
	tell(in, func(e ledger.NodeProvidersSet, _ said) []any {
		if e.On {
			return []any{"turned providers for nodes on"}
		}
		return []any{"turned providers for nodes off"}
	})
	described := func(what string, id ledger.UUID, text string) []any {
		return []any{what + " chassis ", chassis(id), colon(cut(text))}
	}
	tell(in, func(e ledger.ChassisCreated, _ said) []any {
		return described("created", e.Chassis, e.Description.Description)
	})
	tell(in, func(e ledger.ChassisImported, _ said) []any {
		return described("imported", e.Chassis, e.Description.Description)
	})
	tell(in, func(e ledger.ChassisDescribed, _ said) []any {
		return described("described", e.Chassis, e.Description.Description)
	})
	tell(in, func(e ledger.ChassisDeleted, _ said) []any { return []any{"deleted chassis ", chassis(e.Chassis)} })
}

// fields names the fields in which two descriptions differ.
func fields(before, after ledger.NodeDescription) (names []string) {
	was, is := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range was.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			name, _, _ := strings.Cut(was.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

func nodeAllocations(in tellers) {
	one := func(id ledger.UUID) thing { return thing{wire.OfNodeAllocation, id.String()} }
	tell(in, func(e ledger.AllocationRequested, _ said) []any {
		parts := []any{"asked for a whole node", comma("of class ", e.ResourceClass)}
		if e.Owner != "" {
			parts = append(parts, " for project ", thing{wire.OfProject, e.Owner})
		}
		return append(parts, ": node allocation ", one(e.Allocation))
	})
	tell(in, func(e ledger.NodeAllocationImported, _ said) []any {
		return []any{"imported node allocation ", one(e.Allocation), ", " + string(e.State)}
	})
	tell(in, func(e ledger.NodeAllocated, _ said) []any {
		return []any{"gave node ", node(e.Node), " to node allocation ", one(e.Allocation)}
	})
	tell(in, func(e ledger.AllocationFailed, _ said) []any {
		return []any{"found no node for node allocation ", one(e.Allocation), colon(cut(e.LastError))}
	})
	tell(in, func(e ledger.NodeAllocationUpdated, s said) []any {
		parts := []any{"changed node allocation ", one(e.Allocation)}
		if was := s.NodeAllocation(e.Allocation); was != nil && was.Name != e.Name {
			parts = append(parts, ", before named "+cmp.Or(was.Name, "nothing"))
		}
		return parts
	})
	tell(in, func(e ledger.NodeAllocationReleased, s said) []any {
		parts := []any{"released node allocation ", one(e.Allocation)}
		if was := s.NodeAllocation(e.Allocation); was != nil && was.Node != nil {
			parts = append(parts, ", which had node ", node(*was.Node))
		}
		return parts
	})
}
