package embedded

import (
	"io"
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
	// heldBytes is what the library may hold of what the door has not looked at, as far
	// as the mean size of the last messages tells, and heldAtMost whatever it tells.
	heldBytes  = 4 << 20
	heldAtMost = 8 * heldBytes
	// eachTakes is what a message takes in the library besides its bytes: its subjects,
	// and a map of its headers.
	eachTakes = 1 << 10
	// leftUnseen is as few messages as the door need look at before it gets more.
	leftUnseen = 32
	// breath is how long the connection takes nothing at most: the server closes one
	// that takes nothing within writeDeadline. After it one more piece is read.
	breath = writeDeadline / 8
)

// doorConns makes the connections of the door, for the client library.
type doorConns struct {
	ns   *server.Server
	door *watched
}

// InProcessConn implements nats.InProcessConnProvider.
func (d *doorConns) InProcessConn() (net.Conn, error) {
	conn, err := d.ns.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &doorConn{Conn: conn, door: d.door, breath: breath, closed: make(chan struct{})}, nil
}

// doorConn is a connection of the door. One goroutine reads.
type doorConn struct {
	net.Conn
	door   *watched
	breath time.Duration
	given  int                       // bytes since the door had last caught up
	window struct{ bytes, came int } // the bytes read since so many messages had come
	mean   int                       // size of the messages of the window before
	once   sync.Once
	closed chan struct{}
}

// Read waits for the door before it reads more than that may hold.
func (c *doorConn) Read(p []byte) (int, error) {
	if c.given >= heldBytes {
		switch c.catchUp() {
		case ended:
			return 0, io.EOF
		case caughtUp:
			c.given = 0
		case goesOn:
		}
	}
	n, err := c.Conn.Read(p)
	c.given += n
	c.window.bytes += n
	return n, err
}

// most returns how many messages the door may have not looked at.
func (c *doorConn) most(d Door) int {
	came := d.Came()
	mean := max(c.mean, c.window.bytes/max(came-c.window.came, 1))
	if c.window.bytes >= heldBytes {
		c.mean = c.window.bytes / max(came-c.window.came, 1)
		c.window.bytes, c.window.came = 0, came
	}
	if c.given >= heldAtMost {
		return leftUnseen
	}
	return max(heldBytes/(max(mean, 1)+eachTakes), leftUnseen)
}

// Close ends a Read that waits, too.
func (c *doorConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// What ends the wait for the door.
type ending int

const (
	caughtUp ending = iota // the door has looked at nearly everything
	goesOn                 // it may have more, or takes long
	ended                  // the connection is closed
)

// catchUp waits until the door has looked at enough, but not for long.
func (c *doorConn) catchUp() ending {
	timer := time.NewTimer(c.breath)
	defer timer.Stop()
	for {
		door, other := c.door.get()
		if door == nil {
			return caughtUp
		}
		most, unseen := c.most(door), door.Unseen()
		switch {
		case unseen <= leftUnseen:
			return caughtUp
		case unseen <= most:
			return goesOn
		}
		select {
		case c.door.full <- struct{}{}:
		default: // it is known
		}
		select {
		case <-door.Caught(most):
			return goesOn
		case <-other:
		case <-c.closed:
			return ended
		case <-timer.C:
			return goesOn
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
