package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
)

// The log is read by direct gets, which use no resources of the stream and leave
// nothing behind, whatever becomes of the reader. Consumers would: a stream has a
// bounded number, and they outlive their makers.
//
// On a replicated stream a replica that lags may answer a direct get. So only the
// leader can say that an entry does not exist: it is missing if the leader has
// later ones. Silence says nothing about the log's contents.

const (
	// batchMessages and batchBytes bound what one request asks for, and so the
	// memory of a reader, which may take one entry more than batchBytes.
	batchMessages = 512
	batchBytes    = 2 << 20
	// firstWait is how long a reader waits before it asks again. The wait
	// doubles, so that a large entry gets through a slow network.
	firstWait = 2 * time.Second
	// retryPause is the pause after a refusal by the log.
	retryPause = 50 * time.Millisecond
	// settling is how long a leader may be behind what was seen of its stream,
	// because a leader that was just elected still applies what it holds. It must
	// say for as long that an entry is missing.
	settling = 3 * time.Second
	// lookUp is how often a waiting reader looks for a new connection.
	lookUp = 100 * time.Millisecond
)

// Last implements ledger.Log.
func (l *Log) Last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, settling+l.patience)
	defer cancel()
	until := time.Now().Add(settling)
	for {
		last, err := l.last(ctx)
		if err != nil || last >= l.seen.Load() || time.Now().After(until) {
			return last, err
		}
		if err := pause(ctx, retryPause); err != nil {
			return 0, outOfReach("stream "+l.stream, err)
		}
	}
}

func (l *Log) last(ctx context.Context) (uint64, error) {
	info, err := l.leaders(ctx)
	if err == nil {
		err = whole(info)
	}
	if err != nil {
		return 0, err
	}
	l.ObservedLast(info.State.LastSeq)
	return info.State.LastSeq, nil
}

// leaders returns what the leader of the stream says about it, and what it holds. Other
// servers answer, too: any while none leads, and one that is preferred in the first ten
// seconds after its start. They may lack the newest commits, and a caller that took that
// for the end of the log would lose them.
func (l *Log) leaders(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	info, err := askLeader(ctx, func() (*jetstream.StreamInfo, error) {
		found, err := l.js.Stream(ctx, l.stream)
		if err != nil {
			return nil, err
		}
		return found.CachedInfo(), nil
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return nil, fmt.Errorf("%w: %s", ErrNoStream, l.stream)
	case err != nil:
		return nil, outOfReach("stream "+l.stream, err)
	}
	return info, nil
}

// askLeader asks about a stream until its leader answers.
func askLeader(ctx context.Context, ask func() (*jetstream.StreamInfo, error)) (*jetstream.StreamInfo, error) {
	for {
		info, err := ask()
		if err != nil || fromLeader(info) {
			return info, err
		}
		if err := pause(ctx, retryPause); err != nil {
			return nil, fmt.Errorf("%w: %w", errLeaderless, err)
		}
	}
}

var errLeaderless = errors.New("no leader of it answers")

// fromLeader reports whether the leader of a stream has sent what is told about it. A
// server does not list itself among the replicas, so one that lists the leader is
// another one.
func fromLeader(info *jetstream.StreamInfo) bool {
	if info.Config.Replicas < 2 {
		return true
	}
	c := info.Cluster
	return c != nil && c.Leader != "" && len(c.Replicas) > 0 &&
		!slices.ContainsFunc(c.Replicas, func(p *jetstream.PeerInfo) bool { return p.Name == c.Leader })
}

// ObservedLast tells the log that it holds a sequence, as known from another source. A
// replica that reports an earlier end is then known to lag.
func (l *Log) ObservedLast(sequence uint64) {
	for seen := l.seen.Load(); seen < sequence && !l.seen.CompareAndSwap(seen, sequence); seen = l.seen.Load() {
	}
}

// outOfReach wraps the error of a request that the stream did not answer.
// JetStream's own errors are passed on unchanged.
func outOfReach(what string, err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("jetstream: %s: %w", what, err)
	}
	return fmt.Errorf("%w: %s: %w", ledger.ErrUnavailable, what, err)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read implements ledger.Log.
func (l *Log) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return l.reader(from, to, yield).run(ctx)
}

func (l *Log) reader(from, to uint64, yield func(ledger.Entry) error) *reader {
	return &reader{log: l, stream: l.stream, want: max(from, 1), to: to, yield: yield, wait: firstWait, heard: time.Now()}
}

func (r *reader) run(ctx context.Context) error {
	for r.want <= r.to {
		before := r.want
		err := r.batch(ctx)
		switch {
		case errors.Is(err, errNotHere):
			err = r.askLeader(ctx)
		case err == nil && r.want == before:
			err = fmt.Errorf("%w: an answer without entries", errSilent)
		}
		if r.want > before {
			r.wait, r.heard = firstWait, time.Now()
		}
		if errors.Is(err, errSilent) {
			err = r.again(ctx, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reader is one call of Read.
type reader struct {
	log      *Log
	stream   string
	want, to uint64
	yield    func(ledger.Entry) error
	wait     time.Duration // wait for the next message
	heard    time.Time     // when the last entry came
	denied   uint64        // the entry that the leader did not have
	since    time.Time     // when the leader first said so
}

// Outcomes of a request that its caller handles.
var (
	errSilent   = errors.New("no answer")
	errUnserved = fmt.Errorf("%w: no server has the stream", errSilent)
	errNotHere  = errors.New("the replica does not hold it")
)

// again decides about a request that was not answered: it is sent again until the
// log's patience has ended.
func (r *reader) again(ctx context.Context, err error) error {
	what := fmt.Sprintf("stream %s: sequence %d", r.stream, r.want)
	if ctx.Err() != nil {
		return outOfReach(what, ctx.Err())
	}
	if silent := time.Since(r.heard); silent >= r.log.patience {
		// An error of JetStream counts as silence here, because it was not about
		// the entry.
		return fmt.Errorf("%w: %s: %w for %v", ledger.ErrUnavailable, what, err, silent.Round(time.Millisecond))
	}
	if err := pause(ctx, retryPause); err != nil {
		return outOfReach(what, err)
	}
	return nil
}

// getRequest asks for one message, or for several.
type getRequest struct {
	Sequence uint64 `json:"seq"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// batch asks for the next entries and yields those that come.
func (r *reader) batch(ctx context.Context) error {
	ask := getRequest{Sequence: r.want, Batch: int(min(r.to-r.want+1, batchMessages)), MaxBytes: batchBytes}
	body, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	answers := make(chan *nats.Msg, ask.Batch+1)
	inbox := r.log.nc.NewInbox()
	sub, err := r.log.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return outOfReach("stream "+r.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := r.log.nc.PublishRequest("$JS.API.DIRECT.GET."+r.stream, inbox, body); err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	silence := &silence{r, time.NewTimer(lookUp), r.log.nc.Stats().Reconnects}
	defer silence.timer.Stop()
	for range cap(answers) {
		msg, err := silence.next(ctx, answers)
		if err != nil {
			return err
		}
		if more, err := r.take(msg); err != nil || !more {
			return err
		}
	}
	return nil
}

type silence struct {
	r           *reader
	timer       *time.Timer
	connections uint64 // that existed when the request was sent
}

// next waits for a message, at most for the reader's wait, and only as long as
// the connection lasts on which the request was sent.
func (s *silence) next(ctx context.Context, answers <-chan *nats.Msg) (*nats.Msg, error) {
	select {
	case msg := <-answers: // usually it is there already
		return msg, nil
	default:
	}
	wait := min(s.r.wait, s.r.log.patience)
	for waited := time.Duration(0); waited < wait; waited += lookUp {
		s.timer.Reset(min(lookUp, wait-waited))
		select {
		case msg := <-answers:
			return msg, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errSilent, ctx.Err())
		case <-s.timer.C:
		}
		if nc := s.r.log.nc; nc.IsClosed() || nc.Stats().Reconnects != s.connections {
			return nil, fmt.Errorf("%w: the connection was lost", errSilent)
		}
	}
	s.r.wait *= 2
	return nil, errSilent
}

// take handles one message of an answer. It returns false after the last.
func (r *reader) take(msg *nats.Msg) (more bool, err error) {
	sequence := msg.Header.Get(jetstream.SequenceHeader)
	if sequence == "" {
		return false, r.status(msg.Header.Get("Status"), msg.Header.Get("Description"))
	}
	number, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil {
		return false, fmt.Errorf("jetstream: stream %s: a message with sequence %q", r.stream, sequence)
	}
	if number != r.want {
		return false, errNotHere
	}
	if err := r.pass(ledger.Entry{Sequence: number, Data: msg.Data}); err != nil {
		return false, err
	}
	r.log.ObservedLast(number)
	return r.want <= r.to, nil
}

func (r *reader) pass(e ledger.Entry) error {
	if err := r.yield(e); err != nil {
		return err
	}
	r.want++
	return nil
}

func (r *reader) status(code, description string) error {
	switch code {
	case "204": // the end of a batch
		return nil
	case "404":
		return errNotHere
	case "503":
		return errUnserved
	}
	return fmt.Errorf("jetstream: stream %s: a read was answered %s %s", r.stream, code, description)
}

// askLeader reads an entry that a replica did not hold from the leader, whose
// word counts, and yields it.
func (r *reader) askLeader(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	body, err := json.Marshal(getRequest{Sequence: r.want})
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	msg, err := r.log.nc.RequestWithContext(wait, "$JS.API.STREAM.MSG.GET."+r.stream, body)
	if err != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	var answer messageAnswer
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return fmt.Errorf("jetstream: stream %s: an answer that cannot be read: %w", r.stream, err)
	}
	if answer.Error != nil {
		return r.missing(ctx, answer.Error)
	}
	return r.pass(ledger.Entry{Sequence: r.want, Data: answer.Message.Data})
}

type messageAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Message struct {
		Data []byte `json:"data"`
	} `json:"message"`
}

// missing interprets the leader's answer that it does not have an entry.
func (r *reader) missing(ctx context.Context, err *jetstream.APIError) error {
	if err.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	// The leader may have just been elected: Last waits until it has what was
	// seen.
	last, lastErr := r.log.Last(ctx)
	switch {
	case errors.Is(lastErr, ErrNoStream):
		return fmt.Errorf("%w: %w", errSilent, lastErr) // its server is just starting
	case lastErr != nil:
		return fmt.Errorf("sequence %d cannot be read: %w", r.want, lastErr)
	case last >= r.want && r.denied != r.want:
		r.denied, r.since = r.want, time.Now() // the entry may have come just now
		return nil
	case last >= r.want && time.Since(r.since) < settling:
		if err := pause(ctx, retryPause); err != nil {
			return outOfReach("stream "+r.stream, err)
		}
		return nil
	case last >= r.want:
		return fmt.Errorf("%w: stream %s goes to %d, but has no sequence %d", ledger.ErrLogGap, r.stream, last, r.want)
	}
	return fmt.Errorf("%w: stream %s ends at %d, but sequence %d was asked for",
		ledger.ErrLogBehind, r.stream, last, r.want)
}

// Tail yields the entries from a sequence on that a replica of the stream holds,
// in order, up to the last that the replica knows. It does not ask the leader, so
// it works while there is none, but there may be later entries. It fails with
// ErrUnavailable if no replica answers.
func (l *Log) Tail(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
	r := l.reader(from, math.MaxUint64-1, yield)
	for {
		before := r.want
		err := r.batch(ctx)
		switch {
		case errors.Is(err, errNotHere), err == nil && r.want == before:
			return nil
		case errors.Is(err, errSilent):
			return outOfReach("stream "+l.stream, err)
		case err != nil:
			return err
		}
	}
}
