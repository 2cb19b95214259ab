package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/ledger"
)

// errNothing means that the named entity does not exist. The program then exits
// with 1.
var errNothing = errors.New("nothing found")

// named finds the uuid for a name of a provider, node, node allocation or
// chassis. It returns uuids, and ids of other kinds, unchanged.
func (s serverFlags) named(ctx context.Context, of, name, at string) (string, error) {
	if _, err := ledger.ParseUUID(name); err == nil || of == "project" || of == "user" || of == "command" {
		return name, nil
	}
	query := url.Values{"q": {name}}
	if at != "" {
		query.Set("at", at)
	}
	answer, err := fetch[audit.Found](ctx, s, "/audit/find", query)
	if err != nil {
		return "", err
	}
	for _, one := range answer.Found {
		if one.Of == of {
			return one.Name, nil
		}
	}
	return "", fmt.Errorf("%w: no %s has the uuid or the name %q", errNothing, of, name)
}
