package natsapi

import (
	"sync"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/fair"
)

const (
	// underWay is how many requests may be under way, and eachUnderWay how many of one
	// client, so that others find places, however long its requests take.
	underWay     = 1024
	eachUnderWay = underWay * 3 / 4
	// mostWaiting is how many requests may wait to be, and shareWaiting how many of
	// a client always may.
	mostWaiting  = 16 << 10
	shareWaiting = 256
)

// desk begins requests. Clients take turns, so a client that floods the door delays
// only itself.
type desk struct {
	mu      sync.Mutex
	busy    map[string]int     // requests under way, by client; guarded by mu
	count   int                // of all; guarded by mu
	waiting fair.Queue[func()] // guarded by mu
	closed  bool               // guarded by mu
	idle    *sync.Cond         // with mu: none is under way or waits
}

func newDesk() *desk {
	d := &desk{busy: make(map[string]int), waiting: fair.Queue[func()]{Most: mostWaiting, Share: shareWaiting}}
	d.idle = sync.NewCond(&d.mu)
	return d
}

// add has a client's request begin in its turn, which ends with done. If it may begin
// at once and takes microseconds, it begins here.
func (d *desk) add(client string, here bool, begin func()) error {
	d.mu.Lock()
	switch {
	case d.closed:
		d.mu.Unlock()
		return commands.ErrStopped
	case here && d.waiting.Len() == 0 && d.may(client):
		d.take(client)
		d.mu.Unlock()
		begin()
		return nil
	}
	defer d.mu.Unlock()
	if !d.waiting.Add(client, begin) {
		return fair.ErrBusy
	}
	d.serve()
	return nil
}

// may reports whether one more request of a client may begin; mu is held.
func (d *desk) may(client string) bool { return d.count < underWay && d.busy[client] < eachUnderWay }

func (d *desk) take(client string) {
	d.count++
	d.busy[client]++
}

// serve begins what may begin; mu is held.
func (d *desk) serve() {
	for d.count < underWay {
		client, begin, ok := d.waiting.Next(d.may)
		if !ok {
			return
		}
		d.take(client)
		go begin()
	}
}

// done ends a request of a client that was under way.
func (d *desk) done(client string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count--
	if d.busy[client]--; d.busy[client] == 0 {
		delete(d.busy, client)
	}
	d.serve()
	if d.count == 0 {
		d.idle.Broadcast()
	}
}

// close refuses further requests, and waits for those that wait or are under way.
func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for d.count > 0 {
		d.idle.Wait()
	}
}
