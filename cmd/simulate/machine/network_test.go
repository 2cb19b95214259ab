package machine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

const (
	alice uint32 = 10<<24 + 1
	bob   uint32 = 10<<24 + 2
	port  uint32 = 80
)

// talk lets a client talk to a host, which answers each byte with the same byte.
func talk(t *testing.T, seed uint64, faults func(w *World, bob *Host), client func(c *Client) error) (*World, error) {
	t.Helper()
	w := NewWorld(seed)
	there := w.host(bob, "bob")
	echo(t, there)
	var err error
	ended := false
	w.NewClient("alice", alice, func(c *Client) { err = client(c); ended = true })
	faults(w, there)
	w.Run(time.Minute, func() bool { return ended })
	if !ended {
		t.Fatal("the client did not end")
	}
	return w, err
}

func none(*World, *Host) {}

// echo listens, and answers what comes.
func echo(t *testing.T, h *Host) {
	t.Helper()
	var l *listener
	l, failed := h.listen(port, func() {
		for _, e := range l.waiting {
			e.wake = func() {
				data := make([]byte, 1<<16)
				n, failed := e.read(data)
				if failed == disk.OK && n > 0 {
					_, _ = e.write(h.world.now, data[:n]) // a connection that has failed is of no use
				}
			}
			e.wake()
		}
		l.waiting = nil
	})
	if failed != disk.OK {
		t.Fatalf("error %d", failed)
	}
}

// exchange sends bytes one after the other, and expects them back.
func exchange(c *Client, times int) error {
	conn, err := c.Dial(bob, port, 5*time.Second)
	if err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	for i := range times {
		if _, err := conn.Write([]byte{byte(i)}); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		var got [1]byte
		if _, err := io.ReadFull(conn, got[:]); err != nil {
			return fmt.Errorf("read %d: %w", i, err)
		}
		if got[0] != byte(i) {
			return fmt.Errorf("%d came back as %d", i, got[0])
		}
	}
	return conn.Close()
}

func TestExchange(t *testing.T) {
	if _, err := talk(t, 1, none, func(c *Client) error { return exchange(c, 100) }); err != nil {
		t.Error(err)
	}
}

func TestManyBytesArriveInOrder(t *testing.T) {
	_, err := talk(t, 1, none, func(c *Client) error {
		conn, err := c.Dial(bob, port, time.Second)
		if err != nil {
			return err
		}
		conn.Patience = time.Second
		sent := make([]byte, 3*window)
		for i := range sent {
			sent[i] = byte(i % 251)
		}
		got := make([]byte, len(sent))
		for at := 0; at < len(sent); at += 1 << 14 {
			if _, err := conn.Write(sent[at : at+1<<14]); err != nil {
				return err
			}
			if _, err := io.ReadFull(conn, got[at:at+1<<14]); err != nil {
				return err
			}
		}
		if string(got) != string(sent) {
			return errors.New("other bytes came back")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNothingListens(t *testing.T) {
	_, err := talk(t, 1, none, func(c *Client) error {
		_, err := c.Dial(bob, port+1, time.Second)
		return err
	})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error: %v", err)
	}
}

func TestWayThatIsClosedForAWhile(t *testing.T) {
	for _, way := range [][2]uint32{{alice, bob}, {bob, alice}} {
		var waited time.Duration
		block := func(w *World, _ *Host) {
			link := w.Link(way[0], way[1])
			w.After(10*time.Millisecond, func() { link.Block(true) })
			w.After(time.Second, func() { link.Block(false) })
		}
		_, err := talk(t, 1, block, func(c *Client) error {
			err := exchange(c, 100)
			waited = c.Now()
			return err
		})
		if err != nil || waited < time.Second || waited > 4*time.Second {
			t.Errorf("%v: %v after %v", way, err, waited)
		}
	}
}

func TestWayThatStaysClosed(t *testing.T) {
	block := func(w *World, _ *Host) { w.Link(bob, alice).Block(true) }
	_, err := talk(t, 1, block, func(c *Client) error { return exchange(c, 1) })
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
}

func TestLostConnection(t *testing.T) {
	cut := func(w *World, _ *Host) {
		w.After(10*time.Millisecond, func() {
			if n := w.Cut(alice, bob, 1, false); n != 1 {
				t.Errorf("%d connections were lost", n)
			}
		})
	}
	_, err := talk(t, 1, cut, func(c *Client) error { return exchange(c, 1000) })
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("error: %v", err)
	}
}

func TestHalfOpenConnectionIsSilent(t *testing.T) {
	cut := func(w *World, _ *Host) { w.After(10*time.Millisecond, func() { w.Cut(alice, bob, 1, true) }) }
	_, err := talk(t, 1, cut, func(c *Client) error {
		conn, err := c.Dial(bob, port, time.Second)
		if err != nil {
			return err
		}
		c.Sleep(100 * time.Millisecond)
		conn.Patience = 5 * time.Second
		if _, err := conn.Write([]byte("x")); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		_, err = conn.Read(make([]byte, 1))
		return err
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error: %v", err)
	}
}

func TestPowerCutIsSilentUntilThePowerIsBack(t *testing.T) {
	for _, back := range []bool{false, true} {
		off := func(w *World, bob *Host) {
			w.After(10*time.Millisecond, bob.off)
			if back {
				w.After(time.Second, bob.on)
			}
		}
		_, err := talk(t, 1, off, func(c *Client) error {
			conn, err := c.Dial(bob, port, time.Second)
			if err != nil {
				return err
			}
			c.Sleep(100 * time.Millisecond)
			conn.Patience = 10 * time.Second
			if _, err := conn.Write([]byte("x")); err != nil {
				return fmt.Errorf("write: %w", err)
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		})
		want := os.ErrDeadlineExceeded
		if back {
			want = syscall.ECONNRESET
		}
		if !errors.Is(err, want) {
			t.Errorf("power back %v: error: %v", back, err)
		}
	}
}

func TestSameSeedIsTheSameWorld(t *testing.T) {
	digest := func(seed uint64) string {
		w, err := talk(t, seed, none, func(c *Client) error { return exchange(c, 50) })
		if err != nil {
			t.Fatal(err)
		}
		return w.Digest()
	}
	if first, second := digest(1), digest(1); first != second {
		t.Error("the same seed gave another world")
	}
	if digest(1) == digest(2) {
		t.Error("another seed gave the same world")
	}
}
