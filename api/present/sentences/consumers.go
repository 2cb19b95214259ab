package sentences

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// Consumer says how what a consumer holds has changed; nil: it held nothing.
func (t Teller) Consumer(id ledger.UUID, before, after *wire.Allocations) Words {
	return t.words(said{t, 0}.consumer(id, before, after)...)
}

// Holds says what a consumer holds of a provider; nil: it holds nothing.
func (t Teller) Holds(id, of ledger.UUID, held *wire.Allocations) Words {
	if held != nil {
		part := *held
		elsewhere := func(a wire.Allocation) bool { return a.Provider != of }
		part.Allocations = slices.DeleteFunc(slices.Clone(held.Allocations), elsewhere)
		held = &part
	}
	if held == nil || len(held.Allocations) == 0 {
		return t.words("consumer ", thing{wire.OfConsumer, id.String()}, " holds nothing of ", provider(of))
	}
	return t.words(append(whose(id, held), " holds ", said{t, 0}.held(held))...)
}

func whose(id ledger.UUID, a *wire.Allocations) []any {
	return []any{"consumer ", thing{wire.OfConsumer, id.String()}, " (project ", thing{wire.OfProject, a.Project}, ")"}
}

func (s said) consumer(id ledger.UUID, before, after *wire.Allocations) []any {
	who := func(a *wire.Allocations) []any { return whose(id, a) }
	switch {
	case before == nil && after == nil:
		return []any{"changed consumer ", thing{wire.OfConsumer, id.String()}}
	case before == nil && after.ReservedUntil != "":
		return []any{"reserved ", s.held(after), " for ", who(after), " until ", after.ReservedUntil}
	case before == nil:
		return []any{"allocated ", s.held(after), " for ", who(after)}
	case after == nil:
		return []any{"released ", who(before), ": ", s.held(before)}
	}
	parts := s.placed(before, after)
	switch {
	case parts != nil:
	case before.ReservedUntil != after.ReservedUntil && after.ReservedUntil != "":
		parts = []any{"reserved until ", after.ReservedUntil, " what ", who(after), " holds: ", s.held(after)}
	case before.ReservedUntil != "" && after.ReservedUntil == "":
		parts = []any{"confirmed the reservation of ", who(after), ": ", s.held(after)}
	case before.Project == after.Project && before.User == after.User && before.Type == after.Type:
		parts = []any{"confirmed what ", who(after), " holds: ", s.held(after)}
	case before.Project == after.Project && before.User == after.User:
		parts = []any{"changed the type of ", who(after)}
	default:
		parts = []any{"gave away ", who(after)}
	}
	return append(parts, owners(before, after)...)
}

// placed says what a consumer holds where; nil: what it held there before.
func (s said) placed(before, after *wire.Allocations) (parts []any) {
	was, is := hostsOf(before), hostsOf(after)
	left := slices.DeleteFunc(slices.Clone(was), func(h string) bool { return slices.Contains(is, h) })
	joined := slices.DeleteFunc(slices.Clone(is), func(h string) bool { return slices.Contains(was, h) })
	who, differs := whose(after.Consumer, after), differing(before, after)
	moved, stays := len(left) > 0 && len(joined) > 0, len(joined) < len(is)
	how := []any{colon(differs)}
	switch {
	case stays && (moved || differs == ""): // sums would not say it
		how = []any{": ", s.each(after), "; before ", s.each(before)}
	case moved && differs != "":
		how = []any{": ", amounts(after), ", before ", amounts(before)}
	case moved:
		how = []any{": ", amounts(after)}
	}
	switch {
	case moved:
		parts = []any{"moved ", who, " from ", s.providers(left), " to ", s.providers(joined)}
	case len(left) > 0:
		parts = []any{"took ", who, " off ", s.providers(left)}
	case len(joined) > 0:
		parts = []any{"extended ", who, " to ", s.providers(joined)}
	case differs != "":
		parts = []any{"resized ", who, " on ", s.hosts(after)}
	case !maps.Equal(byPlace(before), byPlace(after)):
		parts = []any{"redistributed ", who}
	default:
		return nil
	}
	return append(parts, how...)
}

// place is a class of a provider.
type place struct{ provider, class string }

func byPlace(a *wire.Allocations) map[place]int64 {
	by := make(map[place]int64)
	for _, one := range a.Allocations {
		by[place{one.Provider.String(), one.Class}] += one.Amount
	}
	return by
}

// each says what is held of each provider.
func (s said) each(a *wire.Allocations) (parts []any) {
	for i, id := range s.first(hostsOf(a)) {
		if i == maxTold {
			return append(parts, " and ", int64(len(hostsOf(a))-i), " more")
		}
		if i > 0 {
			parts = append(parts, " and ")
		}
		one := *a
		one.Allocations = slices.DeleteFunc(slices.Clone(a.Allocations), func(h wire.Allocation) bool {
			return h.Provider.String() != id
		})
		parts = append(parts, amounts(&one), " on ", thing{wire.OfProvider, id})
	}
	return parts
}

func owners(before, after *wire.Allocations) (parts []any) {
	if before.Project != after.Project {
		parts = append(parts, ", before of project ", thing{wire.OfProject, before.Project})
	}
	if before.User != after.User {
		parts = append(parts, ", to user ", thing{wire.OfUser, after.User}, ", before ", thing{wire.OfUser, before.User})
	}
	if before.Type != after.Type {
		parts = append(parts, ", as "+cmp.Or(after.Type, "no type")+", before "+cmp.Or(before.Type, "no type"))
	}
	return parts
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// after is what a consumer holds by an event.
func (s said) after(e ledger.AllocationsReplaced, until int64) *wire.Allocations {
	a := &wire.Allocations{Consumer: e.Consumer, Project: e.Project, User: e.User, Type: e.Type}
	if until > 0 {
		a.ReservedUntil = moment(until)
	}
	for _, one := range e.Allocations {
		a.Allocations = append(a.Allocations, wire.Allocation(one))
	}
	return a
}

// before is what a consumer held, with times as events have them.
func (s said) before(id ledger.UUID) *wire.Allocations {
	held := s.Past.Consumer(id)
	if held == nil || held.ReservedUntil == "" {
		return held
	}
	copied := *held
	if until, err := time.Parse(time.RFC3339Nano, held.ReservedUntil); err == nil {
		copied.ReservedUntil = moment(until.UnixNano())
	}
	return &copied
}

func moment(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }

func hostsOf(a *wire.Allocations) (ids []string) {
	for _, one := range a.Allocations {
		if id := one.Provider.String(); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s said) hosts(a *wire.Allocations) []any { return s.providers(hostsOf(a)) }

func (s said) held(a *wire.Allocations) []any { return []any{amounts(a), " on ", s.hosts(a)} }

// providers names some, the one that the sentence is about first.
func (s said) providers(ids []string) (parts []any) {
	for i, id := range s.first(ids) {
		switch {
		case i == maxTold:
			return append(parts, " and ", int64(len(ids)-i), " more")
		case i > 0:
			parts = append(parts, " and ")
		}
		parts = append(parts, thing{wire.OfProvider, id})
	}
	return parts
}

// first puts the provider that the sentence is about first.
func (s said) first(ids []string) []string {
	if i := slices.Index(ids, s.About.Name); i > 0 {
		ids[0], ids[i] = ids[i], ids[0]
	}
	return ids
}

func sums(a *wire.Allocations) map[string]int64 {
	by := make(map[string]int64)
	for _, one := range a.Allocations {
		by[one.Class] += one.Amount
	}
	return by
}

var important = []string{"VCPU", "PCPU", "MEMORY_MB", "DISK_GB"}

// byImportance sorts classes: those that operators look at come first.
func byImportance(a, b string) int {
	rank := func(class string) int { return slices.Index(important, class) & 0xff } // -1 comes last
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

func amounts(a *wire.Allocations) string {
	by := sums(a)
	var list []string
	for _, class := range slices.SortedFunc(maps.Keys(by), byImportance) {
		list = append(list, number(by[class])+" "+class)
	}
	return strings.Join(list, ", ")
}

func differing(before, after *wire.Allocations) string {
	was, is := sums(before), sums(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	var list []string
	for _, class := range slices.SortedFunc(maps.Keys(all), byImportance) {
		if was[class] != is[class] {
			list = append(list, number(is[class])+" "+class+", before "+number(was[class]))
		}
	}
	return strings.Join(list, "; ")
}
