// Package members knows the servers of a ledger, its replicas: who is there, what each says
// of itself, and which one may come or begin. The files are: group (who is known, also while it
// is away, questions to all, and the answers), admission (of a replica that lost its log), and
// beginning (of a ledger). It does not know how one of them comes to lead: package leading does.
package members

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/snapshots/copies"
)

// Subjects are the subjects of messages between replicas. No client may publish or listen
// there.
const Subjects = "allot.cluster.>"

// StatusSubject is where a replica asks all for their status.
const StatusSubject = "allot.cluster.status"

// statusWait is how long the others' answers are waited for.
const statusWait = 500 * time.Millisecond

// Group is the replicas of a ledger, as one of them sees them: who is there, and what each
// has said of itself.
type Group struct {
	// Name and Instance identify this replica.
	Name     string
	Instance ledger.UUID
	// Conn leads to the other replicas, with the permission to publish and
	// subscribe on Subjects.
	Conn *nats.Conn
	// Log is the log, and Values are where replicas register.
	Log    *jetstream.Log
	Values *jetstream.Values
	// Forget takes a replica's vote about where streams are; nil: the replicas have none.
	Forget func(ctx context.Context, name string) error
	// Own is what this replica says of itself.
	Own    func() Member
	Logger *slog.Logger
}

// started is when this process became a replica.
var started = time.Now()

func (g *Group) own() Member {
	m := g.Own()
	m.Name, m.Instance, m.Level, m.Since = g.Name, g.Instance, ledger.Level, started.Unix()
	return m
}

// ErrSameName means that two replicas have the same name.
var ErrSameName = errors.New("another replica has this name")

// FindNamesake fails with ErrSameName if there is another replica of this one's name.
func (g *Group) FindNamesake(ctx context.Context) error {
	for _, m := range All(ctx, g.Conn) {
		if m.Name == g.Name && m.Instance != g.Instance {
			return fmt.Errorf("%w: %s", ErrSameName, m.Name)
		}
	}
	return nil
}

// CheckName fails with ErrSameName if a replica of a name is running. This one
// has not started yet.
func CheckName(ctx context.Context, nc *nats.Conn, name string) (err error) {
	hearUntil(ctx, nc, func(m Member) bool {
		if m.Name == name {
			err = fmt.Errorf("%w: %s", ErrSameName, name)
		}
		return err != nil
	})
	return err
}

// Answer answers a message with a value, as JSON.
func Answer(msg *nats.Msg, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return msg.Respond(data)
}

// AnswerStatus sends another replica this one's status.
func (g *Group) AnswerStatus(msg *nats.Msg) {
	if err := Answer(msg, g.own()); err != nil {
		g.Logger.Debug("another replica was not told of this one", "error", err)
	}
}

// ByName asks all replicas for their status.
func (g *Group) ByName(ctx context.Context) map[string]Member { return g.gather(ctx, nil) }

// gather is ByName until all that are known have answered. Others who did before count, too.
func (g *Group) gather(ctx context.Context, known map[string]Member) map[string]Member {
	found, left := make(map[string]Member), len(known)
	hearUntil(ctx, g.Conn, func(m Member) bool {
		if _, before := found[m.Name]; !before {
			if _, expected := known[m.Name]; expected {
				left--
			}
		}
		found[m.Name] = m
		return left == 0 && len(known) > 0
	})
	return found
}

// hearUntil passes on what the replicas answer until that is enough, or a time
// has passed. If none can be asked, none answers.
func hearUntil(ctx context.Context, nc *nats.Conn, enough func(Member) bool) {
	_ = hear(ctx, nc, StatusSubject, func(m Member) bool { return m.Name != "" && enough(m) })
}

// hear asks all servers, and passes on what they answer until that is enough, or a
// time has passed.
func hear[T any](ctx context.Context, nc *nats.Conn, subject string, enough func(T) bool) error {
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil // the rest does not answer now
		}
		var one T
		if json.Unmarshal(msg.Data, &one) == nil && enough(one) {
			return nil
		}
	}
}

// All is what all replicas say of themselves, as far as they answer.
func All(ctx context.Context, conn *nats.Conn) (found []Member) {
	hearUntil(ctx, conn, func(m Member) bool {
		found = append(found, m)
		return false
	})
	return found
}

// TellJoining tells the others of a replica that has not started yet, because it
// is getting State and read models, until stop is called.
func TellJoining(conn *nats.Conn, now func() Member) (stop func(), err error) {
	return tell(conn, StatusSubject, func() any {
		m := now()
		m.Role, m.Level, m.Since = RoleJoining, ledger.Level, started.Unix()
		return m
	})
}

// tell answers what other servers ask on a subject, until stop is called.
func tell(nc *nats.Conn, subject string, now func() any) (stop func(), err error) {
	sub, err := nc.Subscribe(subject, func(msg *nats.Msg) {
		_ = Answer(msg, now()) // a lost answer is asked for again
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nc.Flush() // the connection may be gone
}

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
	answers := g.gather(ctx, known)
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

// Remove forgets a replica that will not come back, so that its level of features no longer
// holds back the others, and its vote is not waited for. If it keeps a stream, it keeps its
// place there.
func (g *Group) Remove(ctx context.Context, name string) error {
	known, err := g.registered(ctx)
	if err != nil {
		return err
	}
	if _, there := known[name]; !there {
		return fmt.Errorf("there is no replica %q; there are %v", name, slices.Sorted(maps.Keys(known)))
	}
	if _, alive := g.gather(ctx, known)[name]; alive {
		return fmt.Errorf("replica %s is running: stop it first", name)
	}
	if err := g.forget(ctx, name); err != nil {
		return err
	}
	return g.Values.Delete(ctx, memberKeys+name)
}

func (g *Group) forget(ctx context.Context, name string) error {
	if g.Forget == nil {
		return nil
	}
	for _, peers := range []func(context.Context) (jetstream.Peers, error){g.Log.Peers, g.Values.Peers} {
		keepers, err := peers(ctx)
		is := func(p jetstream.Peer) bool { return p.Name == name }
		if err != nil || keepers.Leader == name || slices.ContainsFunc(keepers.Others, is) {
			return err
		}
	}
	return g.Forget(ctx, name)
}

// Successor returns the replica that should lead next: of those that may, the one
// that lags least. Empty: there is none.
func (g *Group) Successor(ctx context.Context) string {
	var best Member
	known, _ := g.registered(ctx) // without the bucket it takes the answers that come
	for _, m := range g.gather(ctx, known) {
		if m.Name == g.Name || m.Unfit != "" || m.Role == RoleJoining {
			continue
		}
		if best.Name == "" || m.Sequence > best.Sequence || m.Sequence == best.Sequence && m.Name < best.Name {
			best = m
		}
	}
	return best.Name
}
