package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/jetstream"
)

// The log of several servers is bounded by its leader (see jetstream's continued.go
// for how it goes on in another stream). A stream comes and goes only with all known
// replicas: those that the level of features waits for, too, see commonLevel.
//
//  1. The log goes on in another stream once every known replica that keeps it has
//     said that the stream's name is durable on its disk. A power cut could otherwise
//     take a stream with acknowledged commits from all of them at once. Servers of an
//     external NATS say nothing of the kind: see placed. There every known replica says
//     that its user may write on the next stream.
//  2. A stream leaves once every known replica has said that its snapshot and its read
//     models are past it, that its archives have it, and, where it keeps files of the
//     log, that it has noted that the stream may be deleted: without the note half of a
//     stream looks like damage.
//
// What a replica has said stays true, so it does not matter how late a deletion comes,
// or who leads by then. A replica that is away holds both up; one that will not come
// back is no replica any more once an operator has removed it.

const (
	// readySubject asks all whether the log may go on in a stream, and leavingSubject
	// whether streams may leave.
	readySubject   = "allot.cluster.ready"
	leavingSubject = "allot.cluster.leaving"
	// hotLogWait is how long replicas may take to answer.
	hotLogWait = 5 * time.Second
	// continueWait is how long the log may take to reach the end of a stream, until
	// whoever waits for it looks again later.
	continueWait = 2 * time.Second
	// askReady is the pause between two questions about a stream that was just made.
	askReady = 50 * time.Millisecond
	// firstAhead and lastAhead are how many commits the log may be away from the end of
	// its stream when the next one is made. It is more where commits come fast.
	firstAhead, lastAhead = 1, 1 << 12
)

// The steps after which test programs end a server, see control_on.go.
const (
	stepMade      = "made"      // the next stream exists
	stepReady     = "ready"     // all have said that the log may go on there
	stepContinued = "continued" // the log goes on there
	stepSaid      = "said"      // a replica has done what it was asked, and not answered yet
	stepNoted     = "noted"     // all replicas have said that a stream may leave
	stepDropped   = "dropped"   // it is deleted
)

// HotLog is what a replica does to its own part of a bounded log; nil: it has none.
type HotLog interface {
	// Ready says why the log may not go on in a stream that was just made, and does what
	// this replica has to do before: where it keeps the log itself, it makes the stream's
	// name durable, which must be there.
	Ready(stream string) error
	// MayLeave says why the streams before a sequence may not be deleted, and notes that
	// they may where it keeps the log itself. From then on they are not read any more.
	MayLeave(ctx context.Context, before uint64) error
}

// ErrLevelBelow means that a replica of an older release could not read the log.
var ErrLevelBelow = errors.New("the log stays in one stream, because a known replica runs a release that could not read more")

// hotQuestion is what the leader asks about the log's streams, and hotAnswer what each
// replica answers.
type hotQuestion struct {
	Stream string `json:"stream,omitempty"`
	Before uint64 `json:"before,omitempty"`
}

type hotAnswer struct {
	Name string `json:"name"`
	Why  string `json:"why,omitempty"` // empty: yes
}

// answerReady says whether the log may go on in a stream.
func (r *Replica) answerReady(msg *nats.Msg) {
	r.answerHot(msg, func(_ context.Context, q hotQuestion) error { return r.cfg.HotLog.Ready(q.Stream) })
}

// answerLeaving says whether streams may leave.
func (r *Replica) answerLeaving(msg *nats.Msg) {
	r.answerHot(msg, func(ctx context.Context, q hotQuestion) error { return r.cfg.HotLog.MayLeave(ctx, q.Before) })
}

// answerHot answers without holding up other messages.
func (r *Replica) answerHot(msg *nats.Msg, do func(context.Context, hotQuestion) error) {
	r.ended.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, hotLogWait)
		defer cancel()
		answer := hotAnswer{Name: r.cfg.Name}
		var question hotQuestion
		err := json.Unmarshal(msg.Data, &question)
		switch {
		case err != nil:
		case r.cfg.HotLog == nil:
			err = errors.New("it has no part in a bounded log")
		default:
			err = do(ctx, question)
		}
		if err != nil {
			answer.Why = err.Error()
		}
		control(stepSaid)
		data, err := json.Marshal(answer)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			r.cfg.Logger.Debug("a question about the log's streams was not answered", "error", err)
		}
	})
}

// agree asks all replicas, and returns nil once all that are wanted have said yes.
func (r *Replica) agree(ctx context.Context, subject string, question hotQuestion, wanted map[string]bool) error {
	data, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	inbox := r.cfg.Conn.NewRespInbox()
	sub, err := r.cfg.Conn.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := r.cfg.Conn.PublishRequest(subject, inbox, data); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, hotLogWait)
	defer cancel()
	missing := maps.Clone(wanted)
	for len(missing) > 0 {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("%w: of replicas that are known, these do not answer: %v (allot cluster remove forgets one that will not "+
				"come back)", ledger.ErrUnavailable, slices.Sorted(maps.Keys(missing)))
		}
		var answer hotAnswer
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			continue // whoever it was does not count
		}
		if answer.Why != "" && missing[answer.Name] {
			return fmt.Errorf("replica %s: %s", answer.Name, answer.Why)
		}
		delete(missing, answer.Name)
	}
	return nil
}

// knownNames are the names of all known replicas.
func (r *Replica) knownNames(ctx context.Context) (map[string]bool, error) {
	known, err := r.registered(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{r.cfg.Name: true}
	for name := range known {
		names[name] = true
	}
	return names, nil
}

// BoundedLog is the log of several servers while this one leads: what bounds it.
type BoundedLog struct {
	*jetstream.Log
	t     *Term
	next  atomic.Pointer[continuation] // a stream that may be next; nil: there is none
	made  jetstream.Next               // the newest stream that was made; of the trimmer
	ahead uint64                       // how far the log may be away from the end of its stream; of the trimmer
	tidy  bool                         // nobody has left a stream behind; of the trimmer
}

// continuation is a stream that was made, and the submission of what leads there.
type continuation struct {
	jetstream.Next
	submission commands.Submission
}

// BoundedLog returns the log for whoever bounds it in this term. Due must be the
// writer's Options.Due.
func (t *Term) BoundedLog() *BoundedLog { return &t.bounded }

// Due is the writer's Options.Due.
func (t *Term) Due(sequence uint64) *commands.Submission {
	if next := t.bounded.next.Load(); next != nil && next.After == sequence {
		return &next.submission
	}
	return nil
}

// Roll has the log go on in another stream. known is the head of the newest commit. If
// it fails, the log may go on there later.
func (b *BoundedLog) Roll(ctx context.Context, known ledger.Head) error {
	if b.t.level.Load() < ledger.ContinuedLevel {
		return fmt.Errorf("%w: level %d of features is in use, and this needs level %d", ErrLevelBelow, b.t.level.Load(),
			uint64(ledger.ContinuedLevel))
	}
	for {
		if next := b.next.Load(); next != nil {
			if err := b.arrive(ctx, next); err != nil {
				return err
			}
			b.next.Store(nil)
			b.tidy = false
			if b.Continued(next.Next) {
				b.ahead = max(b.ahead/2, firstAhead)
				return nil
			}
			// The log went past while the stream was made.
			if b.ahead >= lastAhead {
				return fmt.Errorf("%w: commits come faster than streams can be made", ledger.ErrUnavailable)
			}
			b.ahead = min(8*b.ahead, lastAhead)
		}
		if err := b.clear(ctx); err != nil {
			return err
		}
		if err := b.prepare(ctx); err != nil {
			return err
		}
	}
}

// prepare makes the next stream, a little ahead of the log.
func (b *BoundedLog) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hotLogWait)
	defer cancel()
	b.ahead = max(b.ahead, firstAhead)
	if head := b.t.r.cfg.Models.Checkpoint().Sequence; b.made.After <= head {
		b.tidy = false // whatever becomes of this, a stream may be left
		made, err := b.Prepare(ctx, head+b.ahead)
		if err != nil {
			return err
		}
		b.made = made
		control(stepMade)
	}
	if err := b.ready(ctx, b.made); err != nil {
		return err
	}
	control(stepReady)
	b.next.Store(&continuation{b.made, commands.Submission{
		ID: commands.NewID(), Actor: "allot",
		Command: &commands.ContinueLog{After: b.made.After, Of: b.made.Of, Stream: b.made.Stream},
	}})
	return nil
}

// ready returns once the log may go on in a stream that was just made.
func (b *BoundedLog) ready(ctx context.Context, next jetstream.Next) error {
	asked := b.keepers
	if b.t.r.cfg.Near == nil {
		asked = b.placed // the servers that keep it are not Allot's
	}
	wanted, err := asked(ctx, next)
	if err != nil {
		return err
	}
	var why error
	for {
		err := b.t.r.agree(ctx, readySubject, hotQuestion{Stream: next.Stream}, wanted)
		if err == nil {
			return nil
		}
		if why == nil || ctx.Err() == nil { // an answer says more than that the time was over
			why = err
		}
		select {
		case <-time.After(askReady): // a server may not have got as far as to make it
		case <-ctx.Done():
			return why
		}
	}
}

// keepers are the replicas that keep a stream that was just made, each with its own NATS server.
func (b *BoundedLog) keepers(ctx context.Context, next jetstream.Next) (map[string]bool, error) {
	peers, err := b.PeersOf(ctx, next)
	if err != nil {
		return nil, err
	}
	if peers.Leader != b.t.r.cfg.Name {
		// Commits then reach the stream's leader without another hop.
		if err := b.MoveLeaderOf(ctx, next, b.t.r.cfg.Name); err != nil {
			b.t.r.cfg.Logger.Debug("the log's next stream is led where it was", "error", err)
		}
	}
	keep := make(map[string]bool)
	for _, one := range append(peers.Others, jetstream.Peer{Name: peers.Leader}) {
		keep[one.Name] = true
	}
	if len(keep) < b.Replicas() || keep[""] {
		return nil, fmt.Errorf("%w: stream %s is kept by %v, and not by %d servers yet", ledger.ErrUnavailable, next.Stream,
			slices.Sorted(maps.Keys(keep)), b.Replicas())
	}
	return keep, nil
}

// placed waits until a stream that was just made is on all servers of an external NATS
// that are to keep it, and returns all known replicas, which the log goes on with.
//
// These servers sync every write (sync_interval: always), or somebody has accepted the
// risk. nats-server 2.15 then writes meta.inf and meta.sum of a new stream with O_SYNC,
// and syncs the stream's folder after their renames, before it says that the stream is
// there (filestore.go: writeStreamMeta, writeAtomically). Of a stream with replicas the
// group's own folder, its votes and the agreement by which the stream is to be there are
// synced so, too. What it does not sync by itself is the folder in which the stream's
// folder has its name: it relies there, as for the name of each new block of a stream that
// is years old, on file systems with a journal, such as ext4, XFS and Btrfs. They make a
// name durable no later than what is synced below it. The first commit of the stream is
// synced before it is acknowledged, in the stream's block or, of a stream with replicas,
// in the group's agreements on most of its servers. So it is lost in a power cut no sooner
// than a commit in any other block. It waits for all servers, and not for most, so that as
// many as were asked for keep the first commits, too.
func (b *BoundedLog) placed(ctx context.Context, next jetstream.Next) (known map[string]bool, err error) {
	for {
		peers, err := b.PeersOf(ctx, next)
		if err == nil {
			err = peers.KeptBy(b.Replicas())
		}
		if err == nil {
			return b.t.r.knownNames(ctx)
		}
		select {
		case <-time.After(askReady):
		case <-ctx.Done():
			return nil, fmt.Errorf("stream %s: %w", next.Stream, err)
		}
	}
}

// arrive waits for the log to reach the end of its stream. It fails with
// archives.ErrLater if it has not got there yet.
func (b *BoundedLog) arrive(ctx context.Context, next *continuation) error {
	ctx, cancel := context.WithTimeout(ctx, continueWait)
	defer cancel()
	// Where no commits come nobody else would wake the writer.
	if _, err := b.t.writer.Submit(ctx, next.submission); err != nil && !errors.Is(err, commands.ErrNoAnswer) {
		return err
	}
	for b.t.r.cfg.Models.Checkpoint().Sequence < next.After {
		changed := b.t.r.cfg.Models.Changed()
		if b.t.r.cfg.Models.Checkpoint().Sequence >= next.After {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return archives.ErrLater
		}
	}
	control(stepContinued)
	return nil
}

// clear deletes streams that nothing can lead to any more.
func (b *BoundedLog) clear(ctx context.Context) error {
	if b.tidy {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hotLogWait)
	defer cancel()
	deleted, err := b.Tidy(ctx)
	for _, stream := range deleted {
		b.t.r.cfg.Logger.Info("a stream that the log did not go on in is deleted", "stream", stream)
	}
	b.tidy = err == nil
	return err
}

// Drop drops the oldest stream, which ends with a sequence, once all known replicas
// can do without it.
func (b *BoundedLog) Drop(ctx context.Context, last uint64) error {
	if err := b.clear(ctx); err != nil {
		return err
	}
	wanted, err := b.t.r.knownNames(ctx)
	if err != nil {
		return err
	}
	if err := b.t.r.agree(ctx, leavingSubject, hotQuestion{Before: last + 1}, wanted); err != nil {
		return err
	}
	control(stepNoted)
	if err := b.Log.Drop(ctx, last); err != nil {
		return err
	}
	control(stepDropped)
	return nil
}
