package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/wire"
)

// whyCommand is "allot why": the records behind what a consumer holds.
type whyCommand struct {
	serverFlags `embed:""`
	momentFlag  `embed:""`
	Of          string `arg:"" enum:"consumer" help:"The word consumer."`
	Consumer    string `arg:"" help:"Its uuid."`
	On          string `arg:"" enum:"provider" help:"The word provider."`
	Provider    string `arg:"" help:"Its uuid or name."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints the records, newest first.
func (c *whyCommand) Run(ctx context.Context) error {
	provider, err := c.named(ctx, wire.OfProvider, c.Provider, c.At)
	if err != nil {
		return err
	}
	query := c.in(url.Values{"consumer": {c.Consumer}, "provider": {provider}})
	return ask(ctx, c.serverFlags, "/audit/why", query, c.JSON, func(w *audit.Why) error {
		fmt.Printf(
			"after sequence %d consumer %s holds %s of provider %s\n\n", w.Sequence, w.Consumer, amounts(w.Holds), w.Provider,
		)
		for _, change := range w.Changes {
			printEntry(&change.HistoryEntry)
			fmt.Printf("         %s, before: %s\n", amounts(change.After), amounts(change.Before))
		}
		if len(w.Inventories) > 0 {
			fmt.Print("\nits inventories are so because of\n\n")
		}
		for _, change := range w.Inventories {
			printEntry(&change.HistoryEntry)
			fmt.Printf("         %s: %s, before: %s\n", change.Class, inventory(change.After), inventory(change.Before))
		}
		if w.Incomplete {
			fmt.Println("\nthere is more than one answer looks at; allot history has it all")
		}
		return nil
	})
}

func printEntry(e *wire.HistoryEntry) {
	fmt.Printf("%-8s %s  %-12s %-22s %s\n", e.Address, e.Time, e.Actor, e.Command, e.RequestID)
}

func amounts(held map[string]int64) string {
	if len(held) == 0 {
		return "nothing"
	}
	var list []string
	for class, amount := range held {
		list = append(list, fmt.Sprintf("%s:%d", class, amount))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func inventory(i *wire.Inventory) string {
	if i == nil {
		return "none"
	}
	return fmt.Sprintf(
		"total %d, reserved %d, allocation ratio %g, units %d to %d by %d", i.Total, i.Reserved, i.Ratio, i.MinUnit,
		i.MaxUnit, i.StepSize,
	)
}
