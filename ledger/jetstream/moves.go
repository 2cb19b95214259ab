package jetstream

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ElectedSubject begins the subject on which JetStream announces that a stream
// has another leader.
const ElectedSubject = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."

// afterMove is how much longer an append may take after the stream has got
// another leader. What the former leader has not taken by then is most likely
// lost.
const afterMove = 100 * time.Millisecond

// moves tells appends that the stream has got another leader.
type moves struct {
	mu    sync.Mutex
	moved chan struct{} // closed with the next move; nil: no append waits; guarded by mu
}

// HearMoves makes appends under way fail early, with unknown fate, when the
// stream has got another leader, instead of after Config.AckTimeout. The
// connection must be allowed to hear JetStream's advisories.
func (l *Log) HearMoves() error {
	_, err := l.nc.Subscribe(ElectedSubject+"*", func(msg *nats.Msg) {
		if msg.Subject == ElectedSubject+l.stream {
			l.moves.tell()
		}
	})
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	return nil
}

func (m *moves) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved != nil {
		close(m.moved)
		m.moved = nil
	}
}

// next returns a channel that is closed when the stream gets another leader.
func (m *moves) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(chan struct{})
	}
	return m.moved
}
