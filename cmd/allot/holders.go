package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// holdersCommand is "allot holders": who holds something of a provider.
type holdersCommand struct {
	serverFlags `embed:""`
	momentFlag  `embed:""`
	Provider    string `arg:"" help:"Uuid or name of a provider, or uuid of a bare metal node."`
	JSON        bool   `name:"json" help:"The answers as JSON, one for each 1000 holders."`
}

// Run prints the holders with their owners.
func (c *holdersCommand) Run(ctx context.Context) error {
	provider, err := c.named(ctx, wire.OfProvider, c.Provider, c.At)
	if err != nil {
		return err
	}
	query := c.in(url.Values{"provider": {provider}})
	for more := true; more; {
		err := ask(ctx, c.serverFlags, "/audit/holders", query, false, func(h *audit.Holders) error {
			more = h.Next != nil
			if more {
				// The pages are of one moment.
				query.Set("after", h.Next.String())
				query.Set("at", fmt.Sprint(h.Sequence))
			}
			if c.JSON {
				return ledger.PlainEncoder(os.Stdout).Encode(h)
			}
			printHolders(h)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func printHolders(h *audit.Holders) {
	fmt.Printf("after sequence %d %d hold something of %s (%s)\n", h.Sequence, len(h.Holders.Holders), h.Provider, h.Name)
	for _, held := range h.Holders.Holders {
		amounts := make([]string, len(held.Allocations))
		for i, a := range held.Allocations {
			amounts[i] = fmt.Sprintf("%s:%d", a.Class, a.Amount)
		}
		fmt.Printf("%s  %-30s project %s, user %s, type %s, since %s\n", held.Consumer, strings.Join(amounts, ", "),
			held.Project, held.User, cmp.Or(held.Type, ledger.UnknownType), held.Since)
	}
	if h.Node != nil && h.Node.Instance != nil {
		fmt.Printf("on the bare metal node runs instance %s\n", h.Node.Instance)
	}
}
