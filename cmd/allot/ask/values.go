package ask

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
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

// members yields the members of an object at a path, in the order of their names.
func members(value any, path string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		object, _ := at(value, path).(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !yield(name, object[name]) {
				return
			}
		}
	}
}

// list returns a list; what is none is empty.
func list(value any) []any {
	items, _ := value.([]any)
	return items
}

// number returns a number; what is none is 0.
func number(value any) float64 {
	n, _ := strconv.ParseFloat(text(value), 64)
	return n
}

// text returns a value in one line; nothing is empty.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		return joined(v, text)
	}
	return shown(value)
}

// shown returns a value in one line.
func shown(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case string:
		return v
	case []any:
		return "[" + joined(v, shown) + "]"
	case map[string]any:
		var parts []string
		for name, member := range members(v, "") {
			parts = append(parts, name+" "+shown(member))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(value)
}

func joined(items []any, words func(any) string) string {
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = words(item)
	}
	return strings.Join(parts, ", ")
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

// asJSON is a value as JSON, such as a preference.
func asJSON(value any) string {
	if value == nil {
		return "removed"
	}
	text, err := ledger.PlainJSON(value)
	if err != nil {
		return shown(value)
	}
	return string(text)
}

func amounts(value any) string {
	var parts []string
	for class, amount := range members(value, "") {
		parts = append(parts, class+":"+text(amount))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

func allocated(one any) string { return field(one, "class") + ":" + field(one, "amount") }

func holdings(value any) string {
	return joined(list(value), func(one any) string { return allocated(one) + " of " + field(one, "provider") })
}

// used are the inventories of a provider, with what is used of each.
func used(value any) string {
	return joined(list(value), func(one any) string {
		return fmt.Sprintf("%s %s of %s", field(one, "class"), field(one, "used"), field(one, "capacity"))
	})
}

// ratio is a number without zeros at its end.
func ratio(value any) string { return strconv.FormatFloat(number(value), 'g', -1, 64) }

// mebibytes is a size for people.
func mebibytes(value any) string { return fmt.Sprintf("%.0f MiB", number(value)/(1<<20)) }

// capacityOf is how much of an inventory there is to hold.
func capacityOf(inventory any) float64 {
	free := number(at(inventory, "total")) - number(at(inventory, "reserved"))
	return math.Floor(free * number(at(inventory, "allocation_ratio")))
}
