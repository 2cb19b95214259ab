package members

import (
	"cmp"
	"context"
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/snapshots/copies"
)

// Roles of a member.
const (
	RoleLeader   = "leader"
	RoleFollower = "follower"
	RoleJoining  = "joining" // it gets State and read models, and does not answer clients yet
	RoleAway     = "away"    // it does not answer
)

// Member is one replica in a status.
type Member struct {
	Name     string      `json:"name"`
	Role     string      `json:"role"`
	HTTP     string      `json:"http"`
	Copies   string      `json:"copies,omitempty"` // HOST:PORT where it gives copies of State and read models
	Version  string      `json:"version"`
	Level    uint64      `json:"level"` // level of features that it knows
	Instance ledger.UUID `json:"instance"`
	// Sequence is the sequence up to which it has folded the log, and LagCommits
	// how many commits that is behind the newest.
	Sequence   uint64 `json:"sequence"`
	LagCommits uint64 `json:"lag_commits"`
	// LagSeconds is how long ago it had folded everything that it knew of.
	LagSeconds float64 `json:"lag_seconds"`
	// Whole means that its NATS server holds all of the log, as far as it knows.
	Whole bool `json:"whole"`
	// Unfit is the reason why it should not lead; empty: it may.
	Unfit string `json:"unfit,omitempty"`
	// Lazy: it acknowledges what is not on its disk yet.
	Lazy bool `json:"lazy,omitempty"`
	// Joining is how far a copy of State and read models has come that it fetches.
	Joining *copies.Progress `json:"joining,omitempty"`
	// Since is when it started; Unix seconds.
	Since int64 `json:"since"`
}

// Status is the state of a cluster.
type Status struct {
	Leader  string          `json:"leader"` // empty: no replica leads
	Term    uint64          `json:"term"`
	Level   uint64          `json:"level"` // level of features in use
	Members []Member        `json:"members"`
	Stream  jetstream.Peers `json:"stream"` // the servers that keep the log
	// Problem says why a part of the status is missing.
	Problem string `json:"problem,omitempty"`
}

// Status asks all replicas for their status. What the log says is missing from it.
func (g *Group) Status(ctx context.Context) Status {
	var s Status
	known, err := g.registered(ctx)
	if err != nil {
		s.Problem = err.Error()
		known = map[string]Member{g.Name: g.own()}
	}
	answers := g.gatherAll(ctx, known)
	for name, m := range known {
		m.Role = RoleAway
		if now, there := answers[name]; there {
			m = now
		}
		if m.Role == RoleLeader {
			s.Leader = m.Name
		}
		s.Members = append(s.Members, m)
	}
	for name, m := range answers {
		if _, there := known[name]; !there {
			s.Members = append(s.Members, m)
		}
	}
	s.lags()
	slices.SortFunc(s.Members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// lags compares all members with the one that has come farthest.
func (s *Status) lags() {
	var newest uint64
	for _, m := range s.Members {
		newest = max(newest, m.Sequence)
	}
	for i := range s.Members {
		s.Members[i].LagCommits = newest - s.Members[i].Sequence
	}
}
