package commandstest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// The entities of random commands. They are few, so that commands conflict. Nodes
// are providers, too, and node allocations consumers.
var (
	someProviders  = ids(1, 5)
	someConsumers  = ids(2, 4)
	someAggregates = ids(3, 2)
	someChassis    = ids(8, 2)
	someSymbols    = []string{"CUSTOM_A", "CUSTOM_B", "CUSTOM_C"}

	// someTexts are the texts of fields, by name.
	someTexts = map[string][]string{
		"Class":          {"VCPU", "MEMORY_MB", "CUSTOM_A", "CUSTOM_B"},
		"ResourceClass":  {"a", "b"},
		"Driver":         {"fake"},
		"Trait":          someSymbols,
		"Traits":         someSymbols,
		"Project":        {"p", "q"},
		"Projects":       {"p", "q"},
		"Owner":          {"", "p", "q"},
		"Lessee":         {"", "p"},
		"User":           {"u"},
		"Type":           {"INSTANCE", "MIGRATION"},
		"Name":           {"a", "b", "c", "d", "f", "g", "h", "i", "j", "k"},
		"ProvisionState": {"enroll", ledger.NodeAvailable},
		"Target":         {"manage", "provide", "active", "deleted", "adopt", "power on", "power off"},
	}
	// someIDs are the ids of fields, by name; someProviders are the ids of all
	// others.
	someIDs = map[string][]ledger.UUID{
		"Consumer": someConsumers, "Allocation": someConsumers, "NewAllocation": someConsumers,
		"InstanceUUID": someConsumers, "Aggregates": someAggregates, "Aggregate": someAggregates,
		"Chassis": someChassis, "ChassisUUID": someChassis,
	}
)

func ids(kind, n byte) (list []ledger.UUID) {
	for i := range n {
		list = append(list, ledgertest.ID(kind, i+1))
	}
	return list
}

// everyKind are the kinds of commands that can be drawn: all but the one that
// begins a ledger.
var everyKind = func() []string {
	kinds := slices.AppendSeq(slices.Collect(maps.Keys(commands.Registry)), maps.Keys(commands.Internal))
	kinds = slices.DeleteFunc(
		kinds, func(kind string) bool { return kind == commands.NameOf(new(commands.AddStandardNames)) },
	)
	return append(slices.Sorted(slices.Values(kinds)), "Batch")
}()

// RandomCommand draws any command that clients or Allot's own processes submit.
// It draws from the registry, so new kinds of commands are drawn, too.
func RandomCommand(t *rapid.T) commands.Command {
	return draw(t, everyKind)
}

// RandomProviderCommand draws a command that changes providers, or several in one
// batch.
func RandomProviderCommand(t *rapid.T) commands.Command {
	return draw(t, []string{
		"Batch", "Batch", "Batch", "CreateProvider", "ReparentProvider", "UpdateProvider", "DeleteProvider",
		"ReplaceInventories",
		"ReplaceProviderTraits", "ReplaceProviderAggregates", "ReplaceProviderCounters",
		"AllocateForConsumers", "ReleaseConsumer",
		"Reserve",
	})
}

// RandomNodeCommand draws a command that changes nodes or their allocations, or
// several in one batch.
func RandomNodeCommand(t *rapid.T) commands.Command {
	return draw(t, []string{
		"Batch", "SetNodeProvisionState", "SetNodeProvisionState", "ReleaseNodeAllocation", "RequestNodeAllocation",
		"ChooseNode", "ChooseNode",
		"DeleteNode", "CreateNode", "UpdateNode", "BackfillNodeAllocation", "AllocateForConsumers", "ReleaseConsumer",
		"SetNodeMaintenance",
	})
}

// RandomChassisCommand draws a command that changes chassis or the nodes in them,
// or several in one batch.
func RandomChassisCommand(t *rapid.T) commands.Command {
	return draw(
		t,
		[]string{
			"Batch", "CreateChassis", "UpdateChassis", "DeleteChassis", "CreateNode", "UpdateNode", "UpdateNode", "DeleteNode",
		},
	)
}

func draw(t *rapid.T, kinds []string) commands.Command {
	kind := rapid.SampledFrom(kinds).Draw(t, "kind")
	if kind != "Batch" {
		return drawCommand(t, kind)
	}
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return kind == "Batch" })
	batch := &commands.Batch{}
	for range rapid.IntRange(1, 3).Draw(t, "length") {
		batch.Commands = append(batch.Commands, drawCommand(t, rapid.SampledFrom(kinds).Draw(t, "of")))
	}
	return batch
}

// SomeThings returns commands that make some of the entities of random commands.
// On an empty ledger most random commands find nothing.
func SomeThings() []commands.Command {
	list := []commands.Command{
		&commands.SetNodeProviders{On: true, Limit: 1}, &commands.CreateChassis{Chassis: someChassis[0]},
	}
	for _, name := range someSymbols[:2] {
		list = append(list, &commands.CreateTrait{Name: name}, &commands.CreateResourceClass{Name: name})
	}
	inventories := []commands.Inventory{{Class: "VCPU", Total: 9}, {Class: "CUSTOM_B", Total: 9}}
	for i, id := range someProviders[:2] {
		list = append(list, &commands.CreateProvider{Provider: id, Name: someTexts["Name"][i]},
			&commands.ReplaceInventories{Provider: id, Inventories: inventories})
	}
	driver, class := "fake", "a"
	for _, id := range someProviders[3:] {
		list = append(list, &commands.CreateNode{
			Node: id, NodeFields: commands.NodeFields{Driver: &driver, ResourceClass: &class},
			ProvisionState: ledger.NodeAvailable,
		}, &commands.SetNodePowerState{Node: id, Target: "power off"})
	}
	return list
}

// drawCommand fills a command's fields, most of them with fitting values.
func drawCommand(t *rapid.T, kind string) commands.Command {
	if kind == commands.NameOf(new(commands.Claim)) {
		return RandomClaim(t)
	}
	create, known := commands.Registry[kind]
	if !known {
		create = commands.Internal[kind]
	}
	c := create()
	fill(t, reflect.ValueOf(c).Elem(), "")
	switch c := c.(type) {
	case *commands.SetLimit:
		c.Most = nil
		if most := rapid.Int64Range(-1, 6).Draw(t, "most"); most >= 0 {
			c.Most = &most
		}
		if rapid.Bool().Draw(t, "of a class") {
			c.Type = ""
		} else {
			c.Class = ""
		}
		if rapid.Bool().Draw(t, "default") {
			c.Project = ""
		}
		if rapid.IntRange(0, 2).Draw(t, "of an aggregate") == 0 {
			c.Project, c.Class, c.Type = "", drawText(t, "Class"), ""
		} else {
			c.Aggregate = ledger.NilUUID
		}
	case *commands.SetPreference:
		if rapid.IntRange(0, 3).Draw(t, "set") > 0 {
			c.Prefer = RandomPreference(t)
		}
	case *commands.SetTopology:
		if rapid.Bool().Draw(t, "set") {
			c.Topology = &demand.Topology{Levels: []string{"rack"}, Members: map[string]demand.TopologyMember{
				rapid.SampledFrom(someAggregates).Draw(t, "rack").String(): {Level: "rack", Name: "r"},
			}}
		}
	case *commands.PlaceProject:
		c.Parent = rapid.SampledFrom([]string{"", "p", "q", "r"}).Draw(t, "parent")
	case *commands.CreateTrait:
		c.Name = rapid.SampledFrom(someSymbols).Draw(t, "symbol")
	case *commands.DeleteTrait:
		c.Name = rapid.SampledFrom(someSymbols).Draw(t, "symbol")
	case *commands.CreateResourceClass:
		c.Name = rapid.SampledFrom(someSymbols).Draw(t, "symbol")
	case *commands.RenameResourceClass:
		c.Name, c.NewName = rapid.SampledFrom(someSymbols).Draw(t, "from"), rapid.SampledFrom(someSymbols).Draw(t, "to")
	case *commands.ReplaceProviderAggregates:
		c.Spelt = nil
		if rapid.Bool().Draw(t, "spelt") {
			for _, id := range c.Aggregates {
				c.Spelt = append(c.Spelt, rapid.SampledFrom([]string{
					id.String(), strings.ToUpper(id.String()), ledger.SpelledPlain.Text(id),
				}).Draw(t, "spelling"))
			}
		}
	case *commands.ReplaceProviderCounters:
		drawCounters(t, c)
	case *commands.UpdateChassis:
		text := `"` + commands.PatchValue(drawText(t, "Name")) + `"`
		c.Patch = []commands.PatchOperation{{Op: "replace", Path: "/description", Value: text}}
	case *commands.Reshape:
		for i := range c.Inventories {
			generation := rapid.Int64Range(0, 4).Draw(t, "generation")
			c.Inventories[i].Generation = &generation
		}
	case *commands.SetConsumptionRoot:
		c.At = rapid.Int64Range(1, 9).Draw(t, "hour") * ledger.ConsumptionPeriod
	case *commands.SetNodeProviders:
		c.On, c.Limit = rapid.IntRange(0, 9).Draw(t, "providers") > 0, 5
	}
	return c
}

// drawCounters draws counters of few names, and what classes draw from those above.
func drawCounters(t *rapid.T, c *commands.ReplaceProviderCounters) {
	c.Counters, c.Draws = nil, nil
	for _, name := range []string{"MODE", "SLICE"} {
		if rapid.Bool().Draw(t, "has "+name) {
			c.Counters = append(c.Counters, ledger.Counter{Name: name, Total: rapid.Int64Range(0, 6).Draw(t, "total")})
		}
	}
	for _, class := range []string{"VCPU", "CUSTOM_B"} {
		if rapid.Bool().Draw(t, class+" draws") {
			amount := rapid.Int64Range(1, 3).Draw(t, "amount")
			c.Draws = append(c.Draws, ledger.DrawRecord{Class: class, Counter: "SLICE", Amount: amount})
		}
		if rapid.IntRange(0, 3).Draw(t, class+" has a mode") == 0 {
			mode := rapid.SampledFrom([]string{"A", "B"}).Draw(t, "mode")
			c.Draws = append(c.Draws, ledger.DrawRecord{Class: class, Counter: "MODE", Amount: 1, Mode: mode})
		}
	}
}

var (
	idType       = reflect.TypeFor[ledger.UUID]()
	documentType = reflect.TypeFor[ledger.Document]()
	patchType    = reflect.TypeFor[[]commands.PatchOperation]()
)

// fill draws a value for a field of this name, and for all fields in it.
func fill(t *rapid.T, v reflect.Value, name string) {
	switch v.Type() {
	case idType:
		v.Set(reflect.ValueOf(drawID(t, name)))
		return
	case documentType:
		return // none
	case patchType:
		v.Set(reflect.ValueOf(drawPatch(t)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				fill(t, v.Field(i), field.Name)
			}
		}
	case reflect.Pointer:
		if _, known := someTexts[name]; (known || name == "InstanceUUID" || name == "ChassisUUID") &&
			rapid.IntRange(0, 2).Draw(t, name) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), name)
		}
	case reflect.Slice:
		fillSlice(t, v, name)
	case reflect.String:
		v.SetString(drawText(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name) || name == "AnyGeneration")
	case reflect.Int64:
		v.SetInt(drawAmount(t, name))
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(3600)
	}
}

func fillSlice(t *rapid.T, v reflect.Value, name string) {
	n := rapid.IntRange(0, 2).Draw(t, name)
	if name == "Allocations" {
		n = max(n, 1)
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := range n {
		fill(t, v.Index(i), name)
	}
	if n == 2 && key(v.Index(0)) == key(v.Index(1)) {
		v.SetLen(1)
	}
}

// key returns the property that no two items of a list may share: the item
// itself, or the entity that it is about.
func key(v reflect.Value) any {
	if v.Kind() == reflect.Struct {
		return v.Field(0).Interface()
	}
	return v.Interface()
}

func drawAmount(t *rapid.T, name string) int64 {
	switch name {
	case "Total":
		return rapid.Int64Range(4, 9).Draw(t, name)
	case "Reserved":
		return 0
	}
	return rapid.Int64Range(1, 3).Draw(t, name)
}

func drawID(t *rapid.T, name string) ledger.UUID {
	pool, known := someIDs[name]
	if !known {
		pool = someProviders
	}
	if name == "Parent" && rapid.Bool().Draw(t, "root") {
		return ledger.NilUUID
	}
	return rapid.SampledFrom(pool).Draw(t, name)
}

func drawText(t *rapid.T, name string) string {
	if pool, known := someTexts[name]; known {
		return rapid.SampledFrom(pool).Draw(t, name)
	}
	return ""
}

func drawPatch(t *rapid.T) []commands.PatchOperation {
	return []commands.PatchOperation{rapid.SampledFrom([]commands.PatchOperation{
		{Op: "replace", Path: "/name", Value: `"e"`},
		{Op: "replace", Path: "/resource_class", Value: `"a"`},
		{Op: "replace", Path: "/resource_class", Value: `"b"`},
		{Op: "add", Path: "/extra/x", Value: "1"},
		{Op: "remove", Path: "/instance_uuid"},
		{Op: "replace", Path: "/instance_uuid", Value: "null"},
		{Op: "add", Path: "/extra/x", Value: `{"<":[1.5,-1,true,""]}`},
		{Op: "add", Path: "/chassis_uuid", Value: `"` + commands.PatchValue(someChassis[0].String()) + `"`},
		{Op: "add", Path: "/chassis_uuid", Value: `"` + commands.PatchValue(someChassis[1].String()) + `"`},
		{Op: "remove", Path: "/chassis_uuid"},
	}).Draw(t, "patch")}
}

// RandomClaim draws a claim that is well-formed.
func RandomClaim(t *rapid.T) *commands.Claim {
	c := &commands.Claim{Claim: demand.Claim{
		Alternates: rapid.IntRange(0, 2).Draw(t, "alternates"), OwnFree: rapid.Bool().Draw(t, "own free"),
	}}
	n := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "consumers")
	for _, id := range someConsumers[:n] {
		c.For = append(c.For, demand.ClaimConsumer{
			Consumer: id, Project: drawText(t, "Project"), User: "u", AnyGeneration: true,
		})
	}
	if n > 1 {
		c.Alternates = 0
	}
	if rapid.IntRange(0, 2).Draw(t, "draws") == 0 {
		from := rapid.SampledFrom(someConsumers[n:]).Draw(t, "from")
		c.For[0].FromReservation = &from
	}
	c.Requests = []demand.CandidateRequest{randomRequest(t)}
	if n > 1 && rapid.IntRange(0, 2).Draw(t, "stands") == 0 {
		c.For[0].FromReservation = nil
		c.Gang = []demand.GangRule{{
			Topology: drawText(t, "Name"), Within: rapid.SampledFrom([]string{"rack", demand.Smallest}).Draw(t, "within"),
		}}
	}
	if n > 1 && c.Gang == nil && rapid.Bool().Draw(t, "two requests") {
		c.Requests = append(c.Requests, randomRequest(t))
		c.For[n-1].Request = 1
	}
	if rapid.IntRange(0, 3).Draw(t, "alternatives") == 0 {
		other := make([]demand.CandidateRequest, len(c.Requests))
		for i := range other {
			other[i] = randomRequest(t)
		}
		c.Alternatives, c.Requests = [][]demand.CandidateRequest{c.Requests, other}, nil
	}
	if rapid.Bool().Draw(t, "prefers") {
		c.Prefer = RandomPreference(t)
		if rapid.IntRange(0, 3).Draw(t, "by name") == 0 {
			c.Prefer = &demand.ClaimPreference{Name: drawText(t, "Name")}
		}
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "near") {
			c.Prefer.Near = append(c.Prefer.Near, randomNear(t))
		}
	}
	return c
}

func randomRequest(t *rapid.T) demand.CandidateRequest {
	often := func(what string) bool { return rapid.IntRange(0, 3).Draw(t, what) == 0 }
	q := demand.CandidateRequest{Isolate: rapid.Bool().Draw(t, "isolate")}
	for _, suffix := range []string{"", "_1"}[:rapid.IntRange(1, 2).Draw(t, "groups")] {
		g := demand.RequestGroup{Suffix: suffix, Resources: map[string]int64{}}
		g.Resources[drawText(t, "Class")] = drawAmount(t, "amount")
		if often("more") {
			g.Resources[drawText(t, "Class")] = drawAmount(t, "amount")
		}
		if often("required") {
			g.Required = [][]string{{"CUSTOM_A"}}
		}
		if often("forbidden") {
			g.Forbidden = []string{"CUSTOM_B"}
		}
		if often("member") {
			g.MemberOf = [][]ledger.UUID{{drawID(t, "Aggregates")}}
		}
		q.Groups = append(q.Groups, g)
	}
	return q
}

func randomNear(t *rapid.T) demand.NearConsumers {
	n := demand.NearConsumers{
		By:        rapid.SampledFrom([]string{"provider", "tree", "aggregate"}).Draw(t, "by"),
		Rule:      rapid.SampledFrom([]string{"", "require", "forbid"}).Draw(t, "rule"),
		Consumers: []ledger.UUID{drawID(t, "Consumer")},
	}
	if n.Rule == "" {
		n.Weight = rapid.SampledFrom([]demand.Weight{-1, 0.5}).Draw(t, "weight")
	}
	return n
}

// RandomPreference draws a preference that has no name.
func RandomPreference(t *rapid.T) *demand.ClaimPreference {
	p := &demand.ClaimPreference{Order: rapid.SampledFrom([]string{"", "pack", "spread", "random"}).Draw(t, "order")}
	if p.Order == "" {
		p.Weights = map[string]demand.Weight{drawText(t, "Class"): demand.Weight(drawAmount(t, "weight"))}
	}
	if rapid.Bool().Draw(t, "soft trait") {
		p.Traits = map[string]demand.Weight{"CUSTOM_A": -1.5}
	}
	if rapid.Bool().Draw(t, "soft aggregate") {
		p.Aggregates = []demand.AggregatePreference{{Aggregate: someAggregates[0], Weight: 0.5}}
	}
	return p
}

// ClaimOfDevices asks for so many groups of one device for each of some consumers.
func ClaimOfDevices(groups, consumers int, order string) *demand.Claim {
	c := &demand.Claim{Prefer: &demand.ClaimPreference{Order: order}, Requests: make([]demand.CandidateRequest, 1)}
	for i := range groups {
		c.Requests[0].Groups = append(c.Requests[0].Groups, demand.RequestGroup{
			Suffix: fmt.Sprint("_", i), Resources: map[string]int64{"PGPU": 1},
		})
	}
	for range consumers {
		c.For = append(c.For, demand.ClaimConsumer{Consumer: NewID(), Project: "p", User: "u"})
	}
	return c
}
