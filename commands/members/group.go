// Package members knows the servers of a ledger, its replicas: who is there, what each says
// of itself, and which one may come or begin. The files are: group (questions to all, and the
// answers), status (what is answered), registration (who is known, also while it is away),
// admission (of a replica that lost its log), and beginning (of a ledger). It does not know
// how one of them comes to lead: package leading does.
package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
)

// Subjects are the subjects of messages between replicas. No client may publish or listen
// there.
const Subjects = "allot.cluster.>"

// StatusSubject is where a replica asks all for their status.
const StatusSubject = "allot.cluster.status"

const (
	// statusWait is how long the others' answers are waited for.
	statusWait = 500 * time.Millisecond
	// everybody is more answers than there are replicas.
	everybody = 1 << 10
)

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
	// Own is what this replica says of itself.
	Own    func() Member
	Logger *slog.Logger
}

// started is when this process became a replica.
var started = time.Now()

// own returns this replica's status.
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

// AnswerStatus sends another replica this one's status.
func (g *Group) AnswerStatus(msg *nats.Msg) {
	data, err := json.Marshal(g.own())
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		g.Logger.Debug("another replica was not told of this one", "error", err)
	}
}

// ByName asks all replicas for their status.
func (g *Group) ByName(ctx context.Context) map[string]Member { return g.gather(ctx, everybody) }

// gather waits until there are so many answers, or a time has passed.
func (g *Group) gather(ctx context.Context, want int) map[string]Member {
	found, answers := make(map[string]Member), 0
	hearUntil(ctx, g.Conn, func(m Member) bool {
		found[m.Name] = m
		answers++
		return answers >= want
	})
	return found
}

// gatherAll is gather until all that are known have answered. Others who did
// before count, too.
func (g *Group) gatherAll(ctx context.Context, known map[string]Member) map[string]Member {
	found, left := make(map[string]Member), len(known)
	hearUntil(ctx, g.Conn, func(m Member) bool {
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

// hearUntil passes on what the replicas answer until that is enough, or a time
// has passed.
func hearUntil(ctx context.Context, nc *nats.Conn, enough func(Member) bool) {
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := nc.PublishRequest(StatusSubject, inbox, nil); err != nil {
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
	sub, err := conn.Subscribe(StatusSubject, func(msg *nats.Msg) {
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
