package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/snapshots/copies"
)

// memberKeys begin the keys of members in the bucket.
const memberKeys = "member."

const (
	// registerEvery is the pause until a replica registers once more.
	registerEvery = time.Minute
	// registerAgain is the pause between tries to register.
	registerAgain = 500 * time.Millisecond
	// statusWait is how long the others' answers are waited for.
	statusWait = 500 * time.Millisecond
	// streamsWait is how long the log's stream may take to say who keeps it.
	streamsWait = 2 * time.Second
	// everybody is more answers than there are replicas.
	everybody = 1 << 10
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

// started is when this process became a replica.
var started = time.Now()

// own returns this replica's status.
func (r *Replica) own() Member {
	m := Member{
		Name: r.cfg.Name, Role: RoleFollower, HTTP: r.cfg.HTTP, Copies: r.cfg.Copies, Version: r.cfg.Version,
		Level: ledger.Level, Instance: r.instance, Sequence: r.cfg.Models.Checkpoint().Sequence,
		Since: started.Unix(), Lazy: r.cfg.Lazy,
	}
	if r.leading.Load() != nil {
		m.Role = RoleLeader
	}
	if err := r.notEligible(); err != nil {
		m.Unfit = err.Error()
	}
	m.Whole = r.cfg.Whole == nil || r.cfg.Whole()
	var since time.Duration
	m.LagCommits, since = r.Lag()
	m.LagSeconds = since.Seconds()
	return m
}

// Lag returns how many announced commits this replica has not folded, and since
// when it lacks some.
func (r *Replica) Lag() (commits uint64, since time.Duration) {
	newest := r.view.sequence.Load()
	commits = newest - min(newest, r.cfg.Models.Checkpoint().Sequence)
	return commits, r.behind(commits > 0)
}

// behind returns since when this replica lacks announced commits.
func (r *Replica) behind(lacks bool) time.Duration {
	now := int64(r.clock())
	if !lacks {
		r.lacks.Store(0)
		return 0
	}
	r.lacks.CompareAndSwap(0, now)
	return time.Duration(now - r.lacks.Load())
}

// Role returns this replica's present role.
func (r *Replica) Role() string { return r.own().Role }

// ErrSameName means that two replicas have the same name.
var ErrSameName = errors.New("another replica has this name")

// findNamesake ends this replica if there is another one of its name.
func (r *Replica) findNamesake() {
	for _, m := range r.hear(r.ctx, everybody) {
		if m.Name == r.cfg.Name && m.Instance != r.instance {
			r.fail(fmt.Errorf("%w: %s", ErrSameName, m.Name))
		}
	}
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

// register makes this replica known to the others, and does so again and again: it may
// have been removed while it stood still.
func (r *Replica) register(every time.Duration) {
	for {
		wait := every
		value, err := json.Marshal(r.own())
		if err == nil {
			err = r.cfg.Values.Put(r.ctx, memberKeys+r.cfg.Name, value)
		}
		if err != nil {
			r.cfg.Logger.Debug("this replica is not registered now", "error", err)
			wait = registerAgain
		}
		select {
		case <-time.After(wait):
		case <-r.ctx.Done():
			return
		}
	}
}

// commonLevel returns the newest level of features that all known replicas can
// read.
func (r *Replica) commonLevel(ctx context.Context) (uint64, error) {
	members, err := r.registered(ctx)
	if err != nil {
		// Without the bucket no replica can have joined, so the level in use
		// stays.
		if f := r.leading.Load(); f != nil {
			return f.level.Load(), nil
		}
		return 0, err
	}
	level := uint64(ledger.Level)
	for _, m := range members {
		level = min(level, m.Level)
	}
	return level, nil
}

func (r *Replica) registered(ctx context.Context) (map[string]Member, error) {
	values, err := r.cfg.Values.List(ctx, memberKeys)
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

// answerStatus sends another replica this one's status.
func (r *Replica) answerStatus(msg *nats.Msg) {
	data, err := json.Marshal(r.own())
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		r.cfg.Logger.Debug("another replica was not told of this one", "error", err)
	}
}

// gather asks all replicas for their status.
func (r *Replica) gather(ctx context.Context, want int) map[string]Member {
	found := make(map[string]Member)
	for _, m := range r.hear(ctx, want) {
		found[m.Name] = m
	}
	return found
}

// Others are what the other replicas say of themselves, as far as they answer.
func (r *Replica) Others(ctx context.Context) []Member {
	return slices.DeleteFunc(r.hear(ctx, everybody), func(m Member) bool { return m.Name == r.cfg.Name })
}

// gatherAll is gather until all that are known have answered. Others who did
// before count, too.
func (r *Replica) gatherAll(ctx context.Context, known map[string]Member) map[string]Member {
	found, left := make(map[string]Member), len(known)
	r.hearUntil(ctx, func(m Member) bool {
		if _, before := found[m.Name]; !before {
			if _, expected := known[m.Name]; expected {
				left--
			}
		}
		found[m.Name] = m
		return left == 0
	})
	return found
}

// hear is what the replicas answer, until there are so many answers or a time
// has passed.
func (r *Replica) hear(ctx context.Context, want int) (found []Member) {
	r.hearUntil(ctx, func(m Member) bool {
		found = append(found, m)
		return len(found) >= want
	})
	return found
}

// hearUntil passes on what the replicas answer until that is enough, or a time
// has passed.
func (r *Replica) hearUntil(ctx context.Context, enough func(Member) bool) {
	hearUntil(ctx, r.cfg.Conn, enough)
}

func hearUntil(ctx context.Context, nc *nats.Conn, enough func(Member) bool) {
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := nc.PublishRequest(statusSubject, inbox, nil); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusWait)
	defer cancel()
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return
		}
		var m Member
		if json.Unmarshal(msg.Data, &m) == nil && m.Name != "" && enough(m) {
			return
		}
	}
}

// Members are what all replicas say of themselves, as far as they answer.
func Members(ctx context.Context, conn *nats.Conn) (found []Member) {
	hearUntil(ctx, conn, func(m Member) bool {
		found = append(found, m)
		return false
	})
	return found
}

// TellJoining tells the others of a replica that has not started yet, because it
// is getting State and read models, until stop is called.
func TellJoining(conn *nats.Conn, now func() Member) (stop func(), err error) {
	sub, err := conn.Subscribe(statusSubject, func(msg *nats.Msg) {
		m := now()
		m.Role, m.Level, m.Since = RoleJoining, ledger.Level, started.Unix()
		if data, err := json.Marshal(m); err == nil {
			_ = msg.Respond(data) // a lost answer is asked for again
		}
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, conn.Flush() // the connection may be gone
}

// Status asks all replicas for their status.
func (r *Replica) Status(ctx context.Context) Status {
	var s Status
	known, err := r.registered(ctx)
	if err != nil {
		s.Problem = err.Error()
		known = map[string]Member{r.cfg.Name: r.own()}
	}
	answers := r.gatherAll(ctx, known)
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
	if state, err := r.Fork(ctx); err == nil {
		s.Term, s.Level = state.Term().Number, state.Term().Level
	}
	// A stream without a leader says nothing.
	ctx, cancel := context.WithTimeout(ctx, streamsWait)
	defer cancel()
	if s.Stream, err = r.cfg.Log.Peers(ctx); err != nil {
		s.Problem = cmp.Or(s.Problem, err.Error())
	}
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

// Remove forgets a replica that will not come back, so that its level of features
// no longer holds back the others.
func (r *Replica) Remove(ctx context.Context, name string) error {
	known, err := r.registered(ctx)
	if err != nil {
		return err
	}
	if _, there := known[name]; !there {
		return fmt.Errorf("there is no replica %q; there are %v", name, slices.Sorted(maps.Keys(known)))
	}
	if _, alive := r.gather(ctx, len(known))[name]; alive {
		return fmt.Errorf("replica %s is running: stop it first", name)
	}
	return r.cfg.Values.Delete(ctx, memberKeys+name)
}

// Standing returns this replica's role, the term, and the leader.
func (r *Replica) Standing() (role string, term uint64, leader string) {
	role, term = RoleFollower, r.view.term.Load()
	if r.leading.Load() != nil {
		return RoleLeader, term, r.cfg.Name
	}
	if r.Led() == nil {
		last, _ := r.view.get()
		leader = last.Name
	}
	return role, term, leader
}

// Led returns nil if some replica leads, as far as is known.
func (r *Replica) Led() error {
	if r.leading.Load() != nil {
		return nil
	}
	last, _ := r.view.get()
	if last.Released || r.clock()-time.Duration(r.view.heard.Load()) > r.cfg.Lease/2 {
		return errNoLeader
	}
	return nil
}

// Waits returns nil if a request that arrives now is worth taking although perhaps no
// replica leads: a leader was heard no longer ago than requests wait, so that they
// probably meet a change of leaders, and the next one answers them.
func (r *Replica) Waits() error {
	if heard := r.view.heard.Load(); heard == 0 || r.clock()-time.Duration(heard) > r.cfg.Limit {
		return fmt.Errorf("%w, and none was heard for %v", errNoLeader, r.cfg.Limit)
	}
	return nil
}
