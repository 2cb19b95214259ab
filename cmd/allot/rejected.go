package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/allot-project/allot/api/audit"
)

// rejectedCommand is "allot rejected": it prints rejected commands, with the
// reasons.
type rejectedCommand struct {
	serverFlags `embed:""`
	Limit       int    `help:"Print at most this many, newest first; 1 to 1000." default:"50" least:"1"`
	Actor       string `help:"Only commands of this actor."`
	Command     string `help:"Only this command, such as Reshape."`
	Code        string `help:"Only commands rejected with this code, such as capacity_exceeded."`
	Project     string `help:"Only commands about this project: from a client that is bound to it, naming it as an owner, or changing what its consumers hold."`
	Consumer    string `help:"Only commands that name this consumer or node allocation (uuid)."`
	Provider    string `help:"Only commands that name this provider or node (uuid)."`
	Since       string `help:"Only commands at or after this RFC 3339 time."`
	Until       string `help:"Only commands at or before this RFC 3339 time."`
	JSON        bool   `name:"json" help:"Print the answer as JSON."`
}

// Run prints the rejected commands.
func (c *rejectedCommand) Run(ctx context.Context) error {
	query := url.Values{"limit": {fmt.Sprint(c.Limit)}, "actor": {c.Actor}, "command": {c.Command}, "code": {c.Code},
		"project": {c.Project}, "consumer": {c.Consumer}, "provider": {c.Provider}, "since": {c.Since}, "until": {c.Until}}
	return ask(ctx, c.serverFlags, "/audit/rejections", query, c.JSON, func(r *audit.Rejections) error {
		for _, e := range r.Rejections {
			fmt.Printf(
				"%-8s %s  %-12s %-22s %s\n         %s\n", e.Place, e.Time.Format("2006-01-02T15:04:05.000Z"), e.Actor, e.Command,
				e.CommandID, e.Rejection,
			)
		}
		return nil
	})
}
