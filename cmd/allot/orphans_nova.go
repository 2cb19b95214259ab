package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// known reads the list of consumers that may hold something.
func (c *orphansCommand) known(ctx context.Context) (map[ledger.UUID]bool, error) {
	if strings.HasPrefix(c.Consumers, "http://") || strings.HasPrefix(c.Consumers, "https://") {
		return c.servers(ctx, c.Consumers)
	}
	text, err := os.ReadFile(c.Consumers)
	if err != nil {
		return nil, err
	}
	known := make(map[ledger.UUID]bool)
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		_, err := addServers(text, known)
		return known, err
	}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		id, err := ledger.ParseUUID(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %q is not a uuid", c.Consumers, i+1, line)
		}
		known[id] = true
	}
	return known, nil
}

// servers asks a nova API, page by page.
func (c *orphansCommand) servers(ctx context.Context, base string) (map[ledger.UUID]bool, error) {
	known := make(map[ledger.UUID]bool)
	first, err := url.Parse(strings.TrimRight(base, "/") + "/servers?all_tenants=1&limit=1000")
	if err != nil {
		return nil, err
	}
	for target := first; target != nil; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Auth-Token", c.NovaToken)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, fmt.Errorf("nova: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
		_ = resp.Body.Close() // nothing was written
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("nova answered %s to %s", resp.Status, target.Redacted()), err)
		}
		next, err := addServers(text, known)
		if err != nil || next == "" {
			return known, err
		}
		reference, err := url.Parse(next)
		if err != nil {
			return nil, fmt.Errorf("nova: %w", err)
		}
		if target = first.ResolveReference(reference); target.Host != first.Host {
			return nil, fmt.Errorf("nova's link to the next page leads to another host: %s", target.Host) // the token must not go there
		}
	}
	return known, nil
}

// addServers adds the servers in a page of nova's list. It returns the link to
// the next page.
func addServers(text []byte, known map[ledger.UUID]bool) (next string, err error) {
	var list struct {
		Servers *[]struct {
			ID string `json:"id"`
		} `json:"servers"`
		Links []struct{ Rel, Href string } `json:"servers_links"`
	}
	if err := json.Unmarshal(text, &list); err != nil || list.Servers == nil {
		return "", errors.Join(errors.New("the answer is no list of servers"), err)
	}
	for _, s := range *list.Servers {
		id, err := ledger.ParseUUID(s.ID)
		if err != nil {
			return "", fmt.Errorf("server %q has no uuid", s.ID)
		}
		known[id] = true
	}
	for _, link := range list.Links {
		if link.Rel == "next" {
			next = link.Href
		}
	}
	return next, nil
}
