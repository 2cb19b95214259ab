package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/system"
)

// A replica that has lost its part of the log has also forgotten its promises:
// which commits are safe, and which server it voted for. Two of three are a
// quorum. If it voted at once, it could, together with a replica that lags, elect
// a leader that lacks commits which the third replica and the lost disk had
// acknowledged. So it begins with JetStream off, where it can neither vote nor
// acknowledge, and asks the leader for admission, which turns it on. Admission says that
// all other servers hold everything that was committed. No acknowledged commit
// can be lost then:
//
//  1. The leader L of a stream gives the figures. Let O be the server that
//     asks. Every other server has answered L, as its leader, after O had come
//     up without JetStream (Peer.Active is less than the time that O has
//     waited). A server that had been elected with the vote of the lost disk
//     would have needed another vote, too: that of L, or of a server that
//     answered L. That voter would then be in a later term and not answer L. So
//     L is the leader, and was not deposed.
//  2. From then until it is admitted, O takes part in nothing, so everything
//     that is committed is on the disks of the others. They lag by nothing, and
//     each says itself that it is not catching up. So all of them hold all of
//     it.
//  3. Once admitted, O is a voter like any new server. It acknowledges what it has
//     stored, and keeps that. If a server wins an election with O's vote alone,
//     it is one of the others, and holds everything that was committed before
//     the admission; everything that was committed later is on a majority of disks
//     that have forgotten nothing.
//  4. If a second disk is lost meanwhile, its server is not admitted until O is
//     current, and cannot vote.
//
// This argument is about one stream, so the leaders of all, the log's and the
// bucket's, must answer.

// AdmissionSubject is where a replica asks for admission.
const AdmissionSubject = "allot.cluster.leave"

// askAgain is the pause between two requests.
const askAgain = 200 * time.Millisecond

// admission is the request, and the answer to it.
type admission struct {
	Name string `json:"name"`
	// Waited is how long the asking replica has been without JetStream.
	Waited time.Duration `json:"waited,omitempty"`
	// Rejoins: its operator, or its judgement of a damaged log, says that its log is lost.
	Rejoins bool `json:"rejoins,omitempty"`
	// Known is of a refusal: the cluster knows a log of that replica, which does not rejoin.
	Known bool `json:"known,omitempty"`
	// Why is the reason for a refusal; empty: it is admitted.
	Why string `json:"why,omitempty"`
}

// errNotAdmitted means that the replica is not admitted yet.
var errNotAdmitted = errors.New("not admitted yet")

// ErrLogLost means that the cluster knows a log of a replica that has none, and its operator has not said
// that it is lost. It may be on a disk that is not mounted.
var ErrLogLost = errors.New("the cluster knows a log of this server, which has none")

// AwaitAdmission returns when a replica that has no log may turn JetStream on, or
// when the context ends, or it is in vain. The connection is over a NATS server
// without JetStream. If the replica had a log before, it is ErrLogLost unless it rejoins.
func AwaitAdmission(ctx context.Context, nc *nats.Conn, name string, rejoins bool, w Waiting) error {
	began := system.SinceBoot()
	for {
		why, err := askAdmission(ctx, nc, admission{Name: name, Rejoins: rejoins, Waited: system.SinceBoot() - began})
		if err == nil || errors.Is(err, ErrLogLost) {
			return err
		}
		if err := w.Check(); err != nil {
			return err
		}
		w.Tell(why)
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return fmt.Errorf("told to stop while waiting for admission: %w", ctx.Err())
		}
	}
}

// askAdmission asks all replicas. The leader answers, or the replica that was told to
// begin the ledger and has no log yet.
func askAdmission(ctx context.Context, nc *nats.Conn, question admission) (why string, err error) {
	data, err := json.Marshal(question)
	if err != nil {
		return "", fmt.Errorf("cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*statusWait)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, AdmissionSubject, data)
	if err != nil {
		return "no replica leads that could be asked", err
	}
	var answer admission
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return "an answer that cannot be read", err
	}
	if answer.Known {
		return "", ErrLogLost
	}
	if answer.Why != "" {
		return answer.Why, errNotAdmitted
	}
	return "", nil
}

// AdmitAll admits all replicas, for the one that is to begin the ledger:
// while nothing is committed, nothing can be lost. The connection must be closed
// before that replica begins the ledger, for which the others wait.
func AdmitAll(nc *nats.Conn) error {
	_, err := tell(nc, AdmissionSubject, func() any { return struct{}{} })
	return err
}

// AnswerAdmission admits a replica, or says why not. It asks other servers, and at the end whether
// this one leads yet.
func (g *Group) AnswerAdmission(ctx context.Context, msg *nats.Msg, leads func() error) {
	var answer admission
	err := g.mayJoin(ctx, msg.Data)
	if err == nil {
		err = leads()
	}
	if err != nil {
		answer.Why, answer.Known = err.Error(), errors.Is(err, ErrLogLost)
	}
	if err := Answer(msg, answer); err != nil {
		g.Logger.Warn("a replica that asked for admission was not answered", "error", err)
	}
}

func (g *Group) mayJoin(ctx context.Context, data []byte) error {
	var question admission
	if err := json.Unmarshal(data, &question); err != nil {
		return fmt.Errorf("a question that cannot be read: %w", err)
	}
	if question.Name == g.Name {
		return fmt.Errorf("the replica that leads is called %s, too", question.Name)
	}
	whole := g.ByName(ctx)
	log, err := g.Log.Peers(ctx)
	if err == nil {
		err = safeWithout(log, question, whole)
	}
	if err != nil {
		return fmt.Errorf("the log: %w", err)
	}
	bucket, err := g.Values.Peers(ctx)
	if err == nil {
		err = safeWithout(bucket, question, whole)
	}
	if err != nil {
		return fmt.Errorf("the bucket %s: %w", jetstream.ValuesBucket, err)
	}
	return nil
}

// safeWithout reports whether everything that a stream's leader has committed is
// on the disks of all its servers but one.
func safeWithout(p jetstream.Peers, one admission, members map[string]Member) error {
	var missing []string
	lack := func(name, why string) { missing = append(missing, name+" "+why) }
	voter := false
	_, namesake := members[one.Name]
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
	case namesake:
		return fmt.Errorf("a running server of the cluster is called %s", one.Name)
	case !one.Rejoins:
		return ErrLogLost
	}
	whole(p.Leader)
	if len(missing) > 0 {
		return errors.New("not every other server holds all of it: " + strings.Join(missing, ", "))
	}
	return nil
}
