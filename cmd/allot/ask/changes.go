package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

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

func (a *asked) change(ctx context.Context, body map[string]any) error {
	return a.Change(ctx, cli.Request{Method: http.MethodPut, Path: a.request().Path, Body: body})
}

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

// clusterStatus prints the servers of a cluster, and what is wrong with them.
func clusterStatus(a *asked, answer any) error {
	members := list(at(answer, "members"))
	err := a.Say("leader  %s\nterm    %s\nlevel   %s\nstream  led by %s", or("none: commands wait")(at(answer, "leader")),
		field(answer, "term"), field(answer, "level"), or("none")(at(answer, "stream.leader")))
	a.heads(a.columns)
	err = errors.Join(err, a.Say(""), a.section(nil, members))
	for _, member := range members {
		if at(member, "lazy") == true {
			err = errors.Join(err, a.Say("\nNot safe: %s does not sync every write (--lazy-sync).", field(member, "name")))
		}
	}
	err = errors.Join(err, a.peers(at(answer, "stream"), members))
	if problem := field(answer, "problem"); problem != "" {
		err = errors.Join(err, a.Say("\nThis status is incomplete: %s", problem))
	}
	return err
}

// peers tells of the log's servers that lack something of it. Those of an external
// NATS are not called as members are, and none of them is to join.
func (a *asked) peers(peers any, members []any) (err error) {
	member := func(name any) bool {
		return slices.ContainsFunc(members, func(m any) bool { return field(m, "name") == text(name) })
	}
	others := list(at(peers, "others"))
	outside := !member(at(peers, "leader")) && !slices.ContainsFunc(others, func(p any) bool { return member(at(p, "name")) })
	for _, p := range others {
		name, current := field(p, "name"), at(p, "current") == true
		switch {
		case !outside && !member(name) && !current:
			err = a.Say("\nThe log has a place on server %s, which is gone: start one of that name with an empty folder.", name)
		case at(p, "offline") == true:
			err = a.Say("\nThe stream's server %s is away.", name)
		case !current && at(p, "lag") == nil:
			err = a.Say("\nThe stream's server %s has no part of the log yet, or is not heard.", name)
		case !current:
			err = a.Say("\nThe stream's server %s lags by %s messages.", name, text(at(p, "lag")))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	stepDownWait = 15 * time.Second
	stepDownLook = 20 * time.Millisecond
)

// stepDown asks the leader to step down, and waits until another server leads.
func stepDown(ctx context.Context, a *asked) error {
	leads := func() (leader, term string, err error) {
		health, _, err := a.read(ctx, cli.Request{Path: "/healthz"}, "role")
		return field(health, "leader"), field(health, "term"), err
	}
	was, before, err := leads()
	if err != nil {
		return err
	}
	to := a.given["to"]
	wish := map[string]string{}
	if to != "" {
		wish["to"] = to
	}
	if err := a.wish(ctx, wish); err != nil {
		return err
	}
	for limit := time.Now().Add(stepDownWait); time.Now().Before(limit) && ctx.Err() == nil; time.Sleep(stepDownLook) {
		leader, term, err := leads()
		if err != nil || leader == "" || term == before {
			continue
		}
		if leader == was || to != "" && leader != to {
			return fmt.Errorf("%s leads, in term %s, because it was faster: ask again", cli.Clean(leader), cli.Clean(term))
		}
		return a.Say("%s leads, in term %s", leader, term)
	}
	return fmt.Errorf("%s was asked to step down, but no other server leads after %v: see allot cluster status", cli.Clean(was), stepDownWait)
}

func removeMember(ctx context.Context, a *asked) error {
	if err := a.wish(ctx, map[string]string{"name": a.given["name"]}); err != nil {
		return err
	}
	return a.Say("%s is forgotten", a.given["name"])
}

// wish sends a request of an operator. The server answers with the same once it has carried it out.
func (a *asked) wish(ctx context.Context, wish map[string]string) error {
	var done map[string]string
	if _, err := a.ReadJSON(ctx, cli.Request{Method: http.MethodPost, Path: a.path, Body: wish}, &done); err != nil {
		return err
	}
	if done["to"] != wish["to"] || done["name"] != wish["name"] || done == nil {
		return cli.ErrNotAllot
	}
	return nil
}
