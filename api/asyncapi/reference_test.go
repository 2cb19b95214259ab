package asyncapi_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/wire"
)

// TestReference: api/asyncapi/reference.md is what the AsyncAPI document says, for
// people.
func TestReference(t *testing.T) {
	document, err := asyncapi.Document()
	text, unread := os.ReadFile("vocabulary.json")
	var words asyncapi.Vocabulary
	if err := errors.Join(err, unread, json.Unmarshal(text, &words)); err != nil {
		t.Fatal(err)
	}
	r := through[reference](t, document)
	isMade(t, "reference.md", r.write(words.Codes))
}

type schema struct {
	Ref         string             `json:"$ref"`
	Type        any                `json:"type"`
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Additional  json.RawMessage    `json:"additionalProperties"`
	OneOf       []*schema          `json:"oneOf"`
	Enum        []any              `json:"enum"`
}

// UnmarshalJSON takes the schema true, which lets anything through.
func (s *schema) UnmarshalJSON(text []byte) error {
	type plain schema
	if string(text) == "true" {
		return nil
	}
	return json.Unmarshal(text, (*plain)(s))
}

type reference struct {
	Channels map[string]struct {
		Address  string `json:"address"`
		Messages map[string]struct {
			Payload schema `json:"payload"`
		} `json:"messages"`
	} `json:"channels"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

func (r *reference) write(codes []asyncapi.CodeMeaning) []byte {
	var out bytes.Buffer
	out.WriteString("# Commands and queries over NATS, field by field\n\n" +
		"Made from the types, as [asyncapi.json](../../docs/asyncapi.json) is, which a server also answers at `/asyncapi.json`.\n" +
		"[nats.md](../../docs/nats.md) says how to talk to the server. Fields in **bold** are required.\n\n## Codes of rejections\n\n" +
		"| code | means |\n|---|---|\n")
	for _, one := range codes {
		fmt.Fprintf(&out, "| `%s` | %s |\n", one.Code, cell(one.Means))
	}
	out.WriteString("\n## Codes of errors\n\n")
	for _, code := range wire.ErrorCodes {
		fmt.Fprintf(&out, "- `%s`\n", code)
	}
	out.WriteString("\n## Requests\n")
	described := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(r.Channels)) {
		request, is := r.Channels[name].Messages["request"]
		if !is {
			continue
		}
		fmt.Fprintf(&out, "\n### %s\n\n`%s`\n", name, r.Channels[name].Address)
		r.describe(&out, refName(request.Payload.Ref))
		described[refName(request.Payload.Ref)] = true
	}
	out.WriteString("\n## What they hold, and what is answered\n")
	for _, name := range slices.Sorted(maps.Keys(r.Components.Schemas)) {
		if !described[name] && !strings.HasSuffix(name, "Headers") {
			fmt.Fprintf(&out, "\n### %s\n", name)
			r.describe(&out, name)
		}
	}
	return out.Bytes()
}

func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// describe writes what a type is, and a table of its fields.
func (r *reference) describe(out *bytes.Buffer, name string) {
	s := r.Components.Schemas[name]
	if s.Description != "" {
		fmt.Fprintf(out, "\n%s\n", s.Description)
	}
	if len(s.Properties) == 0 {
		return
	}
	out.WriteString("\n| field | type | |\n|---|---|---|\n")
	for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
		one, shown := s.Properties[field], "`"+field+"`"
		if slices.Contains(s.Required, field) {
			shown = "**" + shown + "**"
		}
		means := one.Description
		for _, form := range one.OneOf {
			means = cmp.Or(means, form.Description)
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", shown, one.name(), cell(means))
	}
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// name is what a field holds, in a word or two.
func (s *schema) name() string {
	switch {
	case s.Ref != "":
		return refName(s.Ref)
	case len(s.OneOf) > 0:
		var names []string
		for _, one := range s.OneOf {
			names = append(names, one.name())
		}
		return strings.Join(names, " or ")
	case s.Type == "array" && s.Items != nil:
		return "list of " + s.Items.name()
	case s.Type == "object" && len(s.Additional) > 0 && s.Additional[0] == '{':
		var value schema
		if json.Unmarshal(s.Additional, &value) == nil {
			return "object of " + value.name()
		}
	case s.Type == nil:
		return "anything"
	case s.Format != "":
		return s.Format
	}
	return fmt.Sprint(s.Type)
}
