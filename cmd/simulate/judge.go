package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// holders is the state of the sequential specification: the consumers that hold a
// unit of a provider.
type holders struct {
	set  [places / 64]uint64
	used int
}

func (h holders) has(i int) bool { return h.set[i/64]>>(i%64)&1 == 1 }

func (h holders) flip(i, by int) holders {
	h.set[i/64] ^= 1 << (i % 64)
	h.used += by
	return h
}

// model is a provider, of which each consumer may hold one unit.
var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, providers)
		for _, op := range history {
			at := op.Input.(deed).provider
			parts[at] = append(parts[at], op)
		}
		return parts
	},
	Init: func() any { return holders{} },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(holders), input.(deed), output.(int))
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
}

func step(h holders, d deed, output int) (bool, any) {
	switch {
	case d.kind == "take" && output == 1:
		return !h.has(d.holder) && h.used < capacity, h.flip(d.holder, 1)
	case d.kind == "take":
		return h.used == capacity, h
	case d.kind == "give" && output == 1:
		return h.has(d.holder), h.flip(d.holder, -1)
	case d.kind == "give":
		return !h.has(d.holder), h
	case d.kind == "held":
		return h.has(d.holder) == (output == 1), h
	}
	return h.used == output, h
}

// judge looks for an order that explains what the clients saw, given how often each
// command is in the log in the end. It returns what is wrong.
func judge(deeds []deed, logged map[string]int) (wrong []string) {
	var history []porcupine.Operation
	for _, d := range deeds {
		end, output := d.end, d.output
		if d.id != "" {
			n := logged[d.id]
			switch {
			case n > 1:
				wrong = append(wrong, fmt.Sprintf("done %d times: %+v", n, d))
			case d.known && d.output == 1 && n == 0:
				wrong = append(wrong, fmt.Sprintf("acknowledged and lost: %+v", d))
			case d.known && d.output == 0 && n == 1 && !d.repeated:
				wrong = append(wrong, fmt.Sprintf("refused and done: %+v", d))
			}
			doubt := !d.known || d.repeated && d.output == 0
			if doubt && n == 0 {
				continue // it was not done, or any of its tries may have been answered
			}
			if doubt {
				end, output = math.MaxInt64, 1 // at any time since then
			}
		} else if !d.known {
			continue
		}
		history = append(history, porcupine.Operation{
			ClientId: d.client, Input: d, Output: output, Call: d.call, Return: end,
		})
	}
	switch porcupine.CheckOperationsTimeout(model, history, time.Minute) {
	case porcupine.Illegal:
		wrong = append(wrong, "no order explains what the clients saw: not linearizable"+explain(history))
	case porcupine.Unknown:
		wrong = append(wrong, "whether an order explains what the clients saw was not found out within a minute")
	}
	return wrong
}

// explain shows where every order fails, for each provider without one: the end of
// the longest order, and the first requests that have no place behind it.
func explain(history []porcupine.Operation) (text string) {
	const shown = 12
	_, info := porcupine.CheckOperationsVerbose(model, history, time.Minute)
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
			if len(longest) > 0 && op.Input.(deed).provider == longest[0].Input.(deed).provider && !placed[op] {
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
	d := op.Input.(deed)
	until := "the end"
	if op.Return != math.MaxInt64 {
		until = time.Duration(op.Return).Round(time.Microsecond).String()
	}
	return fmt.Sprintf("%s of consumer %d by client %d at server %d: %v (known %v, repeated %v), from %v to %s, id %s",
		d.kind, d.holder, d.client, d.server+1, op.Output, d.known, d.repeated,
		time.Duration(op.Call).Round(time.Microsecond), until, d.id)
}
