package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"time"
)

// historyCommand is "allot history": it prints what happened to one entity,
// newest first.
type historyCommand struct {
	serverFlags `embed:""`
	momentFlag  `embed:""`
	Of          string `arg:"" enum:"consumer,provider,project,user,node,node_allocation,chassis,command" help:"Kind of entity: consumer, provider, project, user, node, node_allocation, chassis or command."`
	Name        string `arg:"" help:"Uuid or name of the entity."`
	Limit       int    `help:"Print at most this many entries; 0: all." default:"50"`
	Since       string `help:"Only records at or after this RFC 3339 time."`
	Until       string `help:"Only records at or before this RFC 3339 time."`
	Kind        string `help:"Only records of this command, such as Reshape."`
	JSON        bool   `name:"json" help:"Print one JSON object per entry."`
}

// historyPage is audit.Page as the client decodes it.
type historyPage struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next"`
}

const historyPageSize = 1000

// Run prints the entries, page after page.
func (c *historyCommand) Run(ctx context.Context) error {
	name, err := c.named(ctx, c.Of, c.Name, c.At)
	if err != nil {
		return err
	}
	query := c.in(url.Values{c.Of: {name}})
	for key, value := range map[string]string{"since": c.Since, "until": c.Until, "kind": c.Kind} {
		if value != "" {
			query.Set(key, value)
		}
	}
	for left := c.Limit; c.Limit == 0 || left > 0; {
		size := historyPageSize
		if c.Limit > 0 {
			size = min(size, left)
		}
		query.Set("limit", fmt.Sprint(size))
		page, err := c.page(ctx, query)
		if err != nil {
			return err
		}
		for _, entry := range page.Entries {
			if err := c.print(entry); err != nil {
				return err
			}
		}
		if left -= len(page.Entries); page.Next == "" {
			return nil
		}
		query.Set("before", page.Next)
	}
	return nil
}

func (c *historyCommand) page(ctx context.Context, query url.Values) (*historyPage, error) {
	return fetch[historyPage](ctx, c.serverFlags, "/audit/history", query)
}

func (c *historyCommand) print(raw json.RawMessage) error {
	if c.JSON {
		_, err := fmt.Printf("%s\n", raw)
		return err
	}
	var e struct {
		Address, Actor, Command string
		Time                    time.Time
		RequestID               string `json:"request_id"`
		Before, After           json.RawMessage
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("the server's entry cannot be read: %w", err)
	}
	_, err := fmt.Fprintf(
		os.Stdout, "%-8s %s  %-12s %-22s %s\n", e.Address, e.Time.Format("2006-01-02T15:04:05.000Z"), e.Actor, e.Command,
		e.RequestID,
	)
	if err != nil || c.Of == "user" {
		return err
	}
	changes, err := changesIn(e.Before, e.After)
	if err != nil {
		return fmt.Errorf("the server's entry cannot be read: %w", err)
	}
	for _, change := range changes {
		if _, err = fmt.Printf("         %s\n", change); err != nil {
			return err
		}
	}
	return nil
}

// shortened cuts a text that is too long for a line, and says so.
func shortened(data []byte) string {
	if len(data) <= maxPrintedBytes {
		return string(data)
	}
	return fmt.Sprintf("%s... (%d bytes; --json prints all)", data[:maxPrintedBytes], len(data))
}
