package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/allot-project/allot/ledger"
)

// logCommand is "allot log": it asks a running server.
type logCommand struct {
	HTTP   string `name:"http" help:"HOST:PORT of the server." default:"127.0.0.1:8778"`
	Token  string `help:"Token that is sent as X-Auth-Token." default:"admin"`
	From   uint64 `help:"First sequence." default:"1"`
	Follow bool   `short:"f" help:"Go on printing records as they come."`
	JSON   bool   `name:"json" help:"One JSON object per record."`
}

// printedLine is audit.Line as it arrives.
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

// maxLineBytes bounds one record's line.
const maxLineBytes = 64 << 20

// Run prints the records.
func (c *logCommand) Run(ctx context.Context) error {
	target := url.URL{Scheme: "http", Host: c.HTTP, Path: "/audit/records", RawQuery: url.Values{
		"from": {fmt.Sprint(c.From)}, "follow": {fmt.Sprint(c.Follow)},
	}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Auth-Token", c.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no server answers at %s: %w", c.HTTP, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("the server answered %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	err = c.print(resp.Body, os.Stdout)
	if ctx.Err() != nil {
		return nil // stopped by the user
	}
	return err
}

func (c *logCommand) print(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var line printedLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("the server sent something else than a record: %w", err)
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

// maxPrintedBytes bounds an event in the form for people.
const maxPrintedBytes = 300

func printLine(out io.Writer, line *printedLine) error {
	_, err := fmt.Fprintf(out, "%-8s %s  %-12s %s\n",
		line.Address, line.Time.Format("2006-01-02T15:04:05.000Z"), line.Actor, line.Command)
	for _, event := range line.Events {
		data := event.Data
		more := ""
		if len(data) > maxPrintedBytes {
			data, more = data[:maxPrintedBytes], fmt.Sprintf("... (%d bytes; --json prints all)", len(event.Data))
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "         %s %s%s\n", event.Kind, data, more)
		}
	}
	return err
}
