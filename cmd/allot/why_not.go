package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/allot-project/allot/projector/candidates"
)

// whyNotCommand is "allot why-not": it explains why a request has no candidates.
type whyNotCommand struct {
	serverFlags `embed:""`
	momentFlag  `embed:""`
	Candidates  string `help:"Query of Placement's GET /allocation_candidates, such as 'resources=VCPU:1&required=CUSTOM_GOLD'." required:"" placeholder:"QUERY"`
	JSON        bool   `name:"json" help:"Print the answer as JSON."`
}

// Run prints how many providers each filter left.
func (c *whyNotCommand) Run(ctx context.Context) error {
	query, err := url.ParseQuery(c.Candidates)
	if err != nil {
		return fmt.Errorf("--candidates: %w", err)
	}
	query.Set("explain", "true")
	type answer struct {
		Requests    []json.RawMessage       `json:"allocation_requests"`
		Explanation *candidates.Explanation `json:"explanation"`
	}
	c.microversion = "placement 1.39"
	return ask(ctx, c.serverFlags, "/allocation_candidates", c.in(query), c.JSON, func(a *answer) error {
		if a.Explanation == nil {
			return errors.New("the server's answer has no explanation: it may be of an older release")
		}
		var table strings.Builder
		for _, g := range a.Explanation.Groups {
			fmt.Fprintf(&table, "providers for group %q %s\n", g.Suffix, g.Class)
			addSteps(&table, g.Steps)
		}
		table.WriteString("trees\n")
		addSteps(&table, a.Explanation.Trees)
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		_, err := io.WriteString(out, table.String())
		if err = errors.Join(err, out.Flush()); err != nil {
			return err
		}
		if a.Explanation.RemovedLast == "" {
			fmt.Printf("\nthere are candidates (%d in this answer)\n", len(a.Requests))
			return nil
		}
		fmt.Printf("\nnothing was left after: %s\n", a.Explanation.RemovedLast)
		return nil
	})
}

func addSteps(out *strings.Builder, steps []candidates.Step) {
	for _, step := range steps {
		fmt.Fprintf(out, "  %s\t%d\n", step.Filter, step.Left)
	}
}
