package logtest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// Faults are what a Proxy does to the bytes that pass it. The zero value passes
// them on unchanged.
type Faults struct {
	// SilentOut and SilentIn hold back what clients and the server send, until
	// the fault has ended. Both together are a network that has gone silent; one
	// alone is a half-open connection.
	SilentOut, SilentIn bool
	// Delay comes before each piece that clients and the server send: a slow network.
	Delay time.Duration
	// Piece is the largest number of bytes that are passed on at a time; 0: no
	// bound.
	Piece int
	// Refuse resets new connections.
	Refuse bool
	// CutIn resets each connection after this many more bytes from the server,
	// usually in the middle of a message; 0: never.
	CutIn int
}

// Silence is a network that passes nothing on and reports nothing.
var Silence = Faults{SilentOut: true, SilentIn: true}

// Proxy passes TCP connections on to a server, and makes network faults between
// the server and its clients.
type Proxy struct {
	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu      sync.Mutex
	faults  Faults             // guarded by mu
	changed chan struct{}      // closed when faults change; guarded by mu
	links   map[*link]struct{} // guarded by mu
	closed  bool               // guarded by mu
}

// link is one connection through a proxy.
type link struct {
	client, server *net.TCPConn
	closed         chan struct{}
	once           sync.Once
}

// StartProxy starts a proxy in front of an address. It ends with the test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener := ledgertest.Must(net.Listen("tcp", "127.0.0.1:0"))
	p := &Proxy{target: target, listener: listener, changed: make(chan struct{}), links: make(map[*link]struct{})}
	p.pumps.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Address returns the address that clients connect to.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Set makes faults from now on, on existing connections, too.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// Heal ends all faults.
func (p *Proxy) Heal() { p.Set(Faults{}) }

// Reset ends all connections with a reset, at both ends.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.reset()
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close() // the connection is thrown away
	p.Reset()
	p.pumps.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client has gone already
		}
		p.pumps.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

// serve passes one connection on until one of its ends closes it.
func (p *Proxy) serve(client *net.TCPConn) {
	l := &link{client: client, closed: make(chan struct{})}
	faults, _ := p.now()
	server, err := net.Dial("tcp", p.target)
	if err != nil || faults.Refuse {
		l.server, _ = server.(*net.TCPConn)
		l.reset()
		return
	}
	l.server = server.(*net.TCPConn)
	if !p.add(l) {
		return
	}
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(l, l.client, l.server, false) })
	pumps.Go(func() { p.pump(l, l.server, l.client, true) })
	pumps.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.reset()
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) now() (Faults, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults, p.changed
}

// of are the faults of one direction of a connection.
func (f Faults) of(inward bool) (silent bool, cut int) {
	if inward {
		return f.SilentIn, f.CutIn
	}
	return f.SilentOut, 0
}

// pump passes on what comes from one end until the connection ends.
func (p *Proxy) pump(l *link, from, to *net.TCPConn, inward bool) {
	defer l.reset()
	buffer := make([]byte, 16<<10)
	var passed int            // since the faults changed
	var since <-chan struct{} // that change
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		for data := buffer[:n]; len(data) > 0; {
			faults, changed := p.admit(l, inward)
			if changed == nil {
				return
			}
			if since != changed {
				passed, since = 0, changed
			}
			piece := data
			if faults.Piece > 0 {
				piece = piece[:min(len(piece), faults.Piece)]
			}
			_, cut := faults.of(inward)
			if cut > 0 {
				piece = piece[:min(len(piece), cut-passed)]
			}
			if _, err := to.Write(piece); err != nil {
				return
			}
			if passed += len(piece); cut > 0 && passed >= cut {
				return
			}
			data = data[len(piece):]
		}
	}
}

// admit waits until something may pass. It returns no channel if the connection
// has ended.
func (p *Proxy) admit(l *link, inward bool) (Faults, <-chan struct{}) {
	for {
		faults, changed := p.now()
		silent, _ := faults.of(inward)
		if !silent && faults.Delay == 0 {
			return faults, changed
		}
		var enough <-chan time.Time
		if !silent {
			enough = time.After(faults.Delay)
		}
		select {
		case <-enough:
			return faults, changed
		case <-changed:
		case <-l.closed:
			return faults, nil
		}
	}
}

// reset closes both ends so that they see a reset, not an orderly end.
func (l *link) reset() {
	l.once.Do(func() {
		close(l.closed)
		for _, conn := range []*net.TCPConn{l.client, l.server} {
			if conn != nil {
				_ = conn.SetLinger(0) // the end may be gone already
				_ = conn.Close()
			}
		}
	})
}
