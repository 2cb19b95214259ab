package embedded

import (
	"cmp"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// heldDoor is a door that looks at what it is told to look at.
type heldDoor struct {
	aDoor
	mu     sync.Mutex
	caught chan struct{}
}

func (d *heldDoor) Caught(most int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caught = make(chan struct{})
	d.tell(most)
	return d.caught
}

func (d *heldDoor) tell(most int) {
	if d.caught != nil && d.Unseen() <= most {
		close(d.caught)
		d.caught = nil
	}
}

// looks has it look at all but some.
func (d *heldDoor) looks(left int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unseen.Store(int64(left))
	d.tell(leftUnseen)
}

// TestHeldBytes: the door's connection gives the library no more than the door may
// hold, until the door has looked at nearly all of it, there is another door or none,
// the connection ends, or the door seems to be stuck.
func TestHeldBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then  func(*heldDoor, *watched, *doorConn)
		stuck time.Duration
		ends  bool
	}{
		"the door looks":       {then: func(d *heldDoor, _ *watched, _ *doorConn) { d.looks(leftUnseen) }},
		"there is no door":     {then: func(_ *heldDoor, w *watched, _ *doorConn) { w.set(nil) }},
		"there is another":     {then: func(_ *heldDoor, w *watched, _ *doorConn) { w.set(new(heldDoor)) }},
		"the connection ends":  {then: func(_ *heldDoor, _ *watched, conn *doorConn) { _ = conn.Close() }, ends: true},
		"the door looks never": {then: func(*heldDoor, *watched, *doorConn) {}, stuck: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			door, watched := new(heldDoor), newWatched()
			door.unseen.Store(leftUnseen + 1)
			watched.set(door)
			mine, servers := net.Pipe()
			defer func() { _ = servers.Close() }() // nothing more is expected of it
			go func() {
				for err := error(nil); err == nil; { // the server has more for it, until the connection ends
					_, err = servers.Write(make([]byte, 64<<10))
				}
			}()
			conn := &doorConn{
				Conn: mine, door: watched, log: slog.New(slog.DiscardHandler), stuck: cmp.Or(c.stuck, time.Hour),
				closed: make(chan struct{}),
			}
			var read atomic.Int64
			ended := make(chan error)
			go func() {
				buf := make([]byte, 32<<10)
				for {
					n, err := conn.Read(buf)
					if read.Add(int64(n)) >= 2*heldBytes || err != nil {
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
			if n := read.Load(); c.stuck == 0 && (n < heldBytes || n >= heldBytes+32<<10) {
				t.Errorf("it waits when it has read %d bytes", n)
			}
			c.then(door, watched, conn)
			select {
			case err := <-ended:
				if (err != nil) != c.ends {
					t.Errorf("it ends with %v", err)
				}
			case <-time.After(time.Minute):
				t.Errorf("it still waits, having read %d bytes", read.Load())
			}
		})
	}
}
