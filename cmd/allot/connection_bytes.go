package main

import (
	"net/netip"
	"time"
)

// What a connection makes the server hold is counted: bytes of requests that no handler
// has yet, and of answers that its client does not take. Of each all connections together
// may hold so much. Beyond it those that hold most are cut off.

const (
	// maxUnfinished is what clients may have sent of requests that no handler has
	// yet: headers without an end. Beyond it whoever has sent most is cut off.
	maxUnfinished = 8 << 20
	// maxUntaken is what answers may hold that clients do not take. Beyond it
	// whoever has left most is cut off if it has taken nothing within stalls, and
	// beyond brimUntaken in any case.
	maxUntaken  = 16 << 20
	brimUntaken = 32 << 20
	stalls      = 250 * time.Millisecond
	// heavyBytes of both are much memory.
	heavyBytes = 2 << 20
)

// weigh tells whether much is held, if that has changed; mu is held.
func (l *connections) weigh() {
	isHeavy := l.untaken > heavyBytes || l.unfinished.Load() > heavyBytes
	if isHeavy != l.isHeavy.Load() {
		l.isHeavy.Store(isHeavy)
		if l.heavy != nil {
			l.heavy(isHeavy)
		}
	}
}

// begun says that so much came of a request without a handler.
func (c *connection) begun(n int) {
	c.unfinished.Add(int64(n))
	all := c.of.unfinished.Add(int64(n))
	if c.gone.Load() { // it was cut off meanwhile, which counts nothing that comes later
		all = c.of.unfinished.Add(-c.unfinished.Swap(0))
	}
	if (all > maxUnfinished || all > heavyBytes && !c.of.isHeavy.Load()) && c.of.ends.CompareAndSwap(false, true) {
		go c.of.endUnfinished()
	}
}

// endUnfinished cuts off those that have sent most of requests without an end. One
// goroutine does so at a time, and no connection waits for it: a thousand that send
// would stand in line for the lock, and with them every other that reads.
func (l *connections) endUnfinished() {
	for again := true; again; {
		for l.endLargest() {
		}
		l.ends.Store(false)
		// What came since the last look has found somebody at it.
		again = l.unfinished.Load() > maxUnfinished && l.ends.CompareAndSwap(false, true)
	}
}

// endLargest cuts off one of them, and reports whether there may be more.
func (l *connections) endLargest() bool {
	l.mu.Lock()
	l.weigh()
	if l.unfinished.Load() <= maxUnfinished {
		l.mu.Unlock()
		return false
	}
	var most *connection
	for c := range l.all {
		if n := c.unfinished.Load(); n > 0 && (most == nil || n > most.unfinished.Load()) {
			most = c
		}
	}
	if most == nil {
		l.mu.Unlock()
		return false // what is left is of connections that leave
	}
	l.refuse("HTTP headers without an end take too much memory, and a connection is cut off", most.from, len(l.all))
	l.putOut(most)
	l.mu.Unlock()
	drop(most.Conn)
	return true
}

// leaves says that a client has so many more bytes of answers to take.
func (c *connection) leaves(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, ok := c.of.all[c]; !ok {
		return // it is cut off
	}
	if c.untaken == 0 {
		c.took = time.Now()
	}
	c.untaken += n
	c.of.untaken += n
	c.of.relieve()
	c.of.weigh()
}

// takes says that it has taken so many, or that nobody sends them any more.
func (c *connection) takes(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	n = min(n, c.untaken)
	c.untaken -= n
	c.of.untaken -= n
	c.took = time.Now()
	c.of.weigh()
}

// relieve cuts off who leaves most, while there is too much; mu is held.
func (l *connections) relieve() {
	for l.untaken > maxUntaken {
		c := l.laziest(time.Now())
		if c == nil {
			if !l.looks {
				l.looks = true
				time.AfterFunc(stalls, func() {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.looks = false
					l.relieve()
				})
			}
			return
		}
		l.refuse("answers that HTTP clients do not take hold too much memory, and a connection is cut off", c.from, len(l.all))
		l.cutOff(c)
	}
}

// laziest returns the connection that has left most, of the address that has left
// most; nil: all of them go on. mu is held.
func (l *connections) laziest(now time.Time) (found *connection) {
	by := make(map[netip.Prefix]int)
	for c := range l.all {
		by[c.from] += c.untaken
	}
	for c := range l.all {
		if c.untaken == 0 || l.untaken <= brimUntaken && now.Sub(c.took) < stalls {
			continue
		}
		if found == nil || by[c.from] > by[found.from] || by[c.from] == by[found.from] && c.untaken > found.untaken {
			found = c
		}
	}
	return found
}
