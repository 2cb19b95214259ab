package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/allot-project/allot/ledger"
)

// serverFlags say which running server a command asks.
type serverFlags struct {
	HTTP   string `name:"http" help:"HOST:PORT of the server." default:"127.0.0.1:8778"`
	HTTPS  bool   `name:"https" help:"The server speaks TLS."`
	CAFile string `name:"ca-file" help:"Certificates to trust instead of the system's; the server speaks TLS." type:"existingfile" placeholder:"FILE"`
	Token  string `help:"Token that is sent as X-Auth-Token." default:"admin"`

	microversion string // of Placement's API, if it is asked
}

// client speaks plain HTTP or TLS.
func (s serverFlags) client() (scheme string, c *http.Client, err error) {
	if !s.HTTPS && s.CAFile == "" {
		return "http", http.DefaultClient, nil
	}
	if s.CAFile == "" {
		return "https", http.DefaultClient, nil
	}
	pool, err := trusted(s.CAFile)
	if err != nil {
		return "", nil, fmt.Errorf("--ca-file %s: %w", s.CAFile, err)
	}
	return "https", &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, nil
}

// get asks the server; the caller closes the answer's body.
func (s serverFlags) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	return s.send(ctx, http.MethodGet, path, query, nil)
}

// send sends a request with a body that becomes JSON, or without one (nil);
// the caller closes the answer's body.
func (s serverFlags) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	scheme, client, err := s.client()
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		text, err := ledger.PlainJSON(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := url.URL{Scheme: scheme, Host: s.HTTP, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Auth-Token", s.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.microversion != "" {
		req.Header.Set("OpenStack-API-Version", s.microversion)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no server answers at %s: %w", s.HTTP, err)
	}
	if resp.StatusCode/100 != 2 {
		defer func() { _ = resp.Body.Close() }()               // nothing was written
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the status says enough
		return nil, fmt.Errorf("the server answered %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return resp, nil
}

// historyCommand is "allot history": what happened to one thing, newest first.
type historyCommand struct {
	serverFlags `embed:""`
	Of          string `arg:"" enum:"consumer,provider,project,user,node,node_allocation,chassis,command" help:"consumer, provider, project, user, node, node_allocation, chassis or command."`
	Name        string `arg:"" help:"Its uuid or name."`
	Limit       int    `help:"Print at most this many entries; 0: all." default:"50"`
	Since       string `help:"Only what happened at or after this RFC 3339 time."`
	Until       string `help:"Only what happened at or before this RFC 3339 time."`
	Kind        string `help:"Only records of this command, such as Reshape."`
	At          string `help:"As of this sequence or RFC 3339 time."`
	JSON        bool   `name:"json" help:"One JSON object per entry."`
}

// historyPage is audit.Page as it arrives.
type historyPage struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next"`
}

const historyPageSize = 1000

// Run prints the entries, page after page.
func (c *historyCommand) Run(ctx context.Context) error {
	query := url.Values{c.Of: {c.Name}}
	for key, value := range map[string]string{"since": c.Since, "until": c.Until, "kind": c.Kind, "at": c.At} {
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
	resp, err := c.get(ctx, "/audit/history", query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	var page historyPage
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return nil, fmt.Errorf("the server sent something else than a history: %w", err)
	}
	return &page, nil
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
		return fmt.Errorf("the server sent something else than an entry: %w", err)
	}
	_, err := fmt.Fprintf(os.Stdout, "%-8s %s  %-12s %-22s %s\n", e.Address, e.Time.Format("2006-01-02T15:04:05.000Z"), e.Actor, e.Command, e.RequestID)
	if err != nil || c.Of == "user" {
		return err
	}
	changes, err := changesIn(e.Before, e.After)
	if err != nil {
		return fmt.Errorf("the server sent something else than an entry: %w", err)
	}
	for _, change := range changes {
		if _, err = fmt.Printf("         %s\n", change); err != nil {
			return err
		}
	}
	return nil
}

// shortened cuts what is too long for a line, and says so.
func shortened(data []byte) string {
	if len(data) <= maxPrintedBytes {
		return string(data)
	}
	return fmt.Sprintf("%s... (%d bytes; --json prints all)", data[:maxPrintedBytes], len(data))
}
