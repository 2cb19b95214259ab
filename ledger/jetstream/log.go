// Package jetstream keeps the ledger's log in a NATS JetStream stream: one
// message is one commit, on one subject, fenced by the stream's last sequence.
//
// No other package knows nats.go's JetStream API.
package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
)

// Names in the NATS account that holds the log.
const (
	DefaultStream = "ALLOT"
	// Subject carries the commits. Only the writer may publish on it.
	Subject = "allot.log"
)

// headroomBytes is how much of the payload limit a message's headers and framing
// take.
const headroomBytes = 4096

// fileStoreMaxBytes is the size of the largest record that JetStream's file store
// takes.
const fileStoreMaxBytes = 32 << 20

// DefaultAckTimeout is how long an append waits for JetStream's answer until its
// fate counts as unknown.
const DefaultAckTimeout = 10 * time.Second

// DefaultPatience is how long a read waits for a silent log until the log counts
// as out of reach.
const DefaultPatience = 14 * time.Second

// Config says where the log is.
type Config struct {
	Stream     string        // DefaultStream if empty
	Replicas   int           // of a stream that is created; 1 if 0
	AckTimeout time.Duration // DefaultAckTimeout if 0
	Patience   time.Duration // DefaultPatience if 0

	// MayCreate allows Open to create a missing stream. It must be false if
	// anything on this machine has seen commits of the log before.
	MayCreate bool
	// History, if it is not zero, is the sequence up to which a newly created log
	// must be filled before a server leads. The stream remembers it.
	History ledger.Head
}

// historyKey is the key of History in the stream's metadata.
const historyKey = "allot.history"

// ErrNoStream means that the stream does not exist and may not be created.
var ErrNoStream = errors.New("jetstream: the log's stream does not exist")

// JetStream's codes for a lost race. Replicated streams answer the second one,
// which nats.go's ErrKeyExists does not match.
var conflictCodes = map[jetstream.ErrorCode]bool{
	jetstream.JSErrCodeStreamWrongLastSequence:         true,
	jetstream.JSErrCodeStreamWrongLastSequenceConstant: true,
}

const errCodeMessageExceedsMaximum = 10054

// Log is a ledger.Log in a stream.
type Log struct {
	replicated
	js       jetstream.JetStream
	maxBytes int
	replicas int
	history  uint64
	patience time.Duration
	moves    moves
	seen     atomic.Uint64 // the highest sequence that the stream was ever known to hold
}

var _ ledger.Log = (*Log)(nil)

// Open finds or creates the stream, and checks that its configuration keeps
// Allot's promises; otherwise the error wraps ledger.ErrLogUnsafe.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Log, error) {
	cfg.Stream = cmp.Or(cfg.Stream, DefaultStream)
	cfg.AckTimeout = cmp.Or(cfg.AckTimeout, DefaultAckTimeout)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(cfg.AckTimeout))
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Patience)
	defer cancel()
	l := &Log{
		replicated: replicated{nc, cfg.Stream},
		js:         js,
		patience:   cfg.Patience,
		maxBytes:   min(int(nc.MaxPayload()), fileStoreMaxBytes) - headroomBytes,
	}
	info, err := l.leaders(ctx)
	if errors.Is(err, ErrNoStream) && cfg.MayCreate {
		info, err = l.create(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	if err := checkConfig(info.Config); err != nil {
		return nil, err
	}
	if text := info.Config.Metadata[historyKey]; text != "" {
		if l.history, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: stream %s: %s is %q", ledger.ErrLogUnsafe, info.Config.Name, historyKey, text)
		}
	}
	l.replicas = info.Config.Replicas
	return l, nil
}

func (l *Log) create(ctx context.Context, cfg Config) (*jetstream.StreamInfo, error) {
	stream, err := l.js.CreateStream(ctx, streamConfig(cfg))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return l.leaders(ctx) // another server has just made it, in its own way
	}
	if err != nil {
		return nil, outOfReach("make stream "+cfg.Stream, err)
	}
	return stream.CachedInfo(), nil
}

// streamConfig keeps everything for ever and lets no client delete a message. It does not
// use message ids, because the ledger has its own idempotency, without a time window.
func streamConfig(cfg Config) jetstream.StreamConfig {
	stream := jetstream.StreamConfig{
		Name:        cfg.Stream,
		Description: "Allot's ledger: every message is one commit. Never delete, purge or edit this stream.",
		Subjects:    []string{Subject},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		MaxMsgs:     -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1,
		Replicas:    max(cfg.Replicas, 1),
		Duplicates:  time.Second,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
	}
	if cfg.History.Sequence > 0 {
		stream.Metadata = map[string]string{historyKey: strconv.FormatUint(cfg.History.Sequence, 10)}
	}
	return stream
}

// History returns the sequence up to which the log must be filled before a server leads,
// because it was created to begin with commits of another log; 0: there are none.
func (l *Log) History() uint64 { return l.history }

// whole fails if a stream lacks sequences.
func whole(info *jetstream.StreamInfo) error {
	if state := info.State; state.LastSeq > 0 && (state.FirstSeq != 1 || state.Msgs != state.LastSeq) {
		return fmt.Errorf("%w: stream %s holds %d messages from %d to %d", ledger.ErrLogGap, info.Config.Name, state.Msgs,
			state.FirstSeq, state.LastSeq)
	}
	return nil
}

// checkConfig refuses a stream that would not preserve a log.
func checkConfig(cfg jetstream.StreamConfig) error {
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{len(cfg.Subjects) != 1 || cfg.Subjects[0] != Subject,
			fmt.Sprintf("its subjects are %v, not [%s]", cfg.Subjects, Subject)},
		{cfg.Sealed, "it is sealed"},
		{cfg.Storage != jetstream.FileStorage, "it is not kept in files"},
		{cfg.Retention != jetstream.LimitsPolicy, "its retention policy removes messages"},
		{cfg.MaxMsgs > 0 || cfg.MaxBytes > 0 || cfg.MaxAge > 0 || cfg.MaxMsgsPerSubject > 0, "it has limits that remove messages or refuse commits"},
		{cfg.PersistMode != jetstream.DefaultPersistMode, "it persists asynchronously"},
		{!cfg.DenyDelete || !cfg.DenyPurge, "it lets messages be deleted or purged"},
		{cfg.AllowRollup, "it allows roll-ups"},
		{cfg.MaxMsgSize > 0 || cfg.MaxConsumers > 0, "it has limits of the size of messages or the number of readers"},
		{cfg.NoAck, "it does not acknowledge what it stores"},
		{!cfg.AllowDirect, "it does not allow direct gets, by which it is read"},
		{cfg.Mirror != nil || len(cfg.Sources) > 0, "it takes messages from other streams"},
		{cfg.FirstSeq > 1, fmt.Sprintf("it begins with sequence %d", cfg.FirstSeq)},
		{cfg.SubjectTransform != nil || cfg.AllowMsgCounter, "it changes messages"},
		{cfg.AllowMsgTTL || cfg.SubjectDeleteMarkerTTL > 0 || cfg.AllowMsgSchedules, "it lets messages expire, or come by themselves"},
	} {
		if rule.broken {
			return fmt.Errorf("%w: stream %s: %s", ledger.ErrLogUnsafe, cfg.Name, rule.text)
		}
	}
	return nil
}

// MaxCommitBytes implements ledger.Log.
func (l *Log) MaxCommitBytes() int { return l.maxBytes }

// Replicas returns how many servers keep the log.
func (l *Log) Replicas() int { return l.replicas }

// Append implements ledger.Log.
func (l *Log) Append(sequence uint64, encoded []byte, done func(error)) {
	if len(encoded) > l.maxBytes {
		done(fmt.Errorf("%w: %d bytes, at most %d", ledger.ErrTooLarge, len(encoded), l.maxBytes))
		return
	}
	moved := l.moves.next()
	future, err := l.js.PublishMsgAsync(&nats.Msg{Subject: Subject, Data: encoded},
		jetstream.WithExpectStream(l.stream),
		jetstream.WithRetryAttempts(0), // A retry could hide that the first try was stored.
		jetstream.WithExpectLastSequence(sequence-1),
	)
	if err != nil {
		done(appendError(err))
		return
	}
	go func() { done(l.fate(sequence, future, moved)) }()
}

func (l *Log) fate(sequence uint64, future jetstream.PubAckFuture, moved <-chan struct{}) error {
	var late <-chan time.Time
	for {
		select {
		case ack := <-future.Ok():
			if ack.Sequence != sequence || ack.Duplicate {
				return fmt.Errorf("%w: stored as %d instead of %d", ledger.ErrUnknownFate, ack.Sequence, sequence)
			}
			l.ObservedLast(sequence)
			return nil
		case err := <-future.Err():
			return appendError(err)
		case <-moved:
			moved, late = nil, time.After(afterMove)
		case <-late:
			return fmt.Errorf("%w: the stream has got another leader", ledger.ErrUnknownFate)
		}
	}
}

// Pending returns how many appends have no answer yet.
func (l *Log) Pending() int { return l.js.PublishAsyncPending() }

func appendError(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		if conflictCodes[api.ErrorCode] {
			return fmt.Errorf("%w: %w", ledger.ErrConflict, err)
		}
		if api.ErrorCode == errCodeMessageExceedsMaximum {
			return fmt.Errorf("%w: %w", ledger.ErrTooLarge, err)
		}
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", ledger.ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnknownFate, err)
}
