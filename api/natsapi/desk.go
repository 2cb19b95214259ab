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
	// keptIdle is how many goroutines stay for further requests. A new one would copy its
	// stack several times while it grows, which is a tenth of what a read costs.
	keptIdle = 64
)

// desk begins requests. Clients take turns, so a client that floods the door delays
// only itself.
type desk struct {
	mu      sync.Mutex
	busy    map[string]int     // requests under way, by client; guarded by mu
	count   int                // of all; guarded by mu
	waiting fair.Queue[func()] // guarded by mu
	closed  bool               // guarded by mu
	none    *sync.Cond         // with mu: none is under way or waits
	idle    int                // goroutines that wait for next; guarded by mu
	next    chan func()        // has room for all of them
}

func newDesk() *desk {
	d := &desk{
		busy: make(map[string]int), waiting: fair.Queue[func()]{Most: mostWaiting, Share: shareWaiting},
		next: make(chan func(), keptIdle),
	}
	d.none = sync.NewCond(&d.mu)
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
		if d.idle > 0 {
			d.idle--
			d.next <- begin
		} else {
			go d.work(begin)
		}
	}
}

// work begins a request, and further ones while few goroutines wait for them.
func (d *desk) work(begin func()) {
	for begin != nil {
		begin()
		if !d.stay() {
			return
		}
		begin = <-d.next
	}
}

func (d *desk) stay() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.idle == keptIdle {
		return false
	}
	d.idle++
	return true
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
		d.none.Broadcast()
	}
}

// close refuses further requests, and waits for those that wait or are under way.
func (d *desk) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for d.count > 0 {
		d.none.Wait()
	}
	for ; d.idle > 0; d.idle-- {
		d.next <- nil
	}
}
