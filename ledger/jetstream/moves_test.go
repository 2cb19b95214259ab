package jetstream

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
)

// silent is an append without an answer until the test gives one.
type silent struct {
	ok  chan *jetstream.PubAck
	err chan error
}

func (s *silent) Ok() <-chan *jetstream.PubAck { return s.ok }
func (s *silent) Err() <-chan error            { return s.err }
func (s *silent) Msg() *nats.Msg               { return nil }

// TestAppendAfterMove: an append that the stream's former leader has lost soon
// has an unknown fate, and one that the leader had taken is reported as stored.
func TestAppendAfterMove(t *testing.T) {
	l := &Log{}
	moved := l.moves.next()
	l.moves.tell()
	if err := l.fate(1, &silent{}, moved); !errors.Is(err, ledger.ErrUnknownFate) {
		t.Errorf("without an answer: %v", err)
	}
	taken := &silent{ok: make(chan *jetstream.PubAck, 1)}
	taken.ok <- &jetstream.PubAck{Sequence: 2}
	if err := l.fate(2, taken, moved); err != nil {
		t.Errorf("with an answer: %v", err)
	}
	if next := l.moves.next(); next == moved {
		t.Error("an append that comes after a move is taken for one before it")
	}
}
