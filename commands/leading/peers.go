package leading

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/ledger"
)

// The messages between replicas.
const (
	commitSubject   = "allot.cluster.commit" // a durable commit, to all
	leaderSubject   = "allot.cluster.leader" // the name of the leader, to all
	submitSubject   = "allot.cluster.submit" // a command, to the leader
	headSubject     = "allot.cluster.head"   // "what was answered so far?", to the leader
	stepDownSubject = "allot.cluster.give"   // a request to let another replica lead, to the leader
)

// announceEvery is how often a leader announces that it leads.
const announceEvery = 200 * time.Millisecond

// upgradeEvery is how often a leader checks whether all replicas know a newer
// level than the one in use.
const upgradeEvery = 5 * time.Second

// announcement is a leader's announcement to all: that it leads, or has stepped down.
type announcement struct {
	Name     string      `json:"name"`
	Instance ledger.UUID `json:"instance"`
	// Sequence is the newest that the leader knows to be durable; 0: it says nothing of that.
	Sequence uint64 `json:"sequence"`
	Term     uint64 `json:"term"`
	// Released means that it has stepped down, and that Successor, if named, is to
	// be the next.
	Released  bool   `json:"released,omitempty"`
	Successor string `json:"successor,omitempty"`
	// Wedged means that the log takes no commits, although its servers say that
	// they are well.
	Wedged bool `json:"wedged,omitempty"`
}

// leaderView is what is known of the leader.
type leaderView struct {
	sequence atomic.Uint64 // of the newest commit that was announced
	folded   atomic.Pointer[foldedTerm]
	term     atomic.Uint64 // the newest known term
	heard    atomic.Int64  // when a leader was last heard, since boot
	wedged   atomic.Bool   // the leader says that the log is wedged

	mu      sync.Mutex
	last    announcement  // guarded by mu
	changed chan struct{} // closed when another replica leads, or none; guarded by mu
}

// foldedTerm is the last term in the log, as far as this replica has folded it.
type foldedTerm struct {
	ledger.Term
	seen time.Duration // when it was folded here, since boot
}

func (v *leaderView) folds(term ledger.Term, now time.Duration) {
	if last := v.folded.Load(); last == nil || last.Number != term.Number {
		v.folded.Store(&foldedTerm{term, now})
	}
}

// next returns a channel that is closed when the leader has changed.
func (v *leaderView) next() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

func (v *leaderView) get() (announcement, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last, v.changed
}

func (v *leaderView) set(h announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	changed := h.Instance != v.last.Instance || h.Released != v.last.Released
	v.last = h
	if changed {
		close(v.changed)
		v.changed = make(chan struct{})
	}
}

func (r *Replica) listen() (err error) {
	r.hears, err = r.subscribe(map[string]nats.MsgHandler{
		commitSubject: r.hearCommit, leaderSubject: r.hearLeader, members.StatusSubject: r.group.AnswerStatus,
	})
	return err
}

func (r *Replica) subscribe(handlers map[string]nats.MsgHandler) (subs []*nats.Subscription, err error) {
	for subject, handle := range handlers {
		sub, err := r.cfg.Conn.Subscribe(subject, handle)
		if err != nil {
			return subs, fmt.Errorf("cluster: %w", err)
		}
		subs = append(subs, sub)
	}
	return subs, r.cfg.Conn.Flush()
}

// hearCommit passes a commit on to the follower.
func (r *Replica) hearCommit(msg *nats.Msg) {
	f := r.follower.Load()
	if f == nil {
		return
	}
	if sequence, _, err := ledger.CommitLink(msg.Data); err == nil {
		r.view.saw(sequence)
	}
	select {
	case f.commits <- msg.Data:
	default: // it will be read from the log
	}
}

func (v *leaderView) saw(sequence uint64) {
	for now := v.sequence.Load(); now < sequence && !v.sequence.CompareAndSwap(now, sequence); now = v.sequence.Load() {
	}
}

func (r *Replica) hearLeader(msg *nats.Msg) {
	var h announcement
	if err := json.Unmarshal(msg.Data, &h); err != nil {
		r.cfg.Logger.Warn("another replica says what cannot be read", "subject", msg.Subject, "error", err)
		return
	}
	r.view.note(h, r.clock())
}

// announce sends a durable commit to the others.
func (r *Replica) announce(encoded []byte) {
	if err := r.cfg.Conn.Publish(commitSubject, encoded); err != nil {
		r.cfg.Logger.Debug("a commit was not announced; others find it in the log", "error", err)
	}
}

func (r *Replica) announceLeader(t *Term, released bool, successor string) {
	h := announcement{
		Name: r.cfg.Name, Instance: t.instance, Term: t.number.Load(), Released: released, Successor: successor,
		Wedged: t.wedged.Load() && !released,
	}
	if !released {
		h.Sequence = t.knows()
	}
	text, err := json.Marshal(h)
	if err == nil {
		err = r.cfg.Conn.Publish(leaderSubject, text)
	}
	if err != nil {
		r.cfg.Logger.Debug("others were not told who leads", "error", err)
	}
	r.view.note(h, r.clock())
}

// knows returns the newest sequence that a leader knows to be durable; 0 if its lease has run
// out: what it has read in the log since then the next leader may not know yet.
func (t *Term) knows() uint64 {
	last := t.r.cfg.Models.Checkpoint().Sequence
	if left, _ := t.left(); left <= 0 {
		return 0
	}
	return last
}

func (v *leaderView) note(h announcement, now time.Duration) {
	if !h.Released {
		v.heard.Store(int64(now))
		v.term.Store(h.Term)
	}
	v.wedged.Store(h.Wedged)
	v.saw(h.Sequence)
	v.set(h)
}

// upgrade begins another term once all replicas know a newer level of features.
func (t *Term) upgrade() {
	ctx, cancel := context.WithTimeout(t.r.ctx, t.length)
	defer cancel()
	level, err := t.commonLevel(ctx)
	if err != nil || level <= t.level.Load() {
		return
	}
	if err := t.confirm(ctx); err != nil {
		t.r.cfg.Logger.Warn("the ledger stays at its level of features", "error", err)
	}
}

// answerAdmission admits a replica, or says why not, without holding up commands meanwhile.
func (t *Term) answerAdmission(msg *nats.Msg) {
	t.r.ended.Go(func() {
		ctx, cancel := context.WithTimeout(t.r.ctx, t.length)
		defer cancel()
		t.r.group.AnswerAdmission(ctx, msg, func() error { return t.Await(ctx.Done()) })
	})
}

// serve takes messages to the leader.
func (t *Term) serve() (err error) {
	t.serves, err = t.r.subscribe(map[string]nats.MsgHandler{
		submitSubject: t.takeCommand, headSubject: t.answerHead, stepDownSubject: t.answerStepDown,
		members.AdmissionSubject: t.answerAdmission,
	})
	return err
}

// submitted is a command on its way to the leader.
type submitted struct {
	ID        ledger.UUID     `json:"id"`
	Actor     string          `json:"actor"`
	RequestID string          `json:"request_id,omitempty"`
	Cause     *ledger.Address `json:"cause,omitempty"`
	DryRun    bool            `json:"dry_run,omitempty"`
	Project   string          `json:"project,omitempty"`
	Name      string          `json:"name"`
	Command   encoding.Body   `json:"command"`
	// Client and Trace are skipped by replicas of older releases.
	Client string          `json:"client,omitempty"`
	Bulk   bool            `json:"bulk,omitempty"`
	Trace  *commands.Trace `json:"trace,omitempty"`
}

// carried is the leader's answer.
type carried struct {
	Address   ledger.Address    `json:"address"`
	Repeated  bool              `json:"repeated,omitempty"`
	Rejection *demand.Rejection `json:"rejection,omitempty"`
	Events    []byte            `json:"events,omitempty"` // events of a dry run
	Failure   string            `json:"failure,omitempty"`
	Reason    string            `json:"reason,omitempty"` // kind of the failure: a key of failures
	// Sequence is the sequence up to which everything was decided that the answer
	// depends on.
	Sequence uint64 `json:"sequence"`
}

// failures are the errors that keep their meaning between replicas.
var failures = map[string]error{
	"busy": commands.ErrBusy, "stopped": commands.ErrStopped, "no_answer": commands.ErrNoAnswer,
	"unreadable": commands.ErrUnreadable, "not_leading": commands.ErrNotLeading, "log": commands.ErrLogUnavailable,
	"budget": fair.ErrBudget,
}

func encodeSubmission(s commands.Submission) ([]byte, error) {
	data, err := encoding.Encode(submitted{
		ID: s.ID, Actor: s.Actor, RequestID: s.RequestID, Cause: s.Cause, DryRun: s.DryRun, Project: s.Project,
		Name: commands.NameOf(s.Command), Command: encoding.Body{Value: s.Command}, Client: s.Client, Bulk: s.Bulk,
		Trace: s.Trace,
	}, encoding.TypeMsgpack)
	if err != nil {
		return nil, fmt.Errorf("cluster: a command cannot be passed on: %w", err)
	}
	return data, nil
}

// takeCommand lets the leader's writer carry a command out.
func (t *Term) takeCommand(msg *nats.Msg) {
	submission, err := readSubmission(msg.Data)
	if err != nil {
		t.respond(msg, carried{Failure: err.Error()})
		return
	}
	t.writer.Start(submission, func(outcome commands.Outcome, err error) {
		t.respond(msg, answerOf(outcome, err, t.r.cfg.Models.Checkpoint().Sequence))
	})
}

func readSubmission(data []byte) (commands.Submission, error) {
	var in submitted
	if err := encoding.DecodeReply(data, encoding.TypeMsgpack, &in); err != nil {
		return commands.Submission{}, fmt.Errorf("cluster: a command that cannot be read: %w", err)
	}
	command, err := commands.New(in.Name)
	if err != nil {
		return commands.Submission{}, fmt.Errorf("cluster: the leader cannot read this: %w", err)
	}
	if err := in.Command.Decode(encoding.TypeMsgpack, command); err != nil {
		return commands.Submission{}, fmt.Errorf("cluster: a command that cannot be read: %w", err)
	}
	return commands.Submission{
		ID: in.ID, Actor: in.Actor, RequestID: in.RequestID, Cause: in.Cause, DryRun: in.DryRun, Project: in.Project,
		Client: in.Client, Bulk: in.Bulk, Command: command, Trace: in.Trace,
	}, nil
}

// answerOf returns the answer to a command. Everything that it depends on was
// decided up to a sequence.
func answerOf(outcome commands.Outcome, err error, sequence uint64) carried {
	out := carried{
		Address: outcome.Address, Repeated: outcome.Repeated, Rejection: outcome.Rejection,
		Sequence: sequence,
	}
	if err == nil && outcome.Events != nil {
		out.Events, err = ledger.EncodeEvents(outcome.Events)
	}
	if err == nil {
		return out
	}
	out.Failure = err.Error()
	for reason, known := range failures {
		if errors.Is(err, known) {
			out.Reason = reason
		}
	}
	return out
}

func (t *Term) respond(msg *nats.Msg, answer carried) {
	data, err := encoding.Encode(answer, encoding.TypeMsgpack)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		t.r.cfg.Logger.Warn("a command of another replica was not answered", "error", err)
	}
}

func (c *carried) outcome() (commands.Outcome, error) {
	out := commands.Outcome{Address: c.Address, Repeated: c.Repeated, Rejection: c.Rejection}
	if c.Failure != "" {
		if known := failures[c.Reason]; known != nil {
			return out, fmt.Errorf("%w (the leader: %s)", known, c.Failure)
		}
		return out, errors.New(c.Failure)
	}
	if c.Events != nil {
		events, err := ledger.DecodeEvents(c.Events)
		if err != nil {
			return out, fmt.Errorf("cluster: the leader's answer: %w", err)
		}
		out.Events = events
	}
	return out, nil
}

// headAnswer is the leader's answer to the question what was answered so far.
type headAnswer struct {
	Sequence uint64 `json:"sequence"`
	Failure  string `json:"failure,omitempty"`
}

// answerHead answers the newest sequence that a client was told. A goroutine waits for
// the lease, so that one question does not hold up commands.
func (t *Term) answerHead(msg *nats.Msg) {
	if left, _ := t.left(); left > 0 {
		t.respondHead(msg)
		return
	}
	t.r.ended.Go(func() { t.respondHead(msg) })
}

func (t *Term) respondHead(msg *nats.Msg) {
	answer := headAnswer{Sequence: t.r.cfg.Models.Checkpoint().Sequence}
	if err := t.Await(t.r.ctx.Done()); err != nil {
		answer.Failure = err.Error()
	}
	if err := members.Answer(msg, answer); err != nil {
		t.r.cfg.Logger.Debug("a question of another replica was not answered", "error", err)
	}
}
