// Package judge says whether what clients of a cluster saw can be true: whether some order
// of their requests explains all answers, and the log has what was acknowledged, once.
package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Places is how many consumers a provider may see in one history.
const Places = 1024

// Deed is one request of a client about a provider, and its answer.
type Deed struct {
	Kind     string // take, give, used, held or candidates
	Provider string // its uuid
	Holder   int    // number of the provider's consumer, below Places
	ID       string // of the command; empty: it reads
	Output   int    // of a take or a give: 1 done, 0 refused; of a read: the value read
	Known    bool   // it was answered
	Repeated bool   // it was sent more than once
	Client   int
	Server   int   // which of the servers was asked first, from 0
	Call     int64 // when it was sent first, in nanoseconds
	End      int64 // when its client knew the answer, or gave up
}

// Understand notes the contents of an answer about a provider of some units. It returns an
// error if the answer says neither yes nor no.
func (d *Deed) Understand(status int, text string, capacity int) error {
	var body struct {
		Usages      map[string]int `json:"usages"`
		Allocations map[string]any `json:"allocations"`
		Summaries   map[string]struct {
			Resources map[string]struct{ Used int }
		} `json:"provider_summaries"`
	}
	full := strings.Contains(text, "exceed the capacity")
	switch {
	case d.ID != "" && status == http.StatusNoContent:
		d.Output = 1
		return nil
	case d.Kind == "take" && status == http.StatusConflict && full, d.Kind == "give" && status == http.StatusNotFound:
		d.Output = 0
		return nil
	case d.ID != "" || status != http.StatusOK:
		return fmt.Errorf("%d %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &body); err != nil {
		return err
	}
	switch d.Kind {
	case "used":
		d.Output = body.Usages["VCPU"]
	case "held":
		d.Output = len(body.Allocations)
	case "candidates":
		d.Output = capacity // a full provider is no candidate
		if summary, there := body.Summaries[d.Provider]; there {
			d.Output = summary.Resources["VCPU"].Used
		}
	}
	return nil
}

// holders is the state of the sequential specification: the consumers that hold a
// unit of a provider.
type holders struct {
	set  [Places / 64]uint64
	used int
}

func (h holders) has(i int) bool { return h.set[i/64]>>(i%64)&1 == 1 }

func (h holders) flip(i, by int) holders {
	h.set[i/64] ^= 1 << (i % 64)
	h.used += by
	return h
}

// modelOf is a provider of some units, of which each consumer may hold one.
func modelOf(capacity int) porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
			byProvider := make(map[string][]porcupine.Operation)
			for _, op := range history {
				provider := op.Input.(Deed).Provider
				byProvider[provider] = append(byProvider[provider], op)
			}
			for _, provider := range slices.Sorted(maps.Keys(byProvider)) {
				parts = append(parts, byProvider[provider])
			}
			return parts
		},
		Init: func() any { return holders{} },
		Step: func(state, input, output any) (bool, any) {
			return step(state.(holders), input.(Deed), output.(int), capacity)
		},
		Equal:             func(a, b any) bool { return a == b },
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
	}
}

func step(h holders, d Deed, output, capacity int) (bool, any) {
	switch {
	case d.Kind == "take" && output == 1:
		return !h.has(d.Holder) && h.used < capacity, h.flip(d.Holder, 1)
	case d.Kind == "take":
		return h.used == capacity, h
	case d.Kind == "give" && output == 1:
		return h.has(d.Holder), h.flip(d.Holder, -1)
	case d.Kind == "give":
		return !h.has(d.Holder), h
	case d.Kind == "held":
		return h.has(d.Holder) == (output == 1), h
	}
	return h.used == output, h
}

// History looks for an order that explains what the clients saw, given how often each
// command is in the log in the end, and how many units a provider has. It returns what is wrong.
func History(deeds []Deed, logged map[string]int, capacity int) (wrong []string) {
	var history []porcupine.Operation
	for _, d := range deeds {
		end, output := d.End, d.Output
		if d.ID != "" {
			n := logged[d.ID]
			switch {
			case n > 1:
				wrong = append(wrong, fmt.Sprintf("done %d times: %+v", n, d))
			case d.Known && d.Output == 1 && n == 0:
				wrong = append(wrong, fmt.Sprintf("acknowledged and lost: %+v", d))
			case d.Known && d.Output == 0 && n == 1 && !d.Repeated:
				wrong = append(wrong, fmt.Sprintf("refused and done: %+v", d))
			}
			doubt := !d.Known || d.Repeated && d.Output == 0
			if doubt && n == 0 {
				continue // it was not done, or any of its tries may have been answered
			}
			if doubt {
				end, output = math.MaxInt64, 1 // at any time since then
			}
		} else if !d.Known {
			continue
		}
		history = append(history, porcupine.Operation{
			ClientId: d.Client, Input: d, Output: output, Call: d.Call, Return: end,
		})
	}
	switch porcupine.CheckOperationsTimeout(modelOf(capacity), history, time.Minute) {
	case porcupine.Illegal:
		wrong = append(wrong, "no order explains what the clients saw: not linearizable"+explain(history, capacity))
	case porcupine.Unknown:
		wrong = append(wrong, "whether an order explains what the clients saw was not found out within a minute")
	}
	return wrong
}

// explain shows where every order fails, for each provider without one: the end of
// the longest order, and the first requests that have no place behind it.
func explain(history []porcupine.Operation, capacity int) (text string) {
	const shown = 12
	_, info := porcupine.CheckOperationsVerbose(modelOf(capacity), history, time.Minute)
	for _, part := range info.PartialLinearizationsOperations() {
		if len(part) == 0 {
			continue
		}
		longest := slices.MaxFunc(part, func(a, b []porcupine.Operation) int { return len(a) - len(b) })
		placed := make(map[porcupine.Operation]bool)
		for _, op := range longest {
			placed[op] = true
		}
		var rest []porcupine.Operation
		for _, op := range history {
			if len(longest) > 0 && op.Input.(Deed).Provider == longest[0].Input.(Deed).Provider && !placed[op] {
				rest = append(rest, op)
			}
		}
		if len(rest) == 0 {
			continue
		}
		slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
		text += fmt.Sprintf("\nan order of %d requests ends with", len(longest))
		for _, op := range longest[max(0, len(longest)-shown):] {
			text += "\n\t" + tellDeed(op)
		}
		text += fmt.Sprintf("\nand %d requests have no place in it:", len(rest))
		for _, op := range rest[:min(shown, len(rest))] {
			text += "\n\t" + tellDeed(op)
		}
	}
	return text
}

// tellDeed describes a request, its answer and when it was under way.
func tellDeed(op porcupine.Operation) string {
	d := op.Input.(Deed)
	until := "the end"
	if op.Return != math.MaxInt64 {
		until = time.Duration(op.Return).Round(time.Microsecond).String()
	}
	return fmt.Sprintf("%s of consumer %d by client %d at server %d: %v (known %v, repeated %v), from %v to %s, id %s",
		d.Kind, d.Holder, d.Client, d.Server+1, op.Output, d.Known, d.Repeated,
		time.Duration(op.Call).Round(time.Microsecond), until, d.ID)
}
