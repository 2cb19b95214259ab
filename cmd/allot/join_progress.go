package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/snapshots/copies"
)

// joinTell is how often it is told how far a copy has come.
const joinTell = 5 * time.Second

// joinProgress is how far a copy has come that this server fetches.
type joinProgress struct {
	server *server
	began  time.Time

	mu   sync.Mutex
	now  copies.Progress // guarded by mu
	told time.Time       // guarded by mu
}

// tell takes note of it.
func (p *joinProgress) tell(now copies.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Bytes < p.now.Bytes && now.From == p.now.From {
		return // one that was overtaken
	}
	p.now = now
	text := fmt.Sprintf("State and read models come from %s: %d of %d MiB", now.From, now.Bytes>>20, now.Of>>20)
	p.server.waits.Store(&text)
	if time.Since(p.told) < joinTell {
		return
	}
	p.told = time.Now()
	p.server.logger.Info("joining", "from", now.From, "bytes", now.Bytes, "of", now.Of, "since", time.Since(p.began))
}

// member is this server, as the others are told of it.
func (p *joinProgress) member() cluster.Member {
	p.mu.Lock()
	now := p.now
	p.mu.Unlock()
	s := p.server
	m := cluster.Member{
		Name: s.config.Cluster.Name, HTTP: s.config.Cluster.REST, Version: cli.Version(),
		Sequence: s.views.Checkpoint().Sequence, Joining: &now,
	}
	whole := s.whole()
	m.Whole = whole == nil || whole()
	return m
}
