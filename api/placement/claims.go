package placement

import (
	"encoding/json"
	"net/http"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Codes of claims in error bodies. Clients of Placement's take any 409 but
// placement.concurrent_update for a refusal.
const (
	codeNoCandidates  = "allot.no_candidates"
	codeClaimBudget   = "allot.claim_budget"
	codeNoReservation = "allot.no_reservation"
)

func preferSchema() m {
	number := m{"type": "number", "minimum": -1e6, "maximum": 1e6}
	return closed(m{
		"name": m{"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"},
		"near": m{"type": "array", "items": closed(m{
			"by":        m{"type": "string", "enum": []any{"provider", "tree", "aggregate"}},
			"consumers": m{"type": "array", "minItems": 1, "maxItems": 256, "items": uuidSchema},
			"rule":      m{"type": "string", "enum": []any{"require", "forbid"}},
			"weight":    number,
		}, "by", "consumers")},
		"order":   m{"type": "string", "enum": []any{demand.OrderPack, demand.OrderSpread, demand.OrderRandom}},
		"seed":    m{"type": "integer", "minimum": 0, "maximum": uint64(1<<64 - 1)},
		"weights": keyed(classPattern, number, 0), "traits": keyed(classPattern, number, 0),
		"aggregates": m{
			"type": "array", "items": closed(m{"aggregate": uuidSchema, "weight": number}, "aggregate", "weight"),
		},
	})
}

func claimSchema() m {
	consumer := closed(m{
		"consumer_uuid": uuidSchema, "project_id": text(1, 255), "user_id": text(1, 255),
		"consumer_type":       m{"type": "string", "pattern": classPattern, "minLength": 1, "maxLength": 255},
		"consumer_generation": m{"type": []any{"integer", "null"}},
		"request":             m{"type": "integer", "minimum": 0},
		"count":               m{"type": "integer", "minimum": 1, "maximum": demand.MaxClaimConsumers},
		"from_reservation":    uuidSchema,
	}, "consumer_uuid", "project_id", "user_id", "consumer_type", "consumer_generation")
	return closed(m{
		"consumers": m{"type": "array", "minItems": 1, "maxItems": demand.MaxClaimConsumers, "items": consumer},
		"requests":  m{"type": "array", "minItems": 1, "items": text(1, 65536)},
		"alternatives": m{"type": "array", "minItems": 1, "maxItems": demand.MaxAlternatives, "items": m{
			"type": "array", "minItems": 1, "items": text(1, 65536),
		}},
		"prefer":     preferSchema(),
		"alternates": m{"type": "integer", "minimum": 0, "maximum": demand.MaxAlternates},
		"own_free":   m{"type": "boolean"},
		"gang": m{"type": "array", "items": closed(m{
			"among":  m{"type": "array", "items": uuidSchema},
			"by":     m{"type": "string", "enum": []any{"provider", "tree", "aggregate"}},
			"rule":   m{"type": "string", "enum": []any{"together", "apart", "spread"}},
			"slices": m{"type": "integer", "minimum": 1, "maximum": demand.MaxClaimConsumers},
			"spread": m{
				"type": []any{"integer", "string"}, "minimum": 2, "maximum": demand.MaxClaimConsumers, "maxLength": 64,
			},
			"topology": text(1, 64),
			"within":   text(1, 64),
		})},
	}, "consumers")
}

func claimedSchema(id, generation m) m {
	many := func(value m) m { return m{"type": "object", "additionalProperties": value} }
	choice := m{
		"allocations": many(closed(m{"resources": many(m{"type": "integer"})}, "resources")),
		"mappings":    many(m{"type": "array", "items": id}),
		"score":       m{"type": "number"},
	}
	whole := with(with(with(choice, "consumer_uuid", id), "consumer_generation", generation), "seed", m{"type": "integer"})
	return closed(
		with(whole, "alternates", m{"type": "array", "items": closed(choice, "allocations", "mappings", "score")}),
		"consumer_uuid", "consumer_generation", "allocations", "mappings", "score", "seed",
	)
}

// claim chooses and allocates. Requests are written as the query string of
// GET /allocation_candidates, in its newest microversion whatever the request's is.
func claim(r *request, doc any) (_ *response, err error) {
	body := objectOf(doc)
	c := &commands.Claim{Claim: demand.Claim{Alternates: int(integerOf(body.get("alternates")))}}
	c.OwnFree, _ = body.get("own_free").(bool)
	if body.has("prefer") {
		if c.Prefer, err = preferenceOf(body.get("prefer")); err != nil {
			return nil, err
		}
	}
	if c.Gang, err = gangOf(body.get("gang")); err != nil {
		return nil, err
	}
	if c.Requests, err = requestsOf(r, body.get("requests")); err != nil {
		return nil, err
	}
	for _, list := range listOf(body.get("alternatives")) {
		one, err := requestsOf(r, list)
		if err != nil {
			return nil, err
		}
		c.Alternatives = append(c.Alternatives, one)
	}
	for _, item := range listOf(body.get("consumers")) {
		one, failure := claimConsumerOf(objectOf(item))
		if failure != nil {
			return nil, failure
		}
		c.For = append(c.For, one)
	}
	outcome, err := r.Submit(c, claimRejected)
	return &response{status: http.StatusOK, body: claimedBody(outcome, len(c.Alternatives) > 0)}, err
}

func requestsOf(r *request, list any) (requests []demand.CandidateRequest, err error) {
	for _, text := range stringsOf(list) {
		one, err := candidateRequestOf(r, text)
		if err != nil {
			return nil, err
		}
		requests = append(requests, *one)
	}
	return requests, nil
}

func claimConsumerOf(body *object) (demand.ClaimConsumer, *rest.Failure) {
	one := demand.ClaimConsumer{
		Consumer: uuidOf(body.get("consumer_uuid")), Project: textOf(body.get("project_id")),
		User: textOf(body.get("user_id")), Type: new(textOf(body.get("consumer_type"))),
		Request: int(integerOf(body.get("request"))), Count: int(integerOf(body.get("count"))),
	}
	if body.has("from_reservation") {
		one.FromReservation = new(uuidOf(body.get("from_reservation")))
	}
	if body.get("consumer_generation") != nil {
		generation := integerOf(body.get("consumer_generation"))
		if generation <= 0 {
			return one, consumerConflict(one.Consumer, "another one", generation)
		}
		one.Generation = new(uint64(generation))
	}
	return one, nil
}

func preferenceOf(value any) (*demand.ClaimPreference, error) {
	text, err := ledger.PlainJSON(plain(value))
	if err != nil {
		return nil, err
	}
	p := &demand.ClaimPreference{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, rest.BadRequest("prefer: %v", err)
	}
	return p, nil
}

func gangOf(value any) (rules []demand.GangRule, err error) {
	for _, item := range listOf(value) {
		one := objectOf(item)
		rule := demand.GangRule{
			By: textOf(one.get("by")), Rule: textOf(one.get("rule")), Slices: int(integerOf(one.get("slices"))),
			Topology: textOf(one.get("topology")), Within: textOf(one.get("within")),
		}
		if level, is := one.get("spread").(string); is {
			rule.Spread.Level = level
		} else {
			rule.Spread.Places = int(integerOf(one.get("spread")))
		}
		for _, id := range listOf(one.get("among")) {
			rule.Among = append(rule.Among, uuidOf(id))
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// candidateRequestOf reads a request as GET /allocation_candidates does.
func candidateRequestOf(r *request, text string) (*demand.CandidateRequest, error) {
	asked := *r
	asked.version, asked.op, asked.Query = maxVersion, &operation{query: "candidates"}, rest.ParseText(text)
	if err := asked.Query.Fault(); err != nil {
		return nil, rest.BadRequest("requests: %v", err)
	}
	if asked.Query.Has("limit") {
		return nil, rest.BadRequest("requests: 'limit' bounds a list of candidates, and a claim has one: see alternates")
	}
	if failure := checkQuery(&asked); failure != nil {
		return nil, failure
	}
	q := newCandidateQuery()
	if err := q.parse(&asked, asked.Query); err != nil {
		return nil, err
	}
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	request := demand.Of(&q.request, classes)
	return &request, nil
}

func claimedBody(outcome commands.Outcome, alternatives bool) m {
	list, body := []any{}, m{}
	for _, one := range wire.ClaimedIn(outcome.Events) {
		entry := choiceBody(one.Allocations, one.Mappings, one.Score)
		entry["consumer_uuid"], entry["consumer_generation"] = one.Consumer, outcome.Address.Sequence
		entry["seed"] = one.Seed
		if one.Alternates != nil {
			others := make([]m, len(one.Alternates))
			for i, a := range one.Alternates {
				others[i] = choiceBody(a.Allocations, a.Mappings, a.Score)
			}
			entry["alternates"] = others
		}
		list = append(list, entry)
		if alternatives {
			body["alternative"], body["earlier"] = one.Alternative, append([]string{}, one.Earlier...)
		}
	}
	body["claimed"] = list
	return body
}

func choiceBody(allocations []ledger.AllocationRecord, mappings []ledger.GroupMapping, score float64) m {
	byProvider, bySuffix := m{}, m{}
	for _, a := range allocations {
		id := a.Provider.String()
		if byProvider[id] == nil {
			byProvider[id] = m{"resources": m{}}
		}
		byProvider[id].(m)["resources"].(m)[a.Class] = a.Amount
	}
	for _, g := range mappings {
		bySuffix[g.Suffix] = g.Providers
	}
	return m{"allocations": byProvider, "mappings": bySuffix, "score": score}
}

func claimRejected(r *demand.Rejection) error {
	switch r.Code {
	case demand.CodeNoCandidates:
		return conflict(codeNoCandidates, "%s", r.Message)
	case demand.CodeClaimBudget:
		return conflict(codeClaimBudget, "%s", r.Message)
	case demand.CodeNoReservation:
		return conflict(codeNoReservation, "%s", r.Message)
	}
	return allocationRejected(r, "")
}
