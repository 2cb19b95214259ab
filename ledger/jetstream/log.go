// Package jetstream keeps the ledger's log in a NATS JetStream stream: one
// message is one commit, on one subject, fenced by the stream's last sequence.
//
// No other package knows nats.go's JetStream API.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
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
	// must be filled before anybody leads. The stream remembers it.
	History ledger.Head
	// MayRoll allows this Log to make the next stream if the last one is sealed,
	// see Roll. Only one process of a ledger may have it.
	MayRoll bool
	// Shared says that others may open this log, too, also if one server of NATS alone
	// keeps it. Such a log is never sealed, and says itself where it goes on: see
	// continued.go. All that may append to a log must say the same.
	Shared bool
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
	nc       *nats.Conn
	js       jetstream.JetStream
	prefix   string // name of the first stream
	chain    atomic.Pointer[[]link]
	mayMake  bool
	shared   bool         // see Config.Shared
	made     func() error // see OnMade; guarded by finding
	unsure   bool         // a stream may have been made since made was called; guarded by finding
	finding  sync.Mutex   // held while the chain changes
	rolling  sync.RWMutex // held by appends for reading
	maxBytes int
	replicas int
	history  uint64
	patience time.Duration
	moves    moves
	seen     atomic.Uint64 // the highest sequence that the stream was ever known to hold
	lookedAt atomic.Int64  // when Tail last asked for the streams, in Unix nanoseconds
	left     atomic.Uint64 // what is before this sequence is about to be deleted, see Leave
	sent     atomic.Uint64 // the sequence last sent, unless the log goes on elsewhere after it
	noticed  atomic.Uint64 // a sequence after which the log is known to go on in the same stream
}

var _ ledger.Log = (*Log)(nil)

// Open finds or creates the stream, and checks that its configuration keeps
// Allot's promises; otherwise the error wraps ledger.ErrLogUnsafe.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Log, error) {
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	if cfg.AckTimeout == 0 {
		cfg.AckTimeout = DefaultAckTimeout
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(cfg.AckTimeout))
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Patience)
	defer cancel()
	l := &Log{
		nc:       nc,
		js:       js,
		prefix:   cfg.Stream,
		mayMake:  cfg.MayRoll,
		shared:   cfg.Shared,
		patience: cfg.Patience,
		maxBytes: min(int(nc.MaxPayload()), fileStoreMaxBytes) - headroomBytes,
	}
	info, err := l.findAtRest(ctx)
	if errors.Is(err, ErrNoStream) && cfg.MayCreate {
		info, err = l.create(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	if text := info.Config.Metadata[historyKey]; text != "" {
		if l.history, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: stream %s: %s is %q", ledger.ErrLogUnsafe, info.Config.Name, historyKey, text)
		}
	}
	l.replicas = info.Config.Replicas
	probe(l)
	return l, nil
}

// create makes the first stream.
func (l *Log) create(ctx context.Context, cfg Config) (*jetstream.StreamInfo, error) {
	stream, err := l.js.CreateStream(ctx, streamConfig(cfg))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return l.find(ctx, false) // another server has just made it, with an id of its own
	}
	if err != nil {
		return nil, outOfReach(fmt.Sprintf("open stream %s", cfg.Stream), err)
	}
	info := stream.CachedInfo()
	return info, l.follow([]*jetstream.StreamInfo{info})
}

// streamConfig keeps everything for ever and lets nobody delete a message. It
// does not use message ids, because the ledger has its own idempotency, without a
// time window.
func streamConfig(cfg Config) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        cfg.Stream,
		Description: "Allot's ledger: every message is one commit. Never delete, purge or edit this stream.",
		Subjects:    []string{Subject},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		MaxMsgs:     -1, MaxBytes: -1, MaxMsgSize: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1,
		Replicas:    max(cfg.Replicas, 1),
		Duplicates:  time.Second,
		Metadata:    firstMetadata(cfg),
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
	}
}

// firstMetadata is the metadata of the first stream.
func firstMetadata(cfg Config) map[string]string {
	metadata := make(map[string]string)
	if head := cfg.History; head.Sequence > 0 {
		metadata[historyKey] = strconv.FormatUint(head.Sequence, 10)
	}
	if cfg.Shared || cfg.Replicas > 1 {
		metadata[idKey] = newID()
	}
	if len(metadata) == 0 {
		return nil
	}
	return metadata
}

// History returns the sequence up to which the log must be filled before anybody
// leads, because it was created to begin with commits of another log; 0: there
// are none.
func (l *Log) History() uint64 { return l.history }

// checkConfig refuses a stream that would not preserve a log. The name of a stream
// says where in the log it begins.
func checkConfig(prefix string, cfg jetstream.StreamConfig) error {
	subject, first := StreamSubject(prefix, cfg.Name), StreamFirst(prefix, cfg.Name)
	if cfg.Sealed {
		subject = sealedSubjects + cfg.Name
	}
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{len(cfg.Subjects) != 1 || cfg.Subjects[0] != subject,
			fmt.Sprintf("its subjects are %v, not [%s]", cfg.Subjects, subject)},
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
		{max(cfg.FirstSeq, 1) != first, fmt.Sprintf("it begins with sequence %d", cfg.FirstSeq)},
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
	if withheld() {
		time.AfterFunc(DefaultAckTimeout/10, func() { done(appendError(nats.ErrTimeout)) })
		return
	}
	l.rolling.RLock()
	defer l.rolling.RUnlock()
	one := l.active()
	if err := l.follows(one, sequence); err != nil {
		done(err)
		return
	}
	if one.shared && l.continuation(one, ledger.Entry{Sequence: sequence, Data: encoded}) == "" {
		l.sent.Store(sequence)
	}
	options := [...]jetstream.PublishOpt{
		jetstream.WithExpectStream(one.stream),
		jetstream.WithRetryAttempts(0), // A retry could hide that the first try was stored.
		jetstream.WithExpectLastSequence(sequence - 1),
	}
	given := options[:]
	if unfenced {
		given = options[:2]
	}
	moved := l.moves.next()
	future, err := l.js.PublishMsgAsync(&nats.Msg{Subject: one.subject, Data: encoded}, given...)
	if err != nil {
		done(appendError(err))
		return
	}
	go func() {
		err := l.fate(sequence, future, moved)
		if err == nil {
			l.notice(one, ledger.Entry{Sequence: sequence, Data: encoded})
		} else {
			l.sent.Store(0) // another one may be in its place
		}
		done(err)
	}()
}

// fate waits for the outcome of an append.
func (l *Log) fate(sequence uint64, future jetstream.PubAckFuture, moved <-chan struct{}) error {
	var late <-chan time.Time
	for {
		select {
		case ack := <-future.Ok():
			if ack.Sequence != sequence || ack.Duplicate {
				return fmt.Errorf("%w: stored as %d instead of %d", ledger.ErrUnknownFate, ack.Sequence, sequence)
			}
			l.saw(sequence)
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
