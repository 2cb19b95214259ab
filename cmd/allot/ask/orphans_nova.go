package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
)

// known reads the list of consumers that may hold something.
func (c *orphans) known(ctx context.Context) (map[ledger.UUID]bool, error) {
	if strings.HasPrefix(c.Consumers, "http://") || strings.HasPrefix(c.Consumers, "https://") {
		return c.servers(ctx)
	}
	text, err := os.ReadFile(c.Consumers)
	if err != nil {
		return nil, err
	}
	known := make(map[ledger.UUID]bool)
	switch first := bytes.TrimSpace(text); {
	case bytes.HasPrefix(first, []byte("{")):
		_, err = addServers(text, known)
	case bytes.HasPrefix(first, []byte("[")): // as openstack server list prints it
		_, err = addServers(fmt.Appendf(nil, `{"servers":%s}`, text), known)
	default:
		err = addLines(string(text), known)
	}
	if err != nil {
		return nil, fmt.Errorf("--consumers %s: %w", c.Consumers, err)
	}
	return known, nil
}

// addLines adds the uuids in lines. What follows # is a comment.
func addLines(text string, known map[ledger.UUID]bool) error {
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		id, err := ledger.ParseUUID(line)
		if err != nil {
			return fmt.Errorf("line %d: %q is not a uuid", i+1, line)
		}
		known[id] = true
	}
	return nil
}

// servers asks a nova API, page by page.
func (c *orphans) servers(ctx context.Context) (map[ledger.UUID]bool, error) {
	base, err := url.Parse(c.Consumers)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("--consumers %q is neither a file nor http://HOST:PORT/v2.1", c.Consumers)
	}
	known := make(map[ledger.UUID]bool)
	nova := cli.NewClient(&url.URL{Scheme: base.Scheme, Host: base.Host}, c.NovaToken, nil)
	for page := base.JoinPath("servers"); ; {
		query := page.Query()
		query.Set("all_tenants", "1")
		query.Set("limit", "1000")
		text, err := nova.Read(ctx, cli.Request{Path: page.Path, Query: query})
		if err != nil {
			return nil, fmt.Errorf("nova: %w", err)
		}
		link, err := addServers(text, known)
		if err != nil || link == "" {
			return known, err
		}
		next, err := page.Parse(link)
		if err != nil || next.Host != base.Host {
			return nil, fmt.Errorf("nova's link to the next page leads to another server, which gets no token: %q", link)
		}
		page = next
	}
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
	if json.Unmarshal(text, &list) != nil || list.Servers == nil {
		return "", errors.New("this is no list of servers: openstack server list --all-projects -f json prints one")
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
