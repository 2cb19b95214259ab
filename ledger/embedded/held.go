package embedded

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The client library reads all that the server has for it, and keeps it in lists
// without a bound until it is looked at. So the door's connection gives it no more
// to read while the door has much that it has not looked at. The rest then waits in
// the server, where the crowd is watched.

const (
	// heldBytes is how much the library may read until the door must have looked at
	// all but leftUnseen messages. So what it holds is less than heldBytes and
	// leftUnseen of the largest messages.
	heldBytes  = 4 << 20
	leftUnseen = 32
	// stuckAfter is when reading goes on although the door has looked at nothing: a
	// count that is wrong must not stop the door for ever.
	stuckAfter = time.Second
)

// doorConns makes the connections of the door, for the client library.
type doorConns struct {
	ns   *server.Server
	door *watched
	log  *slog.Logger
}

// InProcessConn implements nats.InProcessConnProvider.
func (d *doorConns) InProcessConn() (net.Conn, error) {
	conn, err := d.ns.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &doorConn{Conn: conn, door: d.door, log: d.log, stuck: stuckAfter, closed: make(chan struct{})}, nil
}

// doorConn is a connection of the door. One goroutine reads.
type doorConn struct {
	net.Conn
	door   *watched
	log    *slog.Logger
	stuck  time.Duration // see stuckAfter
	given  int           // bytes since the door had last caught up
	once   sync.Once
	closed chan struct{}
}

// Read waits for the door before it reads more than that may hold.
func (c *doorConn) Read(p []byte) (int, error) {
	if c.given >= heldBytes {
		if !c.catchUp() {
			return 0, io.EOF
		}
		c.given = 0
	}
	n, err := c.Conn.Read(p)
	c.given += n
	return n, err
}

// Close ends a Read that waits, too.
func (c *doorConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// catchUp waits until the door has looked at nearly everything. It reports whether
// the connection is still open.
func (c *doorConn) catchUp() bool {
	for {
		door, other := c.door.get()
		if door == nil {
			return true
		}
		before := door.Unseen()
		if before <= leftUnseen {
			return true
		}
		select {
		case c.door.full <- struct{}{}:
		default: // it is known
		}
		select {
		case <-door.Caught(leftUnseen):
			return true
		case <-other:
		case <-c.closed:
			return false
		case <-time.After(c.stuck):
			if now := door.Unseen(); now >= before {
				c.log.Warn("the door looks at no requests, and more are read all the same", "unseen", now)
				return true
			}
		}
	}
}

// watched is the door that takes the clients' requests, if there is one.
type watched struct {
	now atomic.Pointer[watchedDoor]
	// full is told when more has come for the door than it may hold. It has
	// capacity 1.
	full chan struct{}
}

// watchedDoor is a door until there is another one.
type watchedDoor struct {
	door  Door          // nil: there is none
	other chan struct{} // closed: there is another one
}

func newWatched() *watched {
	w := &watched{full: make(chan struct{}, 1)}
	w.now.Store(&watchedDoor{other: make(chan struct{})})
	return w
}

// set sets the door; nil: there is none.
func (w *watched) set(d Door) { close(w.now.Swap(&watchedDoor{d, make(chan struct{})}).other) }

// get returns the door, and what is closed when there is another one.
func (w *watched) get() (Door, <-chan struct{}) {
	now := w.now.Load()
	return now.door, now.other
}
