package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// maxDepth is how deep a body that the leader accepts can be nested, with room to spare.
const maxDepth = 64

var errDeep = fmt.Errorf("the body is nested deeper than %d", maxDepth)

// rewrite replaces numbers and nulls of a document and leaves every other byte as it is, because the order of
// allocations in a body has a meaning. replace is asked for each with the path to it.
func rewrite(body []byte, replace func(path []string, value string) (string, error)) ([]byte, error) {
	w := &rewriter{body: body, decoder: json.NewDecoder(bytes.NewReader(body)), replace: replace}
	w.decoder.UseNumber()
	if err := w.value(nil); err != nil {
		return nil, err
	}
	return append(w.out, body[w.copied:]...), nil
}

type rewriter struct {
	body    []byte
	decoder *json.Decoder
	replace func(path []string, value string) (string, error)
	out     []byte
	copied  int // bytes of the body that are in out
}

func (w *rewriter) value(path []string) error {
	if len(path) > maxDepth {
		return errDeep
	}
	token, err := w.decoder.Token()
	if err != nil {
		return err
	}
	switch v := token.(type) {
	case json.Delim:
		return w.members(path, v == '{')
	case json.Number:
		return w.scalar(path, v.String())
	case nil:
		return w.scalar(path, "null")
	}
	return nil
}

func (w *rewriter) members(path []string, named bool) error {
	for w.decoder.More() {
		name := ""
		if named {
			token, err := w.decoder.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string) // the decoder lets nothing else be a key
		}
		if err := w.value(append(slices.Clip(path), name)); err != nil {
			return err
		}
	}
	_, err := w.decoder.Token()
	return err
}

func (w *rewriter) scalar(path []string, text string) error {
	by, err := w.replace(path, text)
	if err != nil || by == text {
		return err
	}
	end := int(w.decoder.InputOffset())
	w.out = append(append(w.out, w.body[w.copied:end-len(text)]...), by...)
	w.copied = end
	return nil
}

// generationAt tells whose generation stands at a path in the body of a write.
func generationAt(pattern, parameter string, path []string) (of Resource, found bool) {
	last := len(path) - 1
	if last < 0 {
		return "", false
	}
	switch path[last] {
	case "resource_provider_generation":
		if pattern == "/reshaper" && last == 2 && path[0] == "inventories" {
			return resource(kindProvider, path[1]), true
		}
		return resource(kindProvider, parameter), last == 0 && parameter != ""
	case "consumer_generation":
		switch {
		case pattern == "/allocations/*" && last == 0:
			return resource(kindConsumer, parameter), true
		case pattern == "/allocations" && last == 1:
			return resource(kindConsumer, path[0]), true
		case pattern == "/reshaper" && last == 2 && path[0] == "allocations":
			return resource(kindConsumer, path[1]), true
		}
	}
	return "", false
}

// withGenerations returns a body with other generations. generation is asked for the
// generation that stands there instead of the given one.
func withGenerations(
	pattern, parameter string, body []byte, generation func(of Resource, given string) (string, error),
) ([]byte, error) {
	if len(body) == 0 {
		return body, nil
	}
	return rewrite(body, func(path []string, value string) (string, error) {
		of, found := generationAt(pattern, parameter, path)
		if !found {
			return value, nil
		}
		return generation(of, value)
	})
}

// named puts a uuid into the body that creates a provider without one. Otherwise each side would
// make up its own, and a lost answer would leave the provider unknown.
func named(body []byte) []byte {
	members := membersIn(body)
	if _, has := members["uuid"]; has || len(members) == 0 {
		return body // or it is no such body, and the leader refuses it
	}
	open := bytes.IndexByte(body, '{')
	return slices.Concat([]byte(`{"uuid": "`+uuid.NewString()+`", `), body[open+1:])
}

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
