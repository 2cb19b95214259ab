package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/jetstream"
)

// A replica that has lost its part of the log has also forgotten what it
// promised: that a commit is safe, and whom it has voted for. Two of three make
// a quorum. If it voted as it is, it and one that lags could elect a leader that
// lacks what the third had acknowledged together with the lost disk. So it
// begins with JetStream off, where it can neither vote nor acknowledge, and asks
// whoever leads for leave to turn it on. The leave says that all other servers
// hold all that was committed. No acknowledged commit can be lost then:
//
//  1. The leader L of a stream gives the figures. Every other server but the one
//     that asks, O, has answered L, as its leader, after O had come up without
//     JetStream (Peer.Active is less than the time that O has waited). Whoever
//     might have been elected with the vote of the lost disk needed another vote
//     as well, L's or that of one who answered, which would then be of a later
//     term and not answer L. So L is the leader, and not one that was deposed.
//  2. From then on until it has leave O takes part in nothing, so that what is
//     committed is on the disks of the others. They lag by nothing, and each says
//     itself that it is not catching up. So all of them hold all of it.
//  3. With leave O is a voter like any that is new. It acknowledges what it has
//     stored, and keeps that. Who wins an election with its vote alone is one of
//     the others, who holds what was committed before the leave; what was
//     committed after it is on a majority of disks that none forgot.
//  4. If a second disk is lost meanwhile, its server gets no leave until O is
//     current, and cannot vote.
//
// This holds for each stream for itself, so that it is asked of the log's and of
// the bucket's.

// leaveSubject is where a replica asks for leave.
const leaveSubject = "allot.cluster.leave"

const (
	// askAgain lies between questions.
	askAgain = 200 * time.Millisecond
)

// leave is the question, and the answer to it.
type leave struct {
	Name string `json:"name"`
	// Waited is for how long the one who asks has been without JetStream.
	Waited time.Duration `json:"waited,omitempty"`
	// Why there is no leave; empty: there is.
	Why string `json:"why,omitempty"`
}

// errNoLeave: there is no leave yet.
var errNoLeave = errors.New("no leave yet")

// AwaitLeave returns when a replica that has no log may turn JetStream on, or
// when the context ends, or it is in vain. The connection is over a NATS server
// without JetStream.
func AwaitLeave(ctx context.Context, nc *nats.Conn, name string, w Waiting) error {
	began := sinceBoot()
	for {
		why, err := askLeave(ctx, nc, leave{Name: name, Waited: sinceBoot() - began})
		if err == nil {
			return nil
		}
		if err := w.Check(); err != nil {
			return err
		}
		w.Tell(why)
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return fmt.Errorf("told to stop while waiting for leave to take part: %w", ctx.Err())
		}
	}
}

// askLeave asks everybody: the one who leads answers, or the one who is told to
// begin the ledger and has no log yet.
func askLeave(ctx context.Context, nc *nats.Conn, question leave) (why string, err error) {
	data, err := json.Marshal(question)
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*statusWait)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, leaveSubject, data)
	if err != nil {
		return "no replica leads that could be asked", err
	}
	var answer leave
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return "an answer that cannot be read", err
	}
	if answer.Why != "" {
		return answer.Why, errNoLeave
	}
	return "", nil
}

// GiveLeave gives leave to everybody, for the one who is to begin the ledger:
// while nothing is committed nothing can be lost. The connection must be closed
// before that one begins it, which the others wait for.
func GiveLeave(nc *nats.Conn) error {
	_, err := nc.Subscribe(leaveSubject, func(msg *nats.Msg) {
		_ = msg.Respond([]byte("{}")) // whoever asks does so again
	})
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	return nc.Flush()
}

// answerLeave gives leave, or says why not. It asks others, and holds up no
// command meanwhile.
func (t *Term) answerLeave(msg *nats.Msg) {
	t.r.ended.Go(func() {
		var answer leave
		if err := t.mayJoin(msg.Data); err != nil {
			answer.Why = err.Error()
		}
		data, err := json.Marshal(answer)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			t.r.cfg.Logger.Warn("a replica that asked for leave was not answered", "error", err)
		}
	})
}

func (t *Term) mayJoin(data []byte) error {
	var question leave
	if err := json.Unmarshal(data, &question); err != nil {
		return fmt.Errorf("a question that cannot be read: %w", err)
	}
	if question.Name == t.r.cfg.Name {
		return fmt.Errorf("the replica that leads is called %s, too", question.Name)
	}
	ctx, cancel := context.WithTimeout(t.r.ctx, t.length)
	defer cancel()
	whole := t.r.gather(ctx, everybody)
	for _, stream := range []struct {
		name  string
		peers func(context.Context) (jetstream.Peers, error)
	}{{"the log", t.r.cfg.Log.Peers}, {"the bucket " + jetstream.ValuesBucket, t.r.cfg.Values.Peers}} {
		peers, err := stream.peers(ctx)
		if err == nil {
			err = safeWithout(peers, question, whole)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", stream.name, err)
		}
	}
	return t.Await(ctx.Done())
}

// safeWithout reports whether all that a stream's leader has committed is on
// the disks of all its servers but one.
func safeWithout(p jetstream.Peers, one leave, members map[string]Member) error {
	var missing []string
	lack := func(name, why string) { missing = append(missing, name+" "+why) }
	voter := false
	whole := func(name string) {
		if m, there := members[name]; !there {
			lack(name, "does not answer")
		} else if !m.Whole {
			lack(name, "is catching up")
		}
	}
	for _, peer := range p.Others {
		switch {
		case peer.Name == one.Name:
			voter = true
			continue
		case peer.Offline:
			lack(peer.Name, "is away")
		case peer.Lag > 0 || !peer.Current:
			lack(peer.Name, fmt.Sprintf("lags by %d messages", peer.Lag))
		case peer.Active <= 0 || peer.Active >= one.Waited:
			lack(peer.Name, "has not been heard of since")
		default:
			whole(peer.Name)
		}
	}
	switch {
	case p.Leader == "":
		return errors.New("no server leads its stream")
	case p.Leader == one.Name:
		return fmt.Errorf("%s seems to lead its stream yet", one.Name)
	case !voter:
		return nil // it never promised anything
	}
	whole(p.Leader)
	if len(missing) > 0 {
		return errors.New("not every other server holds all of it: " + strings.Join(missing, ", "))
	}
	return nil
}
