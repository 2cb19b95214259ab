package demand

import (
	"maps"
	"slices"
)

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
