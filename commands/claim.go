package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// Bounds of a claim.
const (
	// MaxClaimConsumers is how many consumers one claim serves.
	MaxClaimConsumers = 256
	// MaxAlternates is how many alternates are told.
	MaxAlternates = 32
	// maxClaimHere is up to how many providers a claim is searched while it is decided, if
	// it was not searched before.
	maxClaimHere = 4096
)

// Claim chooses and allocates in one: the ledger finds what each consumer asks
// for, the best by the preference, and gives it to them. All of them get it, or
// none. What a consumer held before is replaced.
//
// The search is made before the command is decided, on the newest index of
// providers (see Search). The decision takes the best that still fits; if none
// does, it is searched again.
type Claim struct {
	For      []ClaimConsumer           `json:"for"`                // at least one
	Requests []demand.CandidateRequest `json:"requests,omitempty"` // at least one, or alternatives
	// Alternatives are whole lists of requests, in the order in which they are preferred: the first is
	// served that can be. The record says why those before it were not.
	Alternatives [][]demand.CandidateRequest `json:"alternatives,omitempty"`
	Prefer       *demand.ClaimPreference     `json:"prefer,omitempty"`
	// Alternates is how many of the next best are told, for one consumer alone.
	Alternates int `json:"alternates,omitempty"`
	// OwnFree counts what the consumers hold as free for the claim: a resize in
	// place needs it. Without it the new has room beside the old.
	OwnFree bool `json:"own_free,omitempty"`
	// Gang says where several consumers are to each other.
	Gang []demand.GangRule `json:"gang,omitempty"`

	found *Found // nil: it was not searched
}

// ClaimConsumer is a consumer that a claim is for.
type ClaimConsumer struct {
	Consumer ledger.UUID `json:"consumer"`
	Project  string      `json:"project"`        // 1..255 characters
	User     string      `json:"user"`           // 1..255 characters
	Type     *string     `json:"type,omitempty"` // absent: as it is
	// Generation is the consumer's; null or absent says "I am the first".
	Generation *uint64 `json:"generation" jsonschema:"nullable"`
	// AnyGeneration does not check the generation.
	AnyGeneration bool `json:"any_generation,omitempty"`
	// Request is the place of what it asks for in the claim's requests, from 0.
	Request int `json:"request,omitempty"`
	// Count asks for so many consumers with the same request, all of them new: the
	// first has the id Consumer, and the one after i others that of version 5 of
	// the text i in its namespace. Absent: 1.
	Count int `json:"count,omitempty"`
	// FromReservation draws all that it gets from what this consumer has reserved.
	FromReservation *ledger.UUID `json:"from_reservation,omitempty"`
}

// CommandName implements Command.
func (*Claim) CommandName() string { return "Claim" }

// Consumers implements Command.
func (c *Claim) Consumers() []ledger.UUID {
	members := c.members()
	ids := make([]ledger.UUID, len(members))
	for i := range members {
		ids[i] = members[i].Consumer
	}
	for i := range c.For {
		if from := c.For[i].FromReservation; from != nil {
			ids = append(ids, *from)
		}
	}
	return ids
}

// members are the claim's consumers, each for itself.
func (c *Claim) members() []ClaimConsumer {
	if c.size() <= len(c.For) {
		return c.For
	}
	members := make([]ClaimConsumer, 0, c.size())
	for _, one := range c.For {
		first, count := one.Consumer, one.Count
		one.Count = 0
		members = append(members, one)
		for i := 1; i < count; i++ {
			one.Consumer = first.Derive(strconv.Itoa(i))
			members = append(members, one)
		}
	}
	return members
}

// size is how many consumers the claim has; if that is more than it may have, not less
// than that.
func (c *Claim) size() (n int) {
	for i := range c.For {
		if n += max(1, c.For[i].Count); n > MaxClaimConsumers {
			break
		}
	}
	return n
}

// checkCounts finds counts of what cannot be several.
func (c *Claim) checkCounts() *demand.Rejection {
	for i := range c.For {
		one := &c.For[i]
		if one.Count < 0 || one.Count > MaxClaimConsumers {
			return demand.Invalid("count", "%d consumers with one request: up to %d are possible", one.Count, MaxClaimConsumers)
		}
		if one.Count > 1 && (one.Generation != nil || one.AnyGeneration) {
			return demand.Invalid("count", "%d consumers with one request are new: they have no generation", one.Count)
		}
	}
	return nil
}

func (*Claim) onlyHoldings() {}

// Check implements Command.
func (c *Claim) Check() *demand.Rejection {
	if len(c.Alternatives) > 0 {
		return c.checkAlternatives()
	}
	if r := c.checkCounts(); r != nil {
		return r
	}
	n := c.size()
	if n == 0 || n > MaxClaimConsumers {
		return demand.Invalid("for", "a claim is for 1 to %d consumers", MaxClaimConsumers)
	}
	if n := len(c.Requests); n == 0 || n > len(c.For) {
		return demand.Invalid("requests", "%d requests of %d consumers", n, len(c.For))
	}
	asked := make([]bool, len(c.Requests))
	for i := range c.For {
		if at := c.For[i].Request; at < 0 || at >= len(c.Requests) {
			return demand.Invalid("request", "there is no request %d", at)
		}
		asked[c.For[i].Request] = true
	}
	if i := slices.Index(asked, false); i >= 0 {
		return demand.Invalid("requests", "no consumer asks for request %d", i)
	}
	for i := range c.Requests {
		if r := c.Requests[i].Check(); r != nil {
			return r
		}
	}
	if c.Prefer != nil {
		if r := c.Prefer.Check(); r != nil {
			return r
		}
	}
	if c.Alternates < 0 || c.Alternates > MaxAlternates || c.Alternates > 0 && n > 1 {
		return demand.Invalid("alternates", "up to %d are told, of a claim for one consumer: not %d of %d",
			MaxAlternates, c.Alternates, n)
	}
	return cmp.Or(demand.CheckGang(c.Gang, n), checkAllocations(c.allocations()), c.checkDraws())
}

// allocations are those of the claim's consumers, without what they are to hold.
func (c *Claim) allocations() []ConsumerAllocations {
	members := c.members()
	list := make([]ConsumerAllocations, len(members))
	for i := range members {
		one := &members[i]
		list[i] = ConsumerAllocations{
			Consumer: one.Consumer, Project: one.Project, User: one.User, Type: one.Type,
			Generation: one.Generation, AnyGeneration: one.AnyGeneration,
		}
	}
	return list
}

// ForProject implements Command.
func (c *Claim) ForProject(s *ledger.State, project string) *demand.Rejection {
	if c.Prefer != nil {
		for i := range c.Prefer.Near {
			for _, id := range c.Prefer.Near[i].Consumers {
				if r := checkHolder(s, id, project); r != nil {
					return r
				}
			}
		}
	}
	return checkOwners(s, c.allocations(), project)
}

// Decide implements Command. It takes the best of what was found that still
// fits: whose providers are as the search saw them, but for what is used.
func (c *Claim) Decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if len(c.Alternatives) > 0 {
		return c.decideAlternatives(s)
	}
	for i := range c.Requests {
		if r := c.Requests[i].CheckTraits(s); r != nil {
			return nil, r
		}
	}
	prefer, r := c.preferenceIn(s)
	if r == nil {
		r = prefer.CheckTraits(s)
	}
	if r != nil {
		return nil, r
	}
	if r := cmp.Or(newAllocator(s, c.allocations()).checkGenerations(), c.mayDraw(s)); r != nil {
		return nil, r
	}
	found := c.found
	if found == nil {
		var r *demand.Rejection
		if found, r = c.searchHere(s); r != nil {
			return nil, r
		}
	}
	if len(found.Choices) == 0 {
		if r := c.checkNames(s, prefer); r != nil {
			return nil, r
		}
	} else if !found.by(prefer) {
		return nil, found.nothing()
	}
	for i := range found.Choices {
		if !found.Choices[i].unchanged(s) || !obeyed(s, prefer, &found.Choices[i]) {
			continue
		}
		events, rejection := c.take(s, found, i)
		if rejection == nil {
			rejection = roomFor(s, events)
		}
		if rejection == nil || !passedOver[rejection.Code] && !ofAggregate(rejection) {
			return events, rejection
		}
	}
	return nil, found.nothing()
}

// preferenceIn is what the claim prefers as a State has it.
func (c *Claim) preferenceIn(s *ledger.State) (*demand.ClaimPreference, *demand.Rejection) {
	prefer, r, err := c.Prefer.Expand(namedIn(s))
	if err != nil {
		return nil, demand.Invalid("prefer", "%v", err)
	}
	return prefer, r
}

// checkNames says why a claim cannot be searched for.
func (c *Claim) checkNames(s *ledger.State, prefer *demand.ClaimPreference) *demand.Rejection {
	for i := range c.Requests {
		req, r := c.Requests[i].Resolve(s.Classes())
		if r == nil {
			_, r = prefer.Resolve(s.Classes(), req, 0)
		}
		if r != nil {
			return r
		}
	}
	_, r := c.asked(prefer)
	return r
}

// passedOver are the rejections after which the next candidate is tried.
var passedOver = map[demand.Code]bool{
	demand.CodeCapacityExceeded: true, demand.CodeProviderUnknown: true,
	demand.CodeNoInventory: true, demand.CodeUnitConstraint: true,
}

// take decides that the claim gets a choice.
func (c *Claim) take(s *ledger.State, found *Found, choice int) ([]ledger.Event, *demand.Rejection) {
	want := c.allocations()
	for i := range want {
		want[i].Resources = resourcesOf(s.Classes(), found.Choices[choice].Members[i].Uses)
	}
	members := c.members()
	a := newAllocator(s, want)
	a.beside = !c.OwnFree
	if r := a.checkProvidersExist(); r != nil {
		return nil, r
	}
	rest, rejection := a.draw(members)
	if rejection != nil {
		return nil, rejection
	}
	events, rejection := a.decide()
	if rejection != nil {
		return nil, rejection
	}
	for i := range want {
		events[i] = c.claimed(s, found, choice, i, &members[i], events[i])
	}
	return append(rest, events...), nil
}

// claimed adds to what a consumer holds why that is.
func (c *Claim) claimed(
	s *ledger.State, found *Found, choice, member int, one *ClaimConsumer, event ledger.Event,
) ledger.Event {
	chosen := &found.Choices[choice].Members[member]
	claimed := ledger.AllocationsClaimed{
		Asked: found.Asked[one.Request], Mappings: mappingsOf(&c.Requests[one.Request], chosen),
		Score: chosen.Score, Seed: found.Seed, AsOf: found.AsOf, PassedOver: uint64(choice), From: one.FromReservation,
		Alternative: uint64(found.Alternative), Earlier: found.Earlier,
	}
	switch event := event.(type) {
	case ledger.AllocationsReplaced:
		claimed.AllocationsReplaced = event
	case ledger.AllocationsReserved:
		claimed.AllocationsReplaced, claimed.Until = event.AllocationsReplaced, event.Until
	}
	for i := choice + 1; i < len(found.Choices) && len(claimed.Alternates) < c.Alternates; i++ {
		other := &found.Choices[i].Members[member]
		alternate := ledger.Alternate{Mappings: mappingsOf(&c.Requests[0], other), Score: other.Score}
		for _, r := range resourcesOf(s.Classes(), other.Uses) {
			alternate.Allocations = append(alternate.Allocations, ledger.AllocationRecord(r))
		}
		claimed.Alternates = append(claimed.Alternates, alternate)
	}
	return claimed
}

func resourcesOf(classes *ledger.ClassTable, uses []candidates.Use) []ProviderAllocation {
	list := make([]ProviderAllocation, len(uses))
	for i, use := range uses {
		list[i] = ProviderAllocation{Provider: use.Provider.UUID, Class: classes.Name(use.Class), Amount: use.Amount}
	}
	return list
}

func mappingsOf(q *demand.CandidateRequest, chosen *candidates.Ranked) []ledger.GroupMapping {
	list := make([]ledger.GroupMapping, len(chosen.Groups))
	for i, members := range chosen.Groups {
		list[i] = ledger.GroupMapping{Suffix: q.Groups[i].Suffix, Providers: make([]ledger.UUID, len(members))}
		for j, p := range members {
			list[i].Providers[j] = p.UUID
		}
	}
	return list
}

// searchHere searches the State itself, which takes as long as there are
// providers. Only the parts of a dry run come here without a search.
func (c *Claim) searchHere(s *ledger.State) (*Found, *demand.Rejection) {
	if n := s.ProviderCount(); n > maxClaimHere {
		return nil, &demand.Rejection{
			Code: demand.CodeClaimBudget,
			Message: fmt.Sprintf("a claim is not tried out among more than %d providers, and there are %d",
				maxClaimHere, n),
		}
	}
	providers := make([]*ledger.Provider, 0, s.ProviderCount())
	s.Providers(func(p *ledger.Provider) bool { providers = append(providers, p); return true })
	var limits []*ledger.AggregateLimit
	s.AggregateLimits(func(l *ledger.AggregateLimit) bool { limits = append(limits, l); return true })
	search := ClaimSearch{
		Limits:  limits,
		Ranking: candidates.NewRanking(candidates.NewWorld(providers)), Classes: s.Classes(), AsOf: s.Head().Sequence,
		MaxSteps: maxStepsHere, Named: namedIn(s), Consumer: func(id ledger.UUID) (*ledger.Consumer, error) {
			consumer, _ := s.Consumer(id)
			return consumer, nil
		},
	}
	found, err := search.Run(context.Background(), c)
	var rejected *RejectedClaim
	if errors.As(err, &rejected) {
		return nil, rejected.Rejection
	}
	if err != nil {
		return nil, demand.Invalid("requests", "%v", err)
	}
	found.Last = true
	return found, nil
}

// maxStepsHere bounds a search while a command is decided.
const maxStepsHere = 200_000

// kept is what the record keeps of a request, in the order of the names.
type kept struct {
	Gang    []demand.GangRule        `json:"gang,omitempty"`
	OwnFree bool                     `json:"own_free,omitempty"`
	Prefer  *demand.ClaimPreference  `json:"prefer,omitempty"`
	Request *demand.CandidateRequest `json:"request"`
}

// usualAsked is the size that what records keep of a request mostly does not exceed.
const usualAsked = 256

// asked encodes what the record keeps, with what a name stood for.
func (c *Claim) asked(prefer *demand.ClaimPreference) ([]ledger.Document, *demand.Rejection) {
	list := make([]ledger.Document, len(c.Requests))
	for i := range c.Requests {
		one := kept{Gang: c.Gang, OwnFree: c.OwnFree, Prefer: prefer, Request: &c.Requests[i]}
		text, err := one.appendJSON(make([]byte, 0, usualAsked))
		if err != nil {
			return nil, demand.Invalid("requests", "%v", err)
		}
		if len(text) > ledger.MaxDocumentBytes {
			return nil, &demand.Rejection{
				Code:    demand.CodeTooLarge,
				Message: fmt.Sprintf("request %d takes %d bytes, and records keep at most %d", i, len(text), ledger.MaxDocumentBytes),
				Facts:   demand.Facts{SizeBytes: len(text), LimitBytes: ledger.MaxDocumentBytes},
			}
		}
		list[i] = ledger.Document(text)
	}
	return list, nil
}
