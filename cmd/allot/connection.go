package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/turns"
)

const (
	// takesWithin is how long a client may take for the next pieceBytes of an
	// answer, and for what the kernel keeps of it. That is bounded by sendBuffer,
	// because the kernel says nothing until a third of it was taken.
	takesWithin = 10 * time.Second
	pieceBytes  = 64 << 10
	sendBuffer  = 256 << 10
)

// connection is one connection of an HTTP port.
type connection struct {
	net.Conn
	of   *connections
	from netip.Prefix
	// turn is what the connection reads with and, of HTTP/1, what its request is
	// answered with.
	turn    *turns.Turn
	frames  *frames // its address's, if it speaks HTTP/2
	streams bool    // it does: requests have turns of their own. Both are written with of.mu held, before it is served

	until      atomic.Int64 // of the deadline for writing, as told by sinceStart; fixed: somebody else's
	requests   atomic.Int64 // under way
	since      atomic.Int64 // when it was made, or its last request ended, as told by sinceStart
	unfinished atomic.Int64 // bytes of a request without a handler
	gone       atomic.Bool  // it has left. Set before what it had is no longer counted
	// here ends when it has left: who waits for a turn with an answer for it, which is no
	// longer counted, waits no more.
	here context.Context
	goes context.CancelFunc

	untaken int       // bytes of answers; guarded by of.mu
	took    time.Time // when it last took some of an answer, or began to; guarded by of.mu
}

// fixed is a deadline for writing that does not move.
const fixed = -1

// sinceStart returns nanoseconds that the time of day has no say in: were it set back,
// no deadline would move for as long, and each kept connection would be cut off.
func sinceStart(t time.Time) int64 { return int64(t.Sub(processStart)) }

var processStart = time.Now()

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	if _, ok := c.of.all[c]; ok && c.frames.takes(0, time.Now()) {
		c.of.arrivals.strike(c.from) // it may come back to send more, which costs a handshake each time
	}
	c.of.leave(c)
	c.of.mu.Unlock()
	c.turn.GiveUp()
	return c.Conn.Close()
}

// Read implements net.Conn. Who reads waits for the client. What came is worked on
// with a turn, until the next Read: handshakes, frames and headers. A handler of
// HTTP/1 has the turn for itself, and net/http reads beside it.
func (c *connection) Read(p []byte) (int, error) {
	if c.streams || c.requests.Load() == 0 {
		c.turn.GiveUp()
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	if c.requests.Load() == 0 {
		c.begun(n)
	}
	c.awaitFrames(n)
	if c.streams || c.requests.Load() == 0 {
		_ = c.turn.Take(c.here) // who has left needs none
	} else {
		c.turn.Yield()
	}
	return n, err
}

// Write implements net.Conn. Each piece must be taken in time. Who writes may wait
// for the client.
func (c *connection) Write(p []byte) (n int, err error) {
	if !c.streams && c.turn.GiveUp() {
		defer func() {
			if c.requests.Load() > 0 {
				_ = c.turn.Take(c.here) // who has left needs none
			}
		}()
	}
	for {
		if err := c.moveDeadline(); err != nil {
			return n, err
		}
		took, err := c.Conn.Write(p[n:min(len(p), n+pieceBytes)])
		c.turn.Yield()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			forget(c.Conn)
		}
		c.frames.gives(took / takingAnswer)
		if n += took; err != nil || n == len(p) {
			return n, err
		}
	}
}

// moveDeadline moves the deadline for writing, but not for every byte.
func (c *connection) moveDeadline() error {
	now := time.Now()
	until := c.until.Load()
	if until == fixed || until != 0 && until-sinceStart(now) > int64(takesWithin-time.Second) {
		return nil
	}
	c.until.CompareAndSwap(until, sinceStart(now.Add(takesWithin)))
	return c.Conn.SetWriteDeadline(now.Add(takesWithin))
}

// SetWriteDeadline implements net.Conn. Without a deadline each piece has its own.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.until.CompareAndSwap(fixed, 0)
		return nil
	}
	c.until.Store(fixed)
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	if err := c.SetWriteDeadline(t); err != nil {
		return err
	}
	return c.SetReadDeadline(t)
}

// begins says that a request has a handler.
func (c *connection) begins() {
	c.requests.Add(1)
	if all := c.of.unfinished.Add(-c.unfinished.Swap(0)); all <= heavyBytes && c.of.isHeavy.Load() {
		c.of.mu.Lock()
		c.of.weigh()
		c.of.mu.Unlock()
	}
}

// ends says that a handler is done.
func (c *connection) ends() {
	c.since.Store(sinceStart(time.Now()))
	c.requests.Add(-1)
}

type connectionKey struct{}

// withConnection returns a context that carries the connection: http.Server's ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	for {
		switch outer := c.(type) {
		case *plainErrorsConn:
			c = outer.Conn
		case *tls.Conn:
			c = outer.NetConn()
		case *connection:
			return outer.turn.Carry(context.WithValue(ctx, connectionKey{}, outer))
		default:
			return ctx
		}
	}
}
