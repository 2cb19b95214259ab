package machine

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

// Client is a machine whose program is the host's: a function that may wait, and use
// the network.
type Client struct {
	*Host
	process
}

// NewClient begins one.
func (w *World) NewClient(name string, ip uint32, run func(c *Client)) *Client {
	c := &Client{Host: w.host(ip, name)}
	c.done = func() {}
	c.start(w, func() {
		defer func() {
			if why := recover(); why != nil && why != (killed{}) {
				panic(why)
			}
		}()
		run(c)
	})
	return c
}

// Stop ends a client.
func (c *Client) Stop() { c.kill() }

// Now is the time since the world began.
func (c *Client) Now() time.Duration { return time.Duration(c.now) }

// Sleep waits.
func (c *Client) Sleep(wait time.Duration) {
	c.await(c.now+int64(wait), func() bool { return false })
}

// await waits until something is so, or a time has come.
func (c *Client) await(until int64, is func() bool) bool {
	for !is() {
		if c.now >= until {
			return false
		}
		c.wake(until)
		c.rest()
	}
	return true
}

// Conn is a connection of a client. Each wait of it ends after its patience.
type Conn struct {
	client   *Client
	end      *end
	Patience time.Duration
}

// Dial connects to a port of a machine.
func (c *Client) Dial(ip, port uint32, patience time.Duration) (*Conn, error) {
	e := c.dial(c.now, ip, port, func() { c.wake(c.process.world.now) })
	conn := &Conn{client: c, end: e, Patience: patience}
	if !c.await(c.now+int64(patience), func() bool { return e.connected || e.failed != 0 }) {
		return nil, errors.Join(os.ErrDeadlineExceeded, conn.Close())
	}
	if e.failed != 0 {
		return nil, errors.Join(syscall.ECONNREFUSED, conn.Close())
	}
	return conn, nil
}

// Read implements io.Reader.
func (c *Conn) Read(data []byte) (int, error) {
	if !c.client.await(c.client.now+int64(c.Patience), c.end.readable) {
		return 0, os.ErrDeadlineExceeded
	}
	n, failed := c.end.read(data)
	switch {
	case failed != disk.OK:
		return 0, syscall.ECONNRESET
	case n == 0 && len(data) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (c *Conn) Write(data []byte) (written int, err error) {
	for len(data) > 0 {
		if !c.client.await(c.client.now+int64(c.Patience), c.end.writable) {
			return written, os.ErrDeadlineExceeded
		}
		n, failed := c.end.write(c.client.now, data)
		if failed != disk.OK {
			return written, syscall.EPIPE
		}
		data, written = data[n:], written+n
	}
	return written, nil
}

// Close implements io.Closer.
func (c *Conn) Close() error {
	if c.end.closed {
		return net.ErrClosed
	}
	c.end.close(c.client.now)
	return nil
}
