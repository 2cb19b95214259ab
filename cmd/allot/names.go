package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/ledger"
)

// errNothing: what was asked for is not there. The program then ends with 1.
var errNothing = errors.New("nothing found")

// named finds the uuid of what somebody calls by its name: of providers, nodes,
// node allocations and chassis. Others, and uuids, are what they are.
func (s serverFlags) named(ctx context.Context, of, name, at string) (string, error) {
	if _, err := ledger.ParseUUID(name); err == nil || of == "project" || of == "user" || of == "command" {
		return name, nil
	}
	query := url.Values{"q": {name}}
	if at != "" {
		query.Set("at", at)
	}
	text, err := s.readJSON(ctx, "/audit/find", query)
	if err != nil {
		return "", err
	}
	var answer audit.Found
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("the server sent something else than an answer: %w", err)
	}
	for _, one := range answer.Found {
		if one.Of == of {
			return one.Name, nil
		}
	}
	return "", fmt.Errorf("%w: no %s has the uuid or the name %q", errNothing, of, name)
}
