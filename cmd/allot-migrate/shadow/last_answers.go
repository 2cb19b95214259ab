package shadow

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// mostTold is how many consumers have a place in the table; when it is full, it begins
// again, and clients read generations again after a 409.
const mostTold = 200_000

// lastAnswers knows which generations of consumers clients have read, and of which side. After a
// change of the lead, a write with a generation of the former leader gets the one of the
// new leader, unless the consumer was written to in between.
type lastAnswers struct {
	mu   sync.Mutex
	byID map[Resource][2]string // by Side; "": none
}

func (t *lastAnswers) tell(of Resource, side Side, generation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil || len(t.byID) >= mostTold {
		t.byID = make(map[Resource][2]string)
	}
	both := t.byID[of]
	both[side] = generation
	t.byID[of] = both
}

// forget is called after a write, which makes all older generations wrong.
func (t *lastAnswers) forget(all []Resource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range all {
		delete(t.byID, of)
	}
}

// knows reports whether a side has told the generation of one of these.
func (t *lastAnswers) knows(all []Resource, side Side) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(all, func(of Resource) bool { return t.byID[of][side] != "" })
}

// onlyBy reports whether a generation was told by a side, and none by the other one.
func (t *lastAnswers) onlyBy(of Resource, side Side, generation string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	both := t.byID[of]
	return both[side] == generation && both[side.Other()] == "" && generation != "null"
}

// note reads generations in an answer.
func (t *lastAnswers) note(side Side, pattern, parameter string, body []byte) {
	type holder struct {
		Generation *json.Number `json:"consumer_generation"`
	}
	switch pattern {
	case "/allocations/*":
		var answer holder
		if json.Unmarshal(body, &answer) == nil && answer.Generation != nil {
			t.tell(resource(kindConsumer, parameter), side, answer.Generation.String())
		}
	case "/resource_providers/*/allocations":
		var answer struct {
			Allocations map[string]holder `json:"allocations"`
		}
		if json.Unmarshal(body, &answer) != nil {
			return
		}
		for id, held := range answer.Allocations {
			if held.Generation != nil {
				t.tell(resource(kindConsumer, id), side, held.Generation.String())
			}
		}
	}
}

// tells reports whether answers to a pattern tell generations of consumers.
func tells(pattern string) bool {
	return pattern == "/allocations/*" || pattern == "/resource_providers/*/allocations"
}

// askWithin is how long a write may wait for the former leader's answer.
const askWithin = 2 * time.Second

// forLeader returns the body with the leader's generations, where the client had those of the
// former leader. Its caller holds the locks.
func (s front) forLeader(ctx context.Context, e *entry) ([]byte, error) {
	lead := e.lead
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return withGenerations(e.pattern, e.parameter, e.body, func(of Resource, given string) (string, error) {
		if !strings.HasPrefix(string(of), kindConsumer) || !s.lastAnswers.onlyBy(of, lead.Other(), given) {
			return given, nil
		}
		former, err := s.sides.generation(ctx, lead.Other(), of)
		if err != nil || former != given {
			return given, err
		}
		return s.sides.generation(ctx, lead, of)
	})
}
