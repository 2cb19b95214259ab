package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/allot-project/allot/api/audit"
)

// rejectedCommand is "allot rejected": commands that were rejected, and why.
type rejectedCommand struct {
	serverFlags `embed:""`
	Limit       int    `help:"At most this many, newest first; 1 to 1000." default:"50"`
	Actor       string `help:"Only those of this actor."`
	Command     string `help:"Only this command, such as Reshape."`
	Code        string `help:"Only for this reason, such as capacity_exceeded."`
	Project     string `help:"Only those about this project: of a client that is bound to it, naming it as an owner, or changing what its consumers hold."`
	Consumer    string `help:"Only those that name this consumer or node allocation (uuid)."`
	Provider    string `help:"Only those that name this provider or node (uuid)."`
	Since       string `help:"Only those at or after this RFC 3339 time."`
	Until       string `help:"Only those at or before this RFC 3339 time."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints them.
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

// redecideCommand is "allot redecide": a rejected command, decided again.
type redecideCommand struct {
	serverFlags `embed:""`
	CommandID   string `arg:"" help:"Its command id, as allot rejected prints it."`
	At          string `help:"Against what was so at this sequence or RFC 3339 time, instead of when it was rejected."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints how it is decided.
func (c *redecideCommand) Run(ctx context.Context) error {
	query := url.Values{"command_id": {c.CommandID}, "at": {c.At}}
	return ask(ctx, c.serverFlags, "/audit/redecide", query, c.JSON, func(r *audit.Redecided) error {
		fmt.Printf("%s %s\nat %s it was rejected: %s\n", r.Command, r.Body, r.Place, r.Rejection)
		switch {
		case r.Again == nil:
			fmt.Printf("at %s it would be accepted, with %d events\n", r.Against, len(r.Events))
		case r.Same:
			fmt.Printf("at %s it is rejected for the same reason\n", r.Against)
		default:
			fmt.Printf("at %s it is rejected: %s\n", r.Against, r.Again)
		}
		return nil
	})
}
