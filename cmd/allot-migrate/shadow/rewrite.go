package shadow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
)

// maxDepth is how deep a body that the leader accepts can be nested, with room to spare.
const maxDepth = 64

var errDeep = fmt.Errorf("the body is nested deeper than %d", maxDepth)

// rewrite replaces numbers and nulls of a document and leaves every other byte as it is,
// because the order of allocations in a body has a meaning. replace is asked for each with
// the path to it.
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
