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
	"text/template"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestReference: api/asyncapi/reference.md is what the AsyncAPI document says, for
// people.
func TestReference(t *testing.T) {
	document, err := asyncapi.Document()
	text, unread := os.ReadFile("vocabulary.json")
	var words asyncapi.Vocabulary
	ledgertest.OK(t, errors.Join(err, unread, json.Unmarshal(text, &words)))
	r := through[reference](t, document)
	r.Rejections, r.Errors = words.Codes, wire.ErrorCodes
	page := template.New("reference.md.tmpl").Funcs(template.FuncMap{
		"cell": func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
	})
	var out bytes.Buffer
	ledgertest.OK(t, template.Must(page.ParseFiles("testdata/reference.md.tmpl")).Execute(&out, &r))
	isMade(t, "reference.md", out.Bytes())
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

// reference is what the template is filled with.
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

	Rejections []asyncapi.CodeMeaning `json:"-"`
	Errors     []string               `json:"-"`
}

// Request is the type of a channel's requests, nil where nothing is asked.
func (r *reference) Request(channel string) *schema {
	return r.Components.Schemas[refName(r.Channels[channel].Messages["request"].Payload.Ref)]
}

// Others are the types of what is in requests and answers, by name.
func (r *reference) Others() map[string]*schema {
	others := maps.Clone(r.Components.Schemas)
	for channel := range r.Channels {
		delete(others, refName(r.Channels[channel].Messages["request"].Payload.Ref))
	}
	maps.DeleteFunc(others, func(name string, _ *schema) bool { return strings.HasSuffix(name, "Headers") })
	return others
}

func refName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// Requires reports whether a field must be there.
func (s *schema) Requires(field string) bool { return slices.Contains(s.Required, field) }

// Means is what is said of a field, or of its first form of which something is said.
func (s *schema) Means() string {
	means := s.Description
	for _, form := range s.OneOf {
		means = cmp.Or(means, form.Description)
	}
	return means
}

// Name is what a field holds, in a word or two.
func (s *schema) Name() string {
	switch {
	case s.Ref != "":
		return refName(s.Ref)
	case len(s.OneOf) > 0:
		var names []string
		for _, one := range s.OneOf {
			names = append(names, one.Name())
		}
		return strings.Join(names, " or ")
	case s.Type == "array" && s.Items != nil:
		return "list of " + s.Items.Name()
	case s.Type == "object" && len(s.Additional) > 0 && s.Additional[0] == '{':
		var value schema
		if json.Unmarshal(s.Additional, &value) == nil {
			return "object of " + value.Name()
		}
	case s.Type == nil:
		return "anything"
	case s.Format != "":
		return s.Format
	}
	return fmt.Sprint(s.Type)
}
