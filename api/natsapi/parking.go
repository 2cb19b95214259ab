package natsapi

import (
	"sync"
	"time"
)

// Bounds of queries that wait for their min_sequence.
const (
	mostParked       = 4096
	mostParkedClient = 256
	// parkingTick is the pause between two searches for queries that have waited
	// too long.
	parkingTick = 50 * time.Millisecond
)

// parking holds queries until the commits that they want can be read, or they
// have waited long enough. They do not count as under way meanwhile.
type parking struct {
	reached func() uint64
	changed func() <-chan struct{}
	now     func() time.Time
	arrived chan struct{} // capacity 1
	quit    chan struct{}
	stopped chan struct{}

	mu       sync.Mutex
	parked   map[*parked]bool // guarded by mu
	byClient map[string]int   // guarded by mu
	held     int              // queries that wait for something else; guarded by mu
}

// parked is one waiting query.
type parked struct {
	client string
	min    uint64
	until  time.Time
	resume func(late bool)
}

func newParking(reached func() uint64, changed func() <-chan struct{}, now func() time.Time) *parking {
	p := &parking{
		reached: reached, changed: changed, now: now, arrived: make(chan struct{}, 1), quit: make(chan struct{}),
		stopped: make(chan struct{}),
		parked:  make(map[*parked]bool), byClient: make(map[string]int),
	}
	go p.run()
	return p
}

// add adds a query unless too many wait.
func (p *parking) add(one *parked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.parked)+p.held >= mostParked || p.byClient[one.client] >= mostParkedClient {
		return false
	}
	p.parked[one] = true
	p.byClient[one.client]++
	select {
	case p.arrived <- struct{}{}:
	default:
	}
	return true
}

// hold counts a query that waits for something other than a sequence, unless too
// many wait. The caller must let it go.
func (p *parking) hold(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.parked)+p.held >= mostParked || p.byClient[client] >= mostParkedClient {
		return false
	}
	p.held++
	p.byClient[client]++
	return true
}

func (p *parking) letGo(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	p.leave(client)
}

// leave stops counting a client's query. The caller holds mu.
func (p *parking) leave(client string) {
	if p.byClient[client]--; p.byClient[client] == 0 {
		delete(p.byClient, client)
	}
}

// run lets queries go on until it is stopped. Queries that still wait then are
// answered as too late.
func (p *parking) run() {
	defer close(p.stopped)
	for {
		changed := p.changed()
		left := p.release(p.reached(), p.now())
		var tick <-chan time.Time
		if left == 0 {
			changed = nil // no query waits
		} else {
			tick = time.After(parkingTick)
		}
		select {
		case <-changed:
		case <-tick:
		case <-p.arrived:
		case <-p.quit:
			p.release(0, p.now().Add(time.Hour))
			return
		}
	}
}

// release lets queries go that need not or may not wait longer. It returns how
// many are left.
func (p *parking) release(reached uint64, now time.Time) int {
	p.mu.Lock()
	var ready []*parked
	for one := range p.parked {
		if one.min <= reached || !now.Before(one.until) {
			ready = append(ready, one)
			delete(p.parked, one)
			p.leave(one.client)
		}
	}
	left := len(p.parked)
	p.mu.Unlock()
	for _, one := range ready {
		one.resume(one.min > reached)
	}
	return left
}

func (p *parking) stop() {
	close(p.quit)
	<-p.stopped
}
