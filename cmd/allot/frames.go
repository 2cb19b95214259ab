package main

import (
	"maps"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// HTTP/2 has frames that ask for nothing, and costs the server work for each: pings,
// settings, streams that are reset at once or that are more than may be. So what an
// address sends over HTTP/2 is set off against what it gets: a request that is answered
// accounts for its own bytes, so does a body that is read, and an answer for the frames
// by which a client takes it. For the rest an address has an allowance, as long as others
// are there. Whoever has used it up waits, as sockets that nobody reads, and if a connection
// ends meanwhile, new ones of it begin slowly.

const (
	// frameBytes are what nothing accounts for in a second, some 4,000 of the smallest
	// frames, which take some milliseconds. framesAtOnce may come at once: more than a
	// connection sends of bodies until somebody reads them.
	frameBytes   = 64 << 10
	framesAtOnce = streamWindow + streamWindow/4
	// lookForFrames is how often who waits looks whether it may go on.
	lookForFrames = 20 * time.Millisecond
	// aroundRequest is what frames and TLS add to a request, aroundBody which part of a
	// body they add to it, and takingAnswer which part of an answer it takes to say that
	// it was taken.
	aroundRequest = 96
	aroundBody    = 8
	takingAnswer  = 16
)

// frames is the allowance of an address. Methods do nothing for nil frames.
type frames struct {
	mu     sync.Mutex
	left   int       // bytes; below zero it is used up; guarded by mu
	filled time.Time // when it was last filled up; guarded by mu
}

func newFrames() *frames { return &frames{left: framesAtOnce, filled: time.Now()} }

// takes says that so much has come, and reports whether the allowance is used up. More
// than framesAtOnce nobody pays back.
func (f *frames) takes(n int, now time.Time) (used bool) {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if more := int(now.Sub(f.filled).Seconds() * frameBytes); more > 0 {
		f.left, f.filled = min(f.left+more, framesAtOnce), now
	}
	f.left = max(f.left-n, -framesAtOnce)
	return f.left < 0
}

// gives says that so much of what has come is accounted for.
func (f *frames) gives(n int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = min(f.left+n, framesAtOnce)
}

// isFull reports whether the address would have no more if it were a new one.
func (f *frames) isFull(now time.Time) bool {
	f.takes(0, now)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left == framesAtOnce
}

// speaksStreams says that a connection speaks HTTP/2.
func (c *connection) speaksStreams() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.streams, c.frames = true, c.of.framesOf(c.from)
	c.turn.Begins()
}

// framesOf returns an address's allowance, and forgets those of addresses that have gone
// and have used up nothing, but not each time; mu is held.
func (l *connections) framesOf(from netip.Prefix) *frames {
	if now := time.Now(); now.Sub(l.pruned) >= forgetArrivals {
		l.pruned = now
		maps.DeleteFunc(l.frames, func(of netip.Prefix, f *frames) bool { return l.by[of] == 0 && f.isFull(now) })
	}
	f := l.frames[from]
	if f == nil {
		f = newFrames()
		l.frames[from] = f
	}
	return f
}

// awaitFrames waits until the connection's address may send more over HTTP/2, of which so
// much has just come.
func (c *connection) awaitFrames(n int) {
	for used := c.frames.takes(n, time.Now()); used && c.of.lines.Others(c.from); used = c.frames.takes(0, time.Now()) {
		select {
		case <-time.After(lookForFrames):
		case <-c.here.Done():
			return
		}
	}
}

// answered says that a request has its answer, unless its client has left it.
func (c *connection) answered(r *http.Request) {
	if c.frames == nil || r.Context().Err() != nil {
		return
	}
	n := aroundRequest + len(r.Method) + len(r.Host) + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	c.frames.gives(n)
}
