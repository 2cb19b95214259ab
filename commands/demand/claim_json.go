package demand

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// The JSON form of claims is written by hand, byte for byte as encoding/json would: that
// took as much time as finding what is claimed. What few claims have is left to it.

// AppendJSON appends the claim to a text.
func (c *Claim) AppendJSON(b []byte) (_ []byte, err error) {
	if b, err = appendList(append(b, `{"for":`...), c.For, (*ClaimConsumer).appendJSON); err != nil {
		return nil, err
	}
	if len(c.Requests) > 0 {
		if b, err = appendList(append(b, `,"requests":`...), c.Requests, appendCandidateRequest); err != nil {
			return nil, err
		}
	}
	if len(c.Alternatives) > 0 {
		if b, err = appendAny(append(b, `,"alternatives":`...), c.Alternatives); err != nil {
			return nil, err
		}
	}
	if c.Prefer != nil {
		if b, err = appendClaimPreference(c.Prefer, append(b, `,"prefer":`...)); err != nil {
			return nil, err
		}
	}
	if c.Alternates != 0 {
		b = strconv.AppendInt(append(b, `,"alternates":`...), int64(c.Alternates), 10)
	}
	if c.OwnFree {
		b = append(b, `,"own_free":true`...)
	}
	if len(c.Gang) > 0 {
		if b, err = appendAny(append(b, `,"gang":`...), c.Gang); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func (one *ClaimConsumer) appendJSON(b []byte) (_ []byte, err error) {
	b = one.Consumer.AppendQuoted(append(b, `{"consumer":`...))
	if b, err = AppendString(append(b, `,"project":`...), one.Project); err != nil {
		return nil, err
	}
	if b, err = AppendString(append(b, `,"user":`...), one.User); err != nil {
		return nil, err
	}
	if one.Type != nil {
		if b, err = AppendString(append(b, `,"type":`...), *one.Type); err != nil {
			return nil, err
		}
	}
	b = append(b, `,"generation":`...)
	if one.Generation == nil {
		b = append(b, `null`...)
	} else {
		b = strconv.AppendUint(b, *one.Generation, 10)
	}
	if one.AnyGeneration {
		b = append(b, `,"any_generation":true`...)
	}
	if one.Request != 0 {
		b = strconv.AppendInt(append(b, `,"request":`...), int64(one.Request), 10)
	}
	if one.Count != 0 {
		b = strconv.AppendInt(append(b, `,"count":`...), int64(one.Count), 10)
	}
	if one.FromReservation != nil {
		b = one.FromReservation.AppendQuoted(append(b, `,"from_reservation":`...))
	}
	return append(b, '}'), nil
}

func appendCandidateRequest(q *CandidateRequest, b []byte) (_ []byte, err error) {
	if b, err = appendList(append(b, `{"groups":`...), q.Groups, appendRequestGroup); err != nil {
		return nil, err
	}
	if q.Isolate {
		b = append(b, `,"isolate":true`...)
	}
	if len(q.RootForbidden) > 0 {
		if b, err = appendAny(append(b, `,"root_forbidden":`...), q.RootForbidden); err != nil {
			return nil, err
		}
	}
	if len(q.RootRequired) > 0 {
		if b, err = appendAny(append(b, `,"root_required":`...), q.RootRequired); err != nil {
			return nil, err
		}
	}
	if len(q.SameSubtree) > 0 {
		if b, err = appendAny(append(b, `,"same_subtree":`...), q.SameSubtree); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendRequestGroup(g *RequestGroup, b []byte) (_ []byte, err error) {
	b = append(b, '{')
	if len(g.Forbidden) > 0 {
		if b, err = appendAny(appendName(b, "forbidden"), g.Forbidden); err != nil {
			return nil, err
		}
	}
	if g.InTree != nil {
		b = g.InTree.AppendQuoted(appendName(b, "in_tree"))
	}
	if len(g.MemberOf) > 0 {
		if b, err = appendAny(appendName(b, "member_of"), g.MemberOf); err != nil {
			return nil, err
		}
	}
	if len(g.NotMemberOf) > 0 {
		if b, err = appendAny(appendName(b, "not_member_of"), g.NotMemberOf); err != nil {
			return nil, err
		}
	}
	if len(g.Required) > 0 {
		if b, err = appendList(appendName(b, "required"), g.Required, appendStrings); err != nil {
			return nil, err
		}
	}
	if len(g.Resources) > 0 {
		if b, err = appendAmounts(appendName(b, "resources"), g.Resources); err != nil {
			return nil, err
		}
	}
	if g.Suffix != "" {
		if b, err = AppendString(appendName(b, "suffix"), g.Suffix); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendClaimPreference(p *ClaimPreference, b []byte) (_ []byte, err error) {
	if len(p.Aggregates)+len(p.Near)+len(p.Traits)+len(p.Weights) > 0 {
		return appendAny(b, p)
	}
	b = append(b, '{')
	if p.Name != "" {
		if b, err = AppendString(appendName(b, "name"), p.Name); err != nil {
			return nil, err
		}
	}
	if p.Order != "" {
		if b, err = AppendString(appendName(b, "order"), p.Order); err != nil {
			return nil, err
		}
	}
	if p.Seed != nil {
		b = strconv.AppendUint(appendName(b, "seed"), *p.Seed, 10)
	}
	return append(b, '}'), nil
}

// appendJSON writes what the record keeps of a request.
func (k *kept) appendJSON(b []byte) (_ []byte, err error) {
	b = append(b, '{')
	if len(k.Gang) > 0 {
		if b, err = appendAny(appendName(b, "gang"), k.Gang); err != nil {
			return nil, err
		}
	}
	if k.OwnFree {
		b = append(appendName(b, "own_free"), `true`...)
	}
	if k.Prefer != nil {
		if b, err = appendClaimPreference(k.Prefer, appendName(b, "prefer")); err != nil {
			return nil, err
		}
	}
	if b, err = appendCandidateRequest(k.Request, appendName(b, "request")); err != nil {
		return nil, err
	}
	return append(b, '}'), nil
}

func appendList[T any](b []byte, list []T, each func(*T, []byte) ([]byte, error)) (_ []byte, err error) {
	if list == nil {
		return append(b, `null`...), nil
	}
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = each(&list[i], b); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendStrings(list *[]string, b []byte) ([]byte, error) {
	return appendList(b, *list, func(text *string, b []byte) ([]byte, error) { return AppendString(b, *text) })
}

// appendAmounts writes amounts by class, in the order of the names.
func appendAmounts(b []byte, amounts map[string]int64) (_ []byte, err error) {
	var few [8]string
	names := slices.AppendSeq(few[:0], maps.Keys(amounts))
	slices.Sort(names)
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = AppendString(b, name); err != nil {
			return nil, err
		}
		b = strconv.AppendInt(append(b, ':'), amounts[name], 10)
	}
	return append(b, '}'), nil
}

// appendName begins a member of an object whose members may all be absent.
func appendName(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(append(append(b, '"'), name...), `":`...)
}

func appendAny(b []byte, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	return append(b, text...), err
}

// AppendString appends text as JSON. What is not plain ASCII is left to encoding/json.
func AppendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s)
			return append(b, text...), err
		}
	}
	b = append(append(b, '"'), s...)
	return append(b, '"'), nil
}
