package members

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/allot-project/allot/ledger"
)

// memberKeys begin the keys of members in the bucket.
const memberKeys = "member."

const (
	// RegisterEvery is the pause until a replica registers once more.
	RegisterEvery = time.Minute
	// registerAgain is the pause between tries to register.
	registerAgain = 500 * time.Millisecond
)

// Register makes this replica known to the others, and does so again and again: it may
// have been removed while it stood still.
func (g *Group) Register(ctx context.Context, every time.Duration) {
	for {
		wait := every
		value, err := json.Marshal(g.own())
		if err == nil {
			err = g.Values.Put(ctx, memberKeys+g.Name, value)
		}
		if err != nil {
			g.Logger.Debug("this replica is not registered now", "error", err)
			wait = registerAgain
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// CommonLevel returns the newest level of features that all known replicas can read.
func (g *Group) CommonLevel(ctx context.Context) (uint64, error) {
	members, err := g.registered(ctx)
	if err != nil {
		return 0, err
	}
	level := uint64(ledger.Level)
	for _, m := range members {
		level = min(level, m.Level)
	}
	return level, nil
}

func (g *Group) registered(ctx context.Context) (map[string]Member, error) {
	values, err := g.Values.List(ctx, memberKeys)
	if err != nil {
		return nil, err
	}
	members := make(map[string]Member, len(values))
	for name, value := range values {
		var m Member
		if err := json.Unmarshal(value, &m); err != nil {
			return nil, fmt.Errorf("cluster: the entry of member %s: %w", name, err)
		}
		members[name] = m
	}
	return members, nil
}

// Remove forgets a replica that will not come back, so that its level of features
// no longer holds back the others.
func (g *Group) Remove(ctx context.Context, name string) error {
	known, err := g.registered(ctx)
	if err != nil {
		return err
	}
	if _, there := known[name]; !there {
		return fmt.Errorf("there is no replica %q; there are %v", name, slices.Sorted(maps.Keys(known)))
	}
	if _, alive := g.gather(ctx, len(known))[name]; alive {
		return fmt.Errorf("replica %s is running: stop it first", name)
	}
	return g.Values.Delete(ctx, memberKeys+name)
}

// Successor returns the replica that should lead next: of those that may, the one
// that lags least. Empty: there is none.
func (g *Group) Successor(ctx context.Context) string {
	var best Member
	known, err := g.registered(ctx)
	want := len(known)
	if err != nil {
		want = everybody
	}
	for _, m := range g.gather(ctx, want) {
		if m.Name == g.Name || m.Unfit != "" || m.Role == RoleJoining {
			continue
		}
		if best.Name == "" || m.Sequence > best.Sequence || m.Sequence == best.Sequence && m.Name < best.Name {
			best = m
		}
	}
	return best.Name
}
