package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/wire"
)

// seriesCommand is "allot series": it prints usage over time.
type seriesCommand struct {
	serverFlags `embed:""`
	Of          string `arg:"" enum:"provider,project" help:"provider or project."`
	Name        string `arg:"" help:"Uuid or name of the provider, or id of the project."`
	Since       string `help:"From this RFC 3339 time on; default: a day before the end."`
	Until       string `help:"Up to this RFC 3339 time; default: now."`
	Points      int    `help:"Number of moments, 1 to 500." default:"24" least:"1"`
	CSV         bool   `name:"csv" help:"Print comma-separated values." xor:"form"`
	JSON        bool   `name:"json" help:"Print the answer as JSON." xor:"form"`
}

// Run prints a line for each moment.
func (c *seriesCommand) Run(ctx context.Context) error {
	name, err := c.named(ctx, c.Of, c.Name, "")
	if err != nil {
		return err
	}
	query := url.Values{
		c.Of: {name}, "since": {c.Since}, "until": {c.Until}, "points": {strconv.Itoa(c.Points)},
	}
	return ask(ctx, c.serverFlags, "/audit/series", query, c.JSON, func(s *audit.Series) error {
		classes := classesOf(s)
		if len(classes) == 0 {
			return fmt.Errorf("%w: %s %s used nothing then", errNothing, c.Of, c.Name)
		}
		rows := [][]string{{"time", "sequence"}}
		for _, class := range classes {
			rows[0] = append(rows[0], class)
			if c.Of == wire.OfProvider {
				rows[0] = append(rows[0], class+" capacity")
			}
		}
		for _, point := range s.Points {
			row := []string{point.Time.Format(time.RFC3339), strconv.FormatUint(point.Sequence, 10)}
			for _, class := range classes {
				row = append(row, strconv.FormatInt(point.Used[class], 10))
				if c.Of == wire.OfProvider {
					row = append(row, strconv.FormatInt(point.Capacity[class], 10))
				}
			}
			rows = append(rows, row)
		}
		return c.print(rows)
	})
}

func classesOf(s *audit.Series) []string {
	classes := make(map[string]bool)
	for _, point := range s.Points {
		for class := range point.Used {
			classes[class] = true
		}
		for class := range point.Capacity {
			classes[class] = true
		}
	}
	return slices.Sorted(maps.Keys(classes))
}

func (c *seriesCommand) print(rows [][]string) error {
	if c.CSV {
		return csv.NewWriter(os.Stdout).WriteAll(rows)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		for _, cell := range row {
			if _, err := fmt.Fprint(table, cell, "\t"); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(table); err != nil {
			return err
		}
	}
	return table.Flush()
}
