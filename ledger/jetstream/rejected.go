package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Names of the stream of rejected commands, which is not part of the log.
const (
	RejectedStream  = "ALLOT_REJECTED"
	RejectedSubject = "allot.rejected"
)

// RejectedConfig bounds the rejected commands that are kept. The oldest are
// removed first.
type RejectedConfig struct {
	MaxBytes int64
	MaxAge   time.Duration
	Replicas int // 1 if 0
}

// Rejected keeps messages about rejected commands.
type Rejected struct{ js jetstream.JetStream }

// OpenRejected finds the stream, or makes it, and sets its bounds. The stream is
// not synced with every message, so its contents may be lost.
func OpenRejected(ctx context.Context, nc *nats.Conn, cfg RejectedConfig) (*Rejected, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	stream := jetstream.StreamConfig{
		Name: RejectedStream, Description: "Commands that Allot rejected, and why.", Subjects: []string{RejectedSubject},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: jetstream.FileStorage,
		MaxBytes: cfg.MaxBytes, MaxAge: cfg.MaxAge, Replicas: max(cfg.Replicas, 1), AllowDirect: true,
	}
	if stream.Replicas == 1 {
		stream.PersistMode = jetstream.AsyncPersistMode
	}
	if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
		return nil, fmt.Errorf("jetstream: stream %s: %w", RejectedStream, err)
	}
	return &Rejected{js}, nil
}

// Append stores a message.
func (r *Rejected) Append(ctx context.Context, data []byte) error {
	if _, err := r.js.Publish(ctx, RejectedSubject, data, jetstream.WithExpectStream(RejectedStream)); err != nil {
		return fmt.Errorf("jetstream: stream %s: %w", RejectedStream, err)
	}
	return nil
}

// Newest calls yield with the stored messages, newest first, as long as it
// returns true. It fails with ledger.ErrUnavailable while the stream says nothing,
// such as without a leader.
func (r *Rejected) Newest(ctx context.Context, yield func([]byte) (more bool, err error)) error {
	stream, err := r.js.Stream(ctx, RejectedStream)
	if err != nil {
		return outOfReach("stream "+RejectedStream, err)
	}
	state := stream.CachedInfo().State
	for sequence := state.LastSeq; sequence >= max(state.FirstSeq, 1); sequence-- {
		msg, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // the message was removed meanwhile
		}
		if err != nil {
			return outOfReach("stream "+RejectedStream, err)
		}
		if more, err := yield(msg.Data); err != nil || !more {
			return err
		}
	}
	return nil
}
