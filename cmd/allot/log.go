package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/allot-project/allot/ledger"
)

// logCommand is "allot log": it prints records of a running server.
type logCommand struct {
	serverFlags `embed:""`
	From        uint64 `help:"First sequence." default:"1"`
	At          string `help:"Only records up to this sequence or RFC 3339 time."`
	Follow      bool   `short:"f" help:"Go on and print new records as they come."`
	JSON        bool   `name:"json" help:"Print one JSON object per record."`
}

// printedLine is audit.Line as the client decodes it.
type printedLine struct {
	ledger.Address
	Time    time.Time `json:"time"`
	Actor   string    `json:"actor"`
	Command string    `json:"command"`
	Events  []struct {
		Kind string          `json:"kind"`
		Data json.RawMessage `json:"data"`
	} `json:"events"`
	Error string `json:"error"`
}

// maxLineBytes is the size of the longest line that is read, in bytes.
const maxLineBytes = 64 << 20

// Run prints the records.
func (c *logCommand) Run(ctx context.Context) error {
	query := url.Values{"from": {fmt.Sprint(c.From)}, "follow": {fmt.Sprint(c.Follow)}}
	if c.At != "" {
		query.Set("at", c.At)
	}
	resp, err := c.get(ctx, "/audit/records", query)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	err = c.print(resp.Body, os.Stdout)
	if ctx.Err() != nil {
		return nil // the user stopped it
	}
	return err
}

func (c *logCommand) print(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var line printedLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("the server's record cannot be read: %w", err)
		}
		if line.Error != "" {
			return fmt.Errorf("the server stopped: %s", line.Error)
		}
		if c.JSON {
			if _, err := fmt.Fprintf(out, "%s\n", lines.Bytes()); err != nil {
				return err
			}
			continue
		}
		if err := printLine(out, &line); err != nil {
			return err
		}
	}
	return lines.Err()
}

// maxPrintedBytes is the size of the longest event that is printed for people, in
// bytes.
const maxPrintedBytes = 300

func printLine(out io.Writer, line *printedLine) error {
	_, err := fmt.Fprintf(out, "%-8s %s  %-12s %s\n",
		line.Address, line.Time.Format("2006-01-02T15:04:05.000Z"), line.Actor, line.Command)
	for _, event := range line.Events {
		if err == nil {
			_, err = fmt.Fprintf(out, "         %s %s\n", event.Kind, shortened(event.Data))
		}
	}
	return err
}
