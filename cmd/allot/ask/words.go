package ask

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// changes describes in words the differences between an entity before and after a
// record: one line for each changed part.
func changes(was, is any) []string {
	switch {
	case was == nil && is == nil:
		return nil
	case was == nil:
		return append([]string{"it begins"}, parts(is)...)
	case is == nil:
		return append([]string{"it no longer exists; it was"}, parts(was)...)
	}
	lines := differences("", was, is)
	if len(lines) == 0 {
		lines = []string{"nothing that is shown here changed"}
	}
	return lines
}

// differences lists the parts in which two values differ.
func differences(name string, was, is any) []string {
	before, wasObject := keyed(was)
	after, isObject := keyed(is)
	if !wasObject || !isObject {
		if shown(was) == shown(is) {
			return nil
		}
		return []string{fmt.Sprintf("%s: %s, before %s", name, shown(is), shown(was))}
	}
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		path := strings.TrimPrefix(name+" "+key, " ")
		old, had := before[key]
		now, has := after[key]
		switch {
		case !had || old == nil && now != nil:
			lines = append(lines, fmt.Sprintf("%s: %s, before nothing", path, shown(now)))
		case !has || now == nil && old != nil:
			lines = append(lines, fmt.Sprintf("%s: gone, before %s", path, shown(old)))
		default:
			lines = append(lines, differences(path, old, now)...)
		}
	}
	return lines
}

// parts lists the parts of an entity that has some.
func parts(value any) (lines []string) {
	object, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if text := shown(object[key]); text != "" && text != "[]" && text != "{}" && text != "nothing" {
			lines = append(lines, fmt.Sprintf("%s: %s", key, text))
		}
	}
	return lines
}

// keyed returns an object by its keys, or a list by the names of its items if
// they have names, such as allocations and inventories.
func keyed(value any) (map[string]any, bool) {
	if object, isObject := value.(map[string]any); isObject {
		return object, true
	}
	list, isList := value.([]any)
	if !isList {
		return nil, false
	}
	byName := make(map[string]any, len(list))
	for _, item := range list {
		byName[nameOf(item)] = amountOf(item)
	}
	return byName, len(byName) == len(list)
}

// namesOfItems are the fields that identify the items of lists.
var namesOfItems = []string{"provider", "class", "counter", "consumer", "user", "type"}

func nameOf(item any) string {
	object, isObject := item.(map[string]any)
	if !isObject {
		return shown(item)
	}
	var names []string
	for _, key := range namesOfItems {
		if object[key] != nil {
			names = append(names, key+" "+shown(object[key]))
		}
	}
	return strings.Join(names, " ")
}

// amountOf returns an item without its name.
func amountOf(item any) any {
	object, isObject := item.(map[string]any)
	if !isObject {
		return item
	}
	rest := maps.Clone(object)
	maps.DeleteFunc(rest, func(key string, _ any) bool { return slices.Contains(namesOfItems, key) })
	if amount, only := rest["amount"]; only && len(rest) == 1 {
		return amount
	}
	return rest
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
		var members []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			members = append(members, key+" "+shown(v[key]))
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return fmt.Sprint(value)
}

// maxShownBytes is the length of the longest text that is printed for people, in bytes.
const maxShownBytes = 300

// shortened cuts a text that is too long for a line, and says so.
func shortened(text string) string {
	if len(text) <= maxShownBytes {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes; --json prints all)", text[:maxShownBytes], len(text))
}
