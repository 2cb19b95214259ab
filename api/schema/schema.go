// Package schema checks documents against JSON schemas. It reports faults in the
// words of Python's jsonschema, because OpenStack's clients match parts of them.
package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Schema is a schema, which is compiled when it is used first: most commands of a program use
// none. The zero Schema is of no use.
type Schema struct {
	compiled func() *jsonschema.Schema
	source   map[string]any
}

// Source returns the schema itself.
func (s Schema) Source() map[string]any { return s.source }

// Format checks the strings of a format. It accepts all other values.
type Format struct {
	Name  string
	Valid func(string) bool
}

// Compiler compiles schemas.
type Compiler struct {
	mu    sync.Mutex
	inner *jsonschema.Compiler // guarded by mu
	count int                  // guarded by mu
}

// NewCompiler returns a compiler that knows the formats.
func NewCompiler(formats ...Format) *Compiler {
	c := &Compiler{inner: jsonschema.NewCompiler()}
	c.inner.AssertFormat()
	for _, f := range formats {
		c.inner.RegisterFormat(&jsonschema.Format{Name: f.Name, Validate: func(value any) error {
			if s, isString := value.(string); isString && !f.Valid(s) {
				return errors.New("not a " + f.Name)
			}
			return nil
		}})
	}
	return c
}

// Schema returns a schema of the program itself. Its first use panics on a mistake in it.
func (c *Compiler) Schema(source map[string]any) Schema {
	return Schema{sync.OnceValue(func() *jsonschema.Schema { return c.mustCompile(source) }), source}
}

func (c *Compiler) mustCompile(source map[string]any) *jsonschema.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	url := fmt.Sprintf("schema:///%d", c.count)
	if err := c.inner.AddResource(url, source); err != nil {
		panic(err)
	}
	return c.inner.MustCompile(url)
}

// Check validates a document, whose numbers may be json.Number. It returns the
// fault and its place, or "".
func (s Schema) Check(doc any) string {
	fault := s.validate(doc)
	if fault == nil {
		return ""
	}
	path := schemaPath(fault)
	rule := locate(s.source, path)
	value := locate(doc, fault.InstanceLocation)
	keyword := ""
	if words := fault.ErrorKind.KeywordPath(); len(words) > 0 {
		keyword = words[0]
	}
	return fmt.Sprintf("%s\n\nFailed validating '%s' in schema%s:\n    %s\n\nOn instance%s:\n    %s",
		faultText(fault.ErrorKind, value, rule), keyword, subscripts(path), Repr(rule),
		subscripts(fault.InstanceLocation), Repr(value))
}

// Fault returns Check's first sentence.
func (s Schema) Fault(doc any) string {
	fault := s.validate(doc)
	if fault == nil {
		return ""
	}
	return faultText(fault.ErrorKind, locate(doc, fault.InstanceLocation), locate(s.source, schemaPath(fault)))
}

func (s Schema) validate(doc any) *jsonschema.ValidationError {
	err := s.compiled().Validate(doc)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		panic(err) // Validate returns no other errors.
	}
	return bestMatch(invalid)
}

// bestMatch picks the fault nearest the top, like Python's best_match.
func bestMatch(err *jsonschema.ValidationError) *jsonschema.ValidationError {
	var leaves []*jsonschema.ValidationError
	var collect func(*jsonschema.ValidationError)
	collect = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 {
			leaves = append(leaves, e)
		}
		for _, cause := range e.Causes {
			collect(cause)
		}
	}
	collect(err)
	return slices.MinFunc(leaves, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(
			cmp.Compare(len(a.InstanceLocation), len(b.InstanceLocation)),
			cmp.Compare(strings.Join(a.InstanceLocation, "/"), strings.Join(b.InstanceLocation, "/")),
			cmp.Compare(strings.Join(a.ErrorKind.KeywordPath(), "/"), strings.Join(b.ErrorKind.KeywordPath(), "/")),
		)
	})
}

// schemaPath returns the place of the broken rule in the schema.
func schemaPath(e *jsonschema.ValidationError) []string {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	var path []string
	for _, part := range strings.Split(strings.Trim(fragment, "/"), "/") {
		if decoded, err := url.PathUnescape(part); err == nil && part != "" {
			path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(decoded))
		}
	}
	return path
}

func locate(doc any, path []string) any {
	for _, part := range path {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}

func subscripts(path []string) string {
	var b strings.Builder
	for _, part := range path {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			fmt.Fprintf(&b, "[%s]", part)
		} else {
			fmt.Fprintf(&b, "[%s]", Repr(part))
		}
	}
	return b.String()
}

func faultText(fault jsonschema.ErrorKind, value, rule any) string {
	shown := Repr(value)
	switch k := fault.(type) {
	case *kind.Type:
		want := List(k.Want)
		if inOrder, isList := ruleOf(rule, "type").([]any); isList {
			want = inOrder
		}
		return fmt.Sprintf("%s is not of type %s", shown, reprList(want))
	case *kind.Required:
		return fmt.Sprintf("%s is a required property", Repr(k.Missing[0]))
	case *kind.AdditionalProperties:
		return additionalText(k.Properties, rule)
	case *kind.Minimum:
		return fmt.Sprintf("%s is less than the minimum of %s", shown, Repr(ruleOf(rule, "minimum")))
	case *kind.Maximum:
		return fmt.Sprintf("%s is greater than the maximum of %s", shown, Repr(ruleOf(rule, "maximum")))
	case *kind.MinLength, *kind.MinItems:
		return shown + " is too short"
	case *kind.MaxLength, *kind.MaxItems:
		return shown + " is too long"
	case *kind.MinProperties:
		return shown + " does not have enough properties"
	case *kind.UniqueItems:
		return shown + " has non-unique elements"
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match %s", shown, Repr(k.Want))
	case *kind.Format:
		return fmt.Sprintf("%s is not a %s", shown, Repr(k.Want))
	case *kind.Enum:
		return fmt.Sprintf("%s is not one of %s", shown, Repr(k.Want))
	}
	return fmt.Sprint(fault)
}

func ruleOf(rule any, keyword string) any {
	r, _ := rule.(map[string]any)
	return r[keyword]
}

func additionalText(extra []string, rule any) string {
	names := reprList(List(slices.Sorted(slices.Values(extra))))
	patterns, _ := ruleOf(rule, "patternProperties").(map[string]any)
	if len(patterns) == 0 {
		verb := "was"
		if len(extra) > 1 {
			verb = "were"
		}
		return fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", names, verb)
	}
	regexes := slices.Sorted(maps.Keys(patterns))
	verb := "does"
	if len(extra) > 1 {
		verb = "do"
	}
	return fmt.Sprintf("%s %s not match any of the regexes: %s", names, verb, reprList(List(regexes)))
}

// List converts a list of strings to the type that documents use.
func List(items []string) []any {
	out := make([]any, len(items))
	for i := range items {
		out[i] = items[i]
	}
	return out
}

// maxReprRunes is how many characters of a value an error quotes.
const maxReprRunes = 400

func reprList(values []any) string {
	w := &reprWriter{left: maxReprRunes}
	w.list(values)
	return w.text()
}

// Repr writes a value as Python does, as far as an error quotes it.
func Repr(value any) string {
	w := &reprWriter{left: maxReprRunes}
	w.value(value)
	return w.text()
}

// reprWriter writes values as Python does until it is full, so that the quotation
// of a huge value takes little memory.
type reprWriter struct {
	out  strings.Builder
	left int // room left in runes; below 0: something did not fit
}

func (w *reprWriter) text() string {
	if w.left < 0 {
		return w.out.String() + "..."
	}
	return w.out.String()
}

func (w *reprWriter) write(text string) {
	if w.left < 0 {
		return
	}
	for i := range text {
		if w.left == 0 {
			w.out.WriteString(text[:i])
			w.left = -1
			return
		}
		w.left--
	}
	w.out.WriteString(text)
}

func (w *reprWriter) list(values []any) {
	for i := 0; i < len(values) && w.left >= 0; i++ {
		if i > 0 {
			w.write(", ")
		}
		w.value(values[i])
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

func (w *reprWriter) value(value any) {
	switch v := value.(type) {
	case nil:
		w.write("None")
	case bool:
		if v {
			w.write("True")
		} else {
			w.write("False")
		}
	case string:
		// No more than this can be quoted, however long each rune is.
		if most := (maxReprRunes + 1) * utf8.UTFMax; len(v) > most {
			v = v[:most]
		}
		w.write("'" + escapes.Replace(v) + "'")
	case json.Number:
		w.write(string(v))
	case []any:
		w.write("[")
		w.list(v)
		w.write("]")
	case map[string]any:
		w.object(v)
	default:
		w.write(fmt.Sprint(value))
	}
}

func (w *reprWriter) object(members map[string]any) {
	w.write("{")
	for i, key := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			w.write(", ")
		}
		w.value(key)
		w.write(": ")
		w.value(members[key])
		if w.left < 0 {
			return
		}
	}
	w.write("}")
}
