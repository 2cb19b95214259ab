package jetstream

import (
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ElectedSubject begins the subject on which JetStream tells that a stream has
// another leader.
const ElectedSubject = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."

// afterMove is how long an append may take yet after the stream has got another
// leader: what the former one has not taken by then it has most likely lost.
const afterMove = 100 * time.Millisecond

// moves tells appends that the stream has got another leader.
type moves struct {
	mu    sync.Mutex
	moved chan struct{} // closed with the next move; nil: nobody waits; guarded by mu
}

// HearMoves has appends under way fail soon, their fate unknown, when the
// stream has got another leader, instead of after Config.AckTimeout. The
// connection needs the right to hear JetStream's advisories.
func (l *Log) HearMoves() error {
	if _, err := l.nc.Subscribe(ElectedSubject+l.stream, func(*nats.Msg) { l.moves.tell() }); err != nil {
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

// next is closed when the stream gets another leader.
func (m *moves) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(chan struct{})
	}
	return m.moved
}
