package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// claimsCommand is "allot claims".
type claimsCommand struct {
	List   claimsListCommand   `cmd:"" help:"Print the claims that wait."`
	Show   claimsShowCommand   `cmd:"" help:"Print a claim that waits, or what became of one that has waited."`
	Cancel claimsCancelCommand `cmd:"" help:"End the waiting of a claim."`
}

// claimsListCommand is "allot claims list".
type claimsListCommand struct {
	serverFlags
	Project string `help:"Those of one project." placeholder:"PROJECT"`
	At      string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints a line per claim, page by page.
func (c *claimsListCommand) Run(ctx context.Context) error {
	query := url.Values{"at": {c.At}}
	if c.Project != "" {
		query.Set("project_id", c.Project)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	if _, err := fmt.Fprintln(table, "CLAIM\tPROJECT\tPRIORITY\tSINCE\tUNTIL"); err != nil {
		return err
	}
	for more := true; more; {
		err := ask(ctx, c.serverFlags, "/claims/waiting", query, false, func(page *wire.WaitingClaims) error {
			for _, w := range page.Claims {
				_, err := fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\n", w.Claim, w.Project, w.Priority, w.Since, w.Until)
				if err != nil {
					return err
				}
			}
			if more = page.Next != nil; more {
				query.Set("after", page.Next.String())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return table.Flush()
}

// claimsShowCommand is "allot claims show".
type claimsShowCommand struct {
	serverFlags
	Claim string `arg:"" help:"Id of the claim's command."`
	At    string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints the claim as JSON.
func (c *claimsShowCommand) Run(ctx context.Context) error {
	path := "/claims/waiting/" + url.PathEscape(c.Claim)
	return ask(ctx, c.serverFlags, path, url.Values{"at": {c.At}}, false, func(one *wire.WaitingClaim) error {
		out := ledger.PlainEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(one)
	})
}

// claimsCancelCommand is "allot claims cancel".
type claimsCancelCommand struct {
	serverFlags
	Claim string `arg:"" help:"Id of the claim's command."`
}

// Run ends the waiting.
func (c *claimsCancelCommand) Run(ctx context.Context) error {
	resp, err := c.send(ctx, http.MethodDelete, "/claims/waiting/"+url.PathEscape(c.Claim), nil, nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
