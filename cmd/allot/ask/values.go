package ask

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger"
)

// at returns the part of an answer at a path such as "rejection.code"; nil: there is none. The
// empty path is the whole.
func at(value any, path string) any {
	for path != "" {
		name, rest, _ := strings.Cut(path, ".")
		object, _ := value.(map[string]any)
		value, path = object[name], rest
	}
	return value
}

// list returns a list; what is none is empty.
func list(value any) []any {
	items, _ := value.([]any)
	return items
}

// number returns a number; what is none is 0.
func number(value any) float64 {
	n, err := strconv.ParseFloat(text(value), 64)
	if err != nil {
		return 0
	}
	return n
}

// text returns a value in one line; nothing is empty.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = text(item)
		}
		return strings.Join(items, ", ")
	case map[string]any:
		return shown(v)
	}
	return fmt.Sprint(value)
}

// field is the part of a value at a path, in one line.
func field(value any, path string) string { return text(at(value, path)) }

// or returns words for a value that may be missing.
func or(missing string) func(any) string {
	return func(value any) string {
		if found := text(value); found != "" {
			return found
		}
		return missing
	}
}

// address is a record's, SEQUENCE.INDEX.
func address(value any) string {
	if sequence := at(value, "sequence"); sequence != nil {
		return text(sequence) + "." + field(value, "index")
	}
	return text(value)
}

// milliseconds is a time as precise as people want it.
func milliseconds(value any) string {
	t, err := time.Parse(time.RFC3339Nano, text(value))
	if err != nil {
		return text(value)
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// document is a value as JSON, such as a preference.
func document(value any) string {
	if value == nil {
		return "removed"
	}
	text, err := ledger.PlainJSON(value)
	if err != nil {
		return shown(value)
	}
	return string(text)
}

// amounts are amounts by class.
func amounts(value any) string {
	held, _ := value.(map[string]any)
	parts := make([]string, 0, len(held))
	for _, class := range slices.Sorted(maps.Keys(held)) {
		parts = append(parts, class+":"+text(held[class]))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// allocations are amounts of one provider.
func allocations(value any) string { return allocated(value, false) }

// holdings are amounts of several providers.
func holdings(value any) string { return allocated(value, true) }

func allocated(value any, ofProviders bool) string {
	var parts []string
	for _, one := range list(value) {
		part := field(one, "class") + ":" + field(one, "amount")
		if ofProviders {
			part += " of " + field(one, "provider")
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// used are the inventories of a provider, with what is used of each.
func used(value any) string {
	var parts []string
	for _, one := range list(value) {
		parts = append(parts, fmt.Sprintf("%s %s/%s", field(one, "class"), field(one, "used"), field(one, "capacity")))
	}
	return strings.Join(parts, ", ")
}

// inventory is one inventory; null: there is none.
func inventory(value any) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprintf("total %s, reserved %s, allocation ratio %s, units %s to %s by %s",
		field(value, "total"), field(value, "reserved"), ratio(at(value, "allocation_ratio")), field(value, "min_unit"),
		field(value, "max_unit"), field(value, "step_size"))
}

// ratio is a number without zeros at its end.
func ratio(value any) string { return strconv.FormatFloat(number(value), 'g', -1, 64) }

// mebibytes is a size for people.
func mebibytes(value any) string { return fmt.Sprintf("%.0f MiB", number(value)/(1<<20)) }
