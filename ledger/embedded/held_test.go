package embedded

import (
	"math"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// heldDoor is a door for which messages of one size come.
type heldDoor struct {
	aDoor
	read   *atomic.Int64 // bytes that have come
	size   int           // of a message
	behind int           // how many messages it has not looked at, at most
	mu     sync.Mutex
	caught chan struct{}
	most   int
}

func (d *heldDoor) Came() int { return int(d.read.Load()) / d.size }

func (d *heldDoor) Unseen() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return min(d.Came(), d.behind)
}

func (d *heldDoor) Caught(most int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caught, d.most = make(chan struct{}), most
	return d.caught
}

// looks has it look at everything from now on.
func (d *heldDoor) looks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.behind = 0
	close(d.caught)
}

// TestHeldBytes: the door's connection gives the library no more than the door may
// hold, until the door has looked at nearly all of it, there is another door or none,
// the connection ends; when none of this comes, it still takes a little now and then.
func TestHeldBytes(t *testing.T) {
	t.Parallel()
	const large, small = 128 << 10, 256
	type then = func(*heldDoor, *watched, *doorConn)
	looks := func(d *heldDoor, _ *watched, _ *doorConn) { d.looks() }
	loses := func(_ *heldDoor, w *watched, _ *doorConn) { w.set(nil) }
	ends := func(_ *heldDoor, _ *watched, c *doorConn) { _ = c.Close() }
	for name, c := range map[string]struct {
		size, behind, waits int // it waits when it has read so much
		then                then
		breath              time.Duration
	}{
		// leftUnseen of the largest have heldBytes, so that as many more are read.
		"the door looks":       {large, math.MaxInt, 2 * heldBytes, looks, time.Hour},
		"they are small":       {small, math.MaxInt, heldBytes, looks, time.Hour},
		"most is looked at":    {small, heldBytes / (small + eachTakes) / 2, heldAtMost, looks, time.Hour},
		"there is no door":     {large, math.MaxInt, 2 * heldBytes, loses, time.Hour},
		"the connection ends":  {large, math.MaxInt, 2 * heldBytes, ends, time.Hour},
		"the door looks never": {large, math.MaxInt, 2 * heldBytes, func(*heldDoor, *watched, *doorConn) {}, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var read atomic.Int64
			door, watched := &heldDoor{read: &read, size: c.size, behind: c.behind}, newWatched()
			watched.set(door)
			mine, servers := net.Pipe()
			defer func() { _ = servers.Close() }() // nothing more is expected of it
			go func() {
				for err := error(nil); err == nil; { // the server has more for it, until the connection ends
					_, err = servers.Write(make([]byte, 64<<10))
				}
			}()
			conn := &doorConn{
				Conn: mine, door: watched, breath: c.breath, closed: make(chan struct{}),
			}
			ended := make(chan error)
			go func() {
				buf := make([]byte, 32<<10)
				for {
					n, err := conn.Read(buf)
					if read.Add(int64(n)) >= 2*heldAtMost || err != nil {
						ended <- err
						return
					}
				}
			}()
			select {
			case <-watched.full: // it waits
			case err := <-ended:
				t.Fatalf("it does not wait: it has read %d bytes, and %v", read.Load(), err)
			}
			const atOnce = 128<<10 + 32<<10 // a message that is not whole, and what is read
			if n := int(read.Load()); c.breath == time.Hour && (n < c.waits || n > c.waits+atOnce) {
				t.Errorf("it waits when it has read %d bytes", n)
			}
			c.then(door, watched, conn)
			select {
			case err := <-ended:
				if (err != nil) != (name == "the connection ends") {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(time.Minute):
				t.Errorf("it still waits, having read %d bytes", read.Load())
			}
		})
	}
}
