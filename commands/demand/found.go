package demand

import (
	"reflect"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/wanted"
)

// Found is what the search for a claim has found.
type Found struct {
	Choices []Choice // the best first
	AsOf    uint64   // the sequence of the commit as of which it was searched
	Seed    uint64
	// Asked is, for each of the claim's requests, what the record keeps of it.
	Asked []ledger.Document
	// Prefer is what was preferred, with what a name stood for.
	Prefer *ClaimPreference
	// Alternative is the one that Choices are of, and Earlier says of each before it why it was not
	// served.
	Alternative int
	Earlier     []string
	// Standing is the topology in which its consumers stand; nil: in none.
	Standing *Standing
	// Several: it is of several consumers.
	Several bool
	// Ganged: there were rules among its consumers.
	Ganged bool
	// Draws: some consumer draws on a reservation, of which, if it is Promised, others on
	// their way are assumed to draw, too.
	Draws, Promised bool
	// Last: it is not searched again if nothing of this fits.
	Last bool
	// Spent: the search was not brought to its end.
	Spent bool
	// OverAggregate is the first candidate's that there was no room for in an
	// aggregate, by its limit; nil: none was refused for that.
	OverAggregate *Rejection
	// Why there is nothing, if there is none and it is the last search.
	Why *wanted.Explanation
}

// By reports whether it was searched by a preference, and by the topology that a State has: what has
// a name may have changed since.
func (f *Found) By(prefer *ClaimPreference, s *ledger.State) bool {
	return (f.Standing == nil || f.Standing.in(s)) &&
		(prefer == nil || prefer.Name == "" || reflect.DeepEqual(f.Prefer, prefer))
}

// Standing is how a gang stands in a topology.
type Standing struct {
	Kept *ledger.Topology
	How  *TopologyGang
}

// in reports whether the topology is still so in a State.
func (t *Standing) in(s *ledger.State) bool {
	now, exists := s.Topology(t.Kept.Name)
	return exists && slices.Equal(now.Levels, t.Kept.Levels) && slices.Equal(now.Members, t.Kept.Members)
}

// Choice is what each of a claim's consumers gets.
type Choice struct{ Members []wanted.Ranked }

// Unchanged reports whether all providers are as the search saw them, but for
// their inventories.
func (c *Choice) Unchanged(s *ledger.State) bool {
	for i := range c.Members {
		for _, seen := range c.Members[i].Seen {
			p, exists := s.Provider(seen.UUID)
			if !exists || p.Parent != seen.Parent || p.Root != seen.Root || !sameList(p.Traits, seen.Traits) ||
				!sameList(p.Aggregates, seen.Aggregates) {
				return false
			}
		}
	}
	return true
}

func sameList[T comparable](a, b []T) bool { return ledger.SameList(a, b) || slices.Equal(a, b) }

// Nothing says why no choice could be taken.
func (f *Found) Nothing() *Rejection {
	switch {
	case !f.Last:
		return &Rejection{Code: CodeClaimOutdated, Message: "what was found does not fit any more"}
	case len(f.Choices) > 0:
		return Refuse(CodeClaimBudget, Facts{AsOf: f.AsOf},
			"what was found was taken by others again and again: the claim may succeed when it is sent again")
	case f.Spent:
		return Refuse(CodeClaimBudget, Facts{AsOf: f.AsOf},
			"within the bounds of the search nothing was found, and it is not certain that there is nothing: ask for less at once")
	}
	if f.OverAggregate != nil && !f.Several {
		return f.OverAggregate
	}
	why := ""
	if f.Draws {
		why = ", from what is left of the reservation that it draws on"
	} else if f.OverAggregate != nil {
		why = ", given the limits of aggregates"
	} else if f.Why != nil && f.Why.RemovedLast != "" {
		why = ", removed last by " + f.Why.RemovedLast
	} else if f.Prefer.Strict() {
		why = ", given what is required and forbidden about other consumers"
	} else if f.Standing != nil {
		why = ", for all of its consumers in one domain of topology " + f.Standing.Kept.Name
	} else if f.Ganged {
		why = ", for all of its consumers together by the rules of the gang"
	}
	return Refuse(CodeNoCandidates, Facts{AsOf: f.AsOf, Explanation: f.Why}, "nothing satisfies the claim%s", why)
}

// Rejected is the error of a search for what cannot be searched for.
type Rejected struct{ *Rejection }

// Error implements error.
func (r *Rejected) Error() string { return r.String() }

// MayDraw says of what a project may not draw on no more than that it is not there.
func MayDraw(reserved *ledger.Consumer, id ledger.UUID, project string) *Rejection {
	if reserved != nil && reserved.ReservedUntil > 0 &&
		(reserved.Owner.Project == project || slices.Contains(reserved.Projects, project)) {
		return nil
	}
	return Refuse(CodeNoReservation, Facts{Consumer: &id, Project: project},
		"there is no reservation %s that project %s may draw on: "+
			"it must exist, must not have ended or been confirmed, and must name the project", id, project)
}
