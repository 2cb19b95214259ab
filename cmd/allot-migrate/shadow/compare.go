package shadow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// Answer is an answer of one side.
type Answer struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

// mostNamed is how many differences of two bodies are named.
const mostNamed = 8

// Compare lists in what two answers to one request mean different things. Generations of consumers differ
// always, so they are left out; so are links, texts of errors, the order of lists, which neither side promises,
// and lists' standard names, of which each side has those of its version.
func Compare(path, query string, left, right Answer) []string {
	if left.Status != right.Status {
		return []string{fmt.Sprintf("status: %d, %d", left.Status, right.Status)}
	}
	a, b := meaning(left.Body), meaning(right.Body)
	if path == "/" || path == "" {
		return nil // the versions and features that a service names are its own
	}
	if rest.ParseText(query).Has("limit") && path == "/allocation_candidates" {
		// A limit picks any of the candidates.
		a, b = numberOf(a, "allocation_requests"), numberOf(b, "allocation_requests")
	}
	customOnly(path, a)
	customOnly(path, b)
	var found []string
	different("", a, b, &found)
	return found
}

// unlike are the members of answers that do not mean the same on both sides.
var unlike = map[string]bool{"consumer_generation": true, "request_id": true, "detail": true, "links": true}

// meaning brings a document into a form in which equal documents are equal.
func meaning(body string) any {
	if strings.TrimSpace(body) == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	var document any
	if decoder.Decode(&document) != nil {
		return body
	}
	return plain(document)
}

func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		number, err := strconv.ParseFloat(v.String(), 64)
		if err != nil {
			return v.String()
		}
		return number // 1 and 1.0 are the same
	case map[string]any:
		for key, member := range v {
			if unlike[key] {
				delete(v, key)
				continue
			}
			v[key] = plain(member)
		}
	case []any:
		texts := make(map[int]string, len(v))
		order := make([]int, len(v))
		for i := range v {
			v[i], order[i] = plain(v[i]), i
			texts[i] = text(v[i])
		}
		slices.SortStableFunc(order, func(a, b int) int { return strings.Compare(texts[a], texts[b]) })
		sorted := make([]any, len(v))
		for i, from := range order {
			sorted[i] = v[from]
		}
		return sorted
	}
	return value
}

// customOnly takes standard names out of the lists of all traits and classes.
func customOnly(path string, document any) {
	list := strings.TrimPrefix(path, "/")
	members, _ := document.(map[string]any)
	all, is := members[list].([]any)
	if !is || list != "traits" && list != "resource_classes" {
		return
	}
	members[list] = slices.DeleteFunc(all, func(one any) bool {
		if class, is := one.(map[string]any); is {
			one = class["name"]
		}
		name, is := one.(string)
		return is && !strings.HasPrefix(name, "CUSTOM_")
	})
}

func numberOf(document any, list string) any {
	members, _ := document.(map[string]any)
	all, _ := members[list].([]any)
	return map[string]any{"number of " + list: float64(len(all))}
}

// different adds in what two documents differ.
func different(at string, a, b any, found *[]string) {
	if len(*found) >= mostNamed {
		return
	}
	x, isObject := a.(map[string]any)
	y, both := b.(map[string]any)
	if isObject && both {
		keys := slices.AppendSeq(slices.Collect(maps.Keys(x)), maps.Keys(y))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			different(strings.TrimPrefix(at+"."+key, "."), x[key], y[key], found)
		}
		return
	}
	if p, q := text(a), text(b); p != q {
		*found = append(*found, fmt.Sprintf("%s: %s, %s", at, shortened(p, 200), shortened(q, 200)))
	}
}

func text(value any) string {
	encoded, err := ledger.PlainJSON(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(bytes.TrimSpace(encoded))
}

func shortened(text string, to int) string {
	if len(text) <= to {
		return text
	}
	return strings.ToValidUTF8(text[:to], "") + "..."
}
