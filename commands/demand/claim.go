package demand

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/allot-project/allot/ledger"
)

// Bounds of a claim.
const (
	// MaxClaimConsumers is how many consumers one claim serves.
	MaxClaimConsumers = 4096
	// MaxAlternates is how many alternates are told.
	MaxAlternates = 32
)

// Claim is what a claim asks for, and for which consumers.
type Claim struct {
	For      []ClaimConsumer    `json:"for"`                // at least one
	Requests []CandidateRequest `json:"requests,omitempty"` // at least one, or alternatives
	// Alternatives are whole lists of requests, in the order in which they are preferred: the first is
	// served that can be. The record says why those before it were not.
	Alternatives [][]CandidateRequest `json:"alternatives,omitempty"`
	// Beyond are the numbers of alternatives that are passed over: limits of projects are against them.
	Beyond []int            `json:"-"`
	Prefer *ClaimPreference `json:"prefer,omitempty"`
	// Alternates is how many of the next best are told, for one consumer alone.
	Alternates int `json:"alternates,omitempty"`
	// OwnFree counts what the consumers hold as free for the claim: a resize in
	// place needs it. Without it the new has room beside the old.
	OwnFree bool `json:"own_free,omitempty"`
	// Gang says where several consumers are to each other.
	Gang []GangRule `json:"gang,omitempty"`
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

// Members are the claim's consumers, each for itself; if they are more than a claim may have, one more
// than that.
func (c *Claim) Members() []ClaimConsumer {
	if c.Size() <= len(c.For) {
		return c.For
	}
	members := make([]ClaimConsumer, 0, c.Size())
	for _, one := range c.For {
		first, count := one.Consumer, one.Count
		one.Count = 0
		members = append(members, one)
		for i := 1; i < count && len(members) <= MaxClaimConsumers; i++ {
			one.Consumer = first.Derive(strconv.Itoa(i))
			members = append(members, one)
		}
	}
	return members
}

// Size is how many consumers the claim has; if they are more than it may have, one more than that.
func (c *Claim) Size() (n int) {
	for i := range c.For {
		if n += max(1, c.For[i].Count); n > MaxClaimConsumers {
			return MaxClaimConsumers + 1
		}
	}
	return n
}

// checkCounts finds counts of what cannot be several.
func (c *Claim) checkCounts() *Rejection {
	for i := range c.For {
		one := &c.For[i]
		if one.Count < 0 || one.Count > MaxClaimConsumers {
			return Invalid("count", "%d consumers with one request: up to %d are possible", one.Count, MaxClaimConsumers)
		}
		if one.Count > 1 && (one.Generation != nil || one.AnyGeneration) {
			return Invalid("count", "%d consumers with one request are new: they have no generation", one.Count)
		}
	}
	return nil
}

// Check finds what no State satisfies, but for the consumers' owners.
func (c *Claim) Check() *Rejection {
	if len(c.Alternatives) > 0 {
		return c.checkAlternatives()
	}
	if r := c.checkCounts(); r != nil {
		return r
	}
	n := c.Size()
	if n == 0 || n > MaxClaimConsumers {
		return Invalid("for", "a claim is for 1 to %d consumers", MaxClaimConsumers)
	}
	if n := len(c.Requests); n == 0 || n > len(c.For) {
		return Invalid("requests", "%d requests of %d consumers", n, len(c.For))
	}
	asked := make([]bool, len(c.Requests))
	for i := range c.For {
		if at := c.For[i].Request; at < 0 || at >= len(c.Requests) {
			return Invalid("request", "there is no request %d", at)
		}
		asked[c.For[i].Request] = true
	}
	if i := slices.Index(asked, false); i >= 0 {
		return Invalid("requests", "no consumer asks for request %d", i)
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
		return Invalid("alternates", "up to %d are told, of a claim for one consumer: not %d of %d",
			MaxAlternates, c.Alternates, n)
	}
	return cmp.Or(CheckGang(c.Gang, n), c.checkLevels(), c.checkDraws())
}

// kept is what the record keeps of a request, in the order of the names.
type kept struct {
	Gang    []GangRule        `json:"gang,omitempty"`
	OwnFree bool              `json:"own_free,omitempty"`
	Prefer  *ClaimPreference  `json:"prefer,omitempty"`
	Request *CandidateRequest `json:"request"`
}

// usualAsked is the size that what records keep of a request mostly does not exceed.
const usualAsked = 256

// checkLevels finds what cannot stand in a topology.
func (c *Claim) checkLevels() *Rejection {
	levels, _ := PartGang(c.Gang)
	switch {
	case len(levels) > 0 && len(c.Requests) > 1:
		return Invalid("gang", "consumers that stand in a topology all ask for the same: not for %d requests", len(c.Requests))
	case len(levels) > 0 && c.Draws():
		return Invalid("gang", "consumers that draw on a reservation do not stand in a topology: it holds what it holds")
	}
	return nil
}

// Asked encodes what the record keeps, with what a name stood for.
func (c *Claim) Asked(prefer *ClaimPreference) ([]ledger.Document, *Rejection) {
	list := make([]ledger.Document, len(c.Requests))
	for i := range c.Requests {
		one := kept{Gang: c.Gang, OwnFree: c.OwnFree, Prefer: prefer, Request: &c.Requests[i]}
		text, err := one.appendJSON(make([]byte, 0, usualAsked))
		if err != nil {
			return nil, Invalid("requests", "%v", err)
		}
		if len(text) > ledger.MaxDocumentBytes {
			return nil, Refuse(CodeTooLarge, Facts{SizeBytes: len(text), LimitBytes: ledger.MaxDocumentBytes},
				"request %d takes %d bytes, and records keep at most %d", i, len(text), ledger.MaxDocumentBytes)
		}
		list[i] = ledger.Document(text)
	}
	return list, nil
}

// MaxAlternatives is how many alternatives a claim has.
const MaxAlternatives = 16

// Lists are the alternatives of a claim, each a list of requests; of one without alternatives its
// requests alone.
func (c *Claim) Lists() [][]CandidateRequest {
	if len(c.Alternatives) == 0 {
		return [][]CandidateRequest{c.Requests}
	}
	return c.Alternatives
}

// Only is the claim for one of its alternatives alone.
func (c *Claim) Only(alternative int) *Claim {
	one := *c
	one.Requests, one.Alternatives = c.Alternatives[alternative], nil
	return &one
}

func (c *Claim) checkAlternatives() *Rejection {
	if len(c.Requests) > 0 {
		return Invalid("alternatives", "a claim has requests or alternatives, not both")
	}
	if n := len(c.Alternatives); n > MaxAlternatives {
		return Invalid("alternatives", "a claim has at most %d, not %d", MaxAlternatives, n)
	}
	for i := range c.Alternatives {
		if r := c.Only(i).Check(); r != nil {
			r.Message = fmt.Sprintf("%s, in alternative %d", r.Message, i)
			return r
		}
	}
	return nil
}

// Draws reports whether some consumer draws on a reservation.
func (c *Claim) Draws() bool {
	return slices.ContainsFunc(c.For, func(one ClaimConsumer) bool { return one.FromReservation != nil })
}

// checkDraws finds reservations that are none in any State.
func (c *Claim) checkDraws() *Rejection {
	if !c.Draws() {
		return nil
	}
	members := make(map[ledger.UUID]bool)
	for _, one := range c.Members() {
		members[one.Consumer] = true
	}
	for i := range c.For {
		from := c.For[i].FromReservation
		if from == nil {
			continue
		}
		if from.IsNil() {
			return Invalid("from_reservation", "%s is no reservation: leave it out, or name one", from)
		}
		if members[*from] {
			return Invalid("from_reservation",
				"%s is a consumer of the claim, too: confirm the reservation instead", from)
		}
	}
	return nil
}

// The JSON form of claims is written by hand, byte for byte as encoding/json would: that
// took as much time as finding what is claimed. What few claims have is left to it.

// AppendJSON appends the claim to a text.
func (c *Claim) AppendJSON(b []byte) ([]byte, error) {
	j := JSONAfter(b)
	j.Object(func() {
		j.Name("for").Each(len(c.For), c.For == nil, func(i int) { c.For[i].writeJSON(&j) })
		if len(c.Requests) > 0 {
			j.Name("requests").Each(len(c.Requests), false, func(i int) { c.Requests[i].writeJSON(&j) })
		}
		j.some("alternatives", len(c.Alternatives), c.Alternatives)
		if c.Prefer != nil {
			c.Prefer.writeJSON(j.Name("prefer"))
		}
		if c.Alternates != 0 {
			j.Name("alternates").Int(int64(c.Alternates))
		}
		j.Flag("own_free", c.OwnFree)
		j.some("gang", len(c.Gang), c.Gang)
	})
	return j.End()
}

func (one *ClaimConsumer) writeJSON(j *JSON) {
	j.Object(func() {
		j.Name("consumer").ID(one.Consumer)
		j.Name("project").Text(one.Project)
		j.Name("user").Text(one.User)
		if one.Type != nil {
			j.Name("type").Text(*one.Type)
		}
		j.Name("generation").UintOrNull(one.Generation)
		j.Flag("any_generation", one.AnyGeneration)
		if one.Request != 0 {
			j.Name("request").Int(int64(one.Request))
		}
		if one.Count != 0 {
			j.Name("count").Int(int64(one.Count))
		}
		if one.FromReservation != nil {
			j.Name("from_reservation").ID(*one.FromReservation)
		}
	})
}

func (q *CandidateRequest) writeJSON(j *JSON) {
	j.Object(func() {
		j.Name("groups").Each(len(q.Groups), q.Groups == nil, func(i int) { q.Groups[i].writeJSON(j) })
		j.Flag("isolate", q.Isolate)
		j.some("root_forbidden", len(q.RootForbidden), q.RootForbidden)
		j.some("root_required", len(q.RootRequired), q.RootRequired)
		j.some("same_subtree", len(q.SameSubtree), q.SameSubtree)
	})
}

func (g *RequestGroup) writeJSON(j *JSON) {
	j.Object(func() {
		j.some("forbidden", len(g.Forbidden), g.Forbidden)
		if g.InTree != nil {
			j.Name("in_tree").ID(*g.InTree)
		}
		j.some("member_of", len(g.MemberOf), g.MemberOf)
		j.some("not_member_of", len(g.NotMemberOf), g.NotMemberOf)
		if len(g.Required) > 0 {
			j.Name("required").Each(len(g.Required), false, func(i int) {
				anyOf := g.Required[i]
				j.Each(len(anyOf), anyOf == nil, func(i int) { j.Text(anyOf[i]) })
			})
		}
		if len(g.Resources) > 0 {
			j.Name("resources").amounts(g.Resources)
		}
		if g.Suffix != "" {
			j.Name("suffix").Text(g.Suffix)
		}
	})
}

// amounts writes amounts by class, in the order of the names.
func (j *JSON) amounts(amounts map[string]int64) {
	var few [8]string
	names := slices.AppendSeq(few[:0], maps.Keys(amounts))
	slices.Sort(names)
	j.Object(func() {
		for i, name := range names {
			if i > 0 {
				j.text = append(j.text, ',')
			}
			j.Text(name)
			j.text = append(j.text, ':')
			j.Int(amounts[name])
		}
	})
}

func (p *ClaimPreference) writeJSON(j *JSON) {
	if len(p.Aggregates)+len(p.Near)+len(p.Traits)+len(p.Weights) > 0 {
		j.any(p)
		return
	}
	j.Object(func() {
		if p.Name != "" {
			j.Name("name").Text(p.Name)
		}
		if p.Order != "" {
			j.Name("order").Text(p.Order)
		}
		if p.Seed != nil {
			j.Name("seed").UintOrNull(p.Seed)
		}
	})
}

// appendJSON writes what the record keeps of a request.
func (k *kept) appendJSON(b []byte) ([]byte, error) {
	j := JSONAfter(b)
	j.Object(func() {
		j.some("gang", len(k.Gang), k.Gang)
		j.Flag("own_free", k.OwnFree)
		if k.Prefer != nil {
			k.Prefer.writeJSON(j.Name("prefer"))
		}
		k.Request.writeJSON(j.Name("request"))
	})
	return j.End()
}
