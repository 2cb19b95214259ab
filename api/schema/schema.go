package placement

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// check validates a document and describes the first fault in the words of
// Python's jsonschema, parts of which clients match. It returns "" if there
// is none.
func (s schema) check(doc any) string {
	err := s.compiled.Validate(doc)
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	fault := bestMatch(invalid)
	value := locate(doc, fault.InstanceLocation)
	path := schemaPath(fault)
	rule := locate(s.source, path)
	keyword := ""
	if words := fault.ErrorKind.KeywordPath(); len(words) > 0 {
		keyword = words[0]
	}
	return fmt.Sprintf("%s\n\nFailed validating '%s' in schema%s:\n    %s\n\nOn instance%s:\n    %s",
		faultText(fault.ErrorKind, value, rule), keyword, subscripts(path), shortRepr(rule),
		subscripts(fault.InstanceLocation), shortRepr(value))
}

// bestMatch picks the fault that is nearest the top, as Python's best_match.
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

// schemaPath is where in the schema the broken rule stands.
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
			fmt.Fprintf(&b, "[%s]", repr(part))
		}
	}
	return b.String()
}

func faultText(fault jsonschema.ErrorKind, value, rule any) string {
	shown := shortRepr(value)
	switch k := fault.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s is not of type %s", shown, reprList(list(k.Want)))
	case *kind.Required:
		return fmt.Sprintf("%s is a required property", repr(k.Missing[0]))
	case *kind.AdditionalProperties:
		return additionalText(k.Properties, rule)
	case *kind.Minimum:
		return fmt.Sprintf("%s is less than the minimum of %s", shown, repr(ruleOf(rule, "minimum")))
	case *kind.Maximum:
		return fmt.Sprintf("%s is greater than the maximum of %s", shown, repr(ruleOf(rule, "maximum")))
	case *kind.MinLength, *kind.MinItems:
		return shown + " is too short"
	case *kind.MaxLength, *kind.MaxItems:
		return shown + " is too long"
	case *kind.MinProperties:
		return shown + " does not have enough properties"
	case *kind.UniqueItems:
		return shown + " has non-unique elements"
	case *kind.Pattern:
		return fmt.Sprintf("%s does not match %s", shown, repr(k.Want))
	case *kind.Format:
		return fmt.Sprintf("%s is not a %s", shown, repr(k.Want))
	case *kind.Enum:
		return fmt.Sprintf("%s is not one of %s", shown, repr(k.Want))
	}
	return fmt.Sprint(fault)
}

func ruleOf(rule any, keyword string) any {
	r, _ := rule.(map[string]any)
	return r[keyword]
}

func additionalText(extra []string, rule any) string {
	extra = slices.Clone(extra)
	sort.Strings(extra)
	names := reprList(list(extra))
	patterns, _ := ruleOf(rule, "patternProperties").(map[string]any)
	if len(patterns) == 0 {
		verb := "was"
		if len(extra) > 1 {
			verb = "were"
		}
		return fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", names, verb)
	}
	regexes := make([]string, 0, len(patterns))
	for pattern := range patterns {
		regexes = append(regexes, pattern)
	}
	sort.Strings(regexes)
	verb := "does"
	if len(extra) > 1 {
		verb = "do"
	}
	return fmt.Sprintf("%s %s not match any of the regexes: %s", names, verb, reprList(list(regexes)))
}

func reprList(values []any) string {
	shown := make([]string, len(values))
	for i := range values {
		shown[i] = repr(values[i])
	}
	return strings.Join(shown, ", ")
}

// maxReprRunes bounds how much of a value an error quotes.
const maxReprRunes = 400

func shortRepr(value any) string {
	s := repr(value)
	if utf8.RuneCountInString(s) <= maxReprRunes {
		return s
	}
	return string([]rune(s)[:maxReprRunes]) + "..."
}

// repr writes a value as Python does.
func repr(value any) string {
	switch v := value.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		quoted := strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(v)
		return "'" + quoted + "'"
	case json.Number:
		return string(v)
	case []any:
		return "[" + reprList(v) + "]"
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		members := make([]string, len(keys))
		for i, key := range keys {
			members[i] = repr(key) + ": " + repr(v[key])
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return fmt.Sprint(value)
}
