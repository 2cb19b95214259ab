package ask

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/allot-project/allot/cmd/internal/cli"
)

// setTopology declares a topology that is in a file.
func setTopology(ctx context.Context, a *asked) error {
	var body map[string]any
	if err := readFile(a.given["file"], &body); err != nil {
		return err
	}
	return a.change(ctx, body)
}

// removeTopology reads it first: a server that is the wrong one says so of that alone.
func removeTopology(ctx context.Context, a *asked) error {
	if _, _, err := a.read(ctx, a.request(), "levels"); err != nil {
		return err
	}
	return a.Change(ctx, cli.Request{Method: http.MethodDelete, Path: a.request().Path})
}

// change sends a change.
func (a *asked) change(ctx context.Context, body map[string]any) error {
	return a.Change(ctx, cli.Request{Method: http.MethodPut, Path: a.request().Path, Body: body})
}

// setLimit sets a limit, or removes it.
func setLimit(ctx context.Context, a *asked) error {
	body := make(map[string]any)
	for name, value := range a.given {
		body[name] = value
	}
	body["limit"] = a.flags.(*limitsSet).Most
	return a.change(ctx, body)
}

// setTo sets a member to a parameter, or to null if it was not given.
func setTo(member, parameter string) func(context.Context, *asked) error {
	return func(ctx context.Context, a *asked) error {
		body := map[string]any{member: nil}
		if value := a.given[parameter]; value != "" {
			body[member] = value
		}
		return a.change(ctx, body)
	}
}

// setPreference gives a preference a name.
func setPreference(ctx context.Context, a *asked) error {
	prefer := a.given["prefer"]
	if !json.Valid([]byte(prefer)) {
		return fmt.Errorf("%q is not JSON: give what a claim's prefer is, such as '{\"order\":\"pack\"}'", prefer)
	}
	return a.change(ctx, map[string]any{"prefer": json.RawMessage(prefer)})
}

// setCounters sets the counters of a provider as it is now.
func setCounters(ctx context.Context, a *asked) error {
	body := make(map[string]any)
	if err := json.Unmarshal([]byte(a.given["as"]), &body); err != nil {
		return fmt.Errorf("%q is no object in JSON: give counters and draws, such as '{\"counters\":{\"COMPUTE_SLICE\":7}}'", a.given["as"])
	}
	delete(a.given, "as")
	if _, given := body["resource_provider_generation"]; !given {
		now, _, err := a.read(ctx, a.request(), "resource_provider_generation")
		if err != nil {
			return err
		}
		body["resource_provider_generation"] = at(now, "resource_provider_generation")
	}
	return a.change(ctx, body)
}
