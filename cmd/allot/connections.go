package main

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/turns"
)

// A client that connects and is silent, or slow, must not hold a goroutine, memory
// or a place for ever. So every connection of an HTTP port is one of a bounded
// number, and all that its client does not send or take in time ends it.

const (
	// defaultMost are connections of an HTTP port, and defaultEach those of one
	// address.
	defaultMost = 4096
	defaultEach = 1024
	// sayEvery is how often a refusal is told.
	sayEvery = 10 * time.Second
)

// connectionFlags bound the connections of an HTTP port. Without a number it has the
// default.
type connectionFlags struct {
	Most int `name:"connections" help:"Most connections over HTTP. If all are taken, one of the address that has most is closed for a new one." default:"4096" least:"1" placeholder:"N"`
	Each int `name:"address-connections" help:"Most connections over HTTP of one address, or of IPv6 of one network of 64 bits. Raise it behind a proxy that opens more." default:"1024" least:"1" placeholder:"N"`
}

// connections are those of an HTTP port. It is the port's listener.
type connections struct {
	net.Listener
	most   int // of all addresses
	each   int // of one address
	logger *slog.Logger
	lines  *turns.Lines // who may work; nil: everybody
	// heavy is called when clients make the port hold much, and when no longer; it may
	// be nil.
	heavy func(bool)

	arrivals *arrivals     // connections that have no place yet
	accepted chan accepted // what Accept returns
	begun    sync.Once     // somebody takes connections
	closed   sync.Once     // nobody does any more

	isHeavy    atomic.Bool  // the last value that heavy was called with; written with mu held
	unfinished atomic.Int64 // bytes of requests without a handler
	refused    atomic.Int64 // connections that got no place
	cut        atomic.Int64 // connections that were closed for others, or for what they held
	ends       atomic.Bool  // somebody cuts off those that have sent most of requests without an end

	mu      sync.Mutex
	all     map[*connection]struct{} // guarded by mu
	by      map[netip.Prefix]int     // how many, by address; guarded by mu
	frames  map[netip.Prefix]*frames // allowances, also of addresses that have gone; guarded by mu
	pruned  time.Time                // when those were last forgotten; guarded by mu
	untaken int                      // bytes of answers; guarded by mu
	looks   bool                     // somebody will look who has left most; guarded by mu
	said    time.Time                // when a refusal was last told; guarded by mu
	unsaid  int                      // refusals since then; guarded by mu
}

func newConnections(l net.Listener, bounds connectionFlags, logger *slog.Logger) *connections {
	most, each := cmp.Or(bounds.Most, defaultMost), cmp.Or(bounds.Each, defaultEach)
	conns := &connections{
		Listener: l, most: most, each: min(each, most), logger: logger, accepted: make(chan accepted),
		all: make(map[*connection]struct{}), by: make(map[netip.Prefix]int), frames: make(map[netip.Prefix]*frames),
	}
	others := func(from netip.Prefix) bool { return conns.lines.Others(from) }
	conns.arrivals = newArrivals(conns.each, conns.most, others, conns.begin)
	return conns
}

// Accept implements net.Listener. It returns connections that have a place.
func (l *connections) Accept() (net.Conn, error) {
	l.begun.Do(func() { go l.take() })
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.arrivals.quit:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *connections) Close() error {
	l.closed.Do(l.arrivals.end)
	return l.Listener.Close()
}

// take takes connections until the listener is closed. Whether another fault passes
// is for net/http to say.
func (l *connections) take() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			l.arrivals.came(c, hostOf(c.RemoteAddr()))
		} else if !l.deliver(accepted{err: err}) {
			return
		}
	}
}

// begin gives a connection its place, and has it served.
func (l *connections) begin(c net.Conn, from netip.Prefix) {
	one := l.admit(c, from)
	if one == nil {
		drop(c)
		return
	}
	if !l.deliver(accepted{conn: one}) {
		_ = one.Close() // the server ends
	}
}

// deliver reports whether Accept took it.
func (l *connections) deliver(a accepted) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.arrivals.quit:
		return false
	}
}

// hostOf returns what counts as one address: of IPv6, a network of 64 bits, of
// which one machine may have all addresses.
func hostOf(a net.Addr) netip.Prefix {
	port, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{} // no address: all such are one
	}
	address := port.Addr().Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = 64
	}
	prefix, err := address.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// admit gives a connection a place; nil: there is none. If its address has as many
// as it may, the one that has had no request for longest leaves. If all places are
// taken, one of the address with most leaves, so that nobody can take the places of
// others.
func (l *connections) admit(c net.Conn, from netip.Prefix) *connection {
	if t, ok := c.(*net.TCPConn); ok {
		if err := t.SetWriteBuffer(sendBuffer); err != nil {
			return nil // the client has gone
		}
	}
	one := &connection{Conn: c, of: l, from: from}
	one.since.Store(sinceStart(time.Now()))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.by[from] >= l.each:
		if leaves := l.longestIdle(from, false); leaves != nil {
			l.cutOff(leaves)
			break
		}
		l.refuse("an address has too many HTTP connections with requests, and one more is refused: "+
			"close some, or raise --http-address-connections", from, l.by[from])
		l.refused.Add(1)
		return nil
	case len(l.all) >= l.most:
		greedy := l.greediest()
		if l.by[greedy] > l.by[from]+1 {
			l.cutOff(l.longestIdle(greedy, true))
			break
		}
		if leaves := l.longestIdle(from, false); leaves != nil {
			l.cutOff(leaves)
			break
		}
		l.refuse("there are too many HTTP connections, and one more is refused: raise --http-connections", from, len(l.all))
		l.refused.Add(1)
		return nil
	}
	one.here, one.goes = context.WithCancel(context.Background())
	l.all[one] = struct{}{}
	l.by[from]++
	one.turn = l.lines.For(from)
	return one
}

// refuse tells of a refusal, but not of every one; mu is held.
func (l *connections) refuse(text string, from netip.Prefix, have int) {
	l.unsaid++
	if now := time.Now(); now.Sub(l.said) >= sayEvery {
		l.logger.Warn(text, "address", from.String(), "connections", have, "refused", l.unsaid)
		l.said, l.unsaid = now, 0
	}
}

// greediest returns the address that has most connections; mu is held.
func (l *connections) greediest() (found netip.Prefix) {
	for from, n := range l.by {
		if n > l.by[found] {
			found = from
		}
	}
	return found
}

// longestIdle returns the connection of an address that has had no request for
// longest; if it says so and all have requests, the oldest of these; nil: none. mu is
// held.
func (l *connections) longestIdle(from netip.Prefix, busyToo bool) (found *connection) {
	foundBusy := false
	for c := range l.all {
		busy := c.requests.Load() > 0
		if c.from != from || busy && !busyToo {
			continue
		}
		if found == nil || foundBusy && !busy || foundBusy == busy && c.since.Load() < found.since.Load() {
			found, foundBusy = c, busy
		}
	}
	return found
}

// cutOff closes a connection's socket, which waits for nothing; mu is held.
func (l *connections) cutOff(c *connection) {
	l.putOut(c)
	drop(c.Conn)
}

// putOut takes out a connection that the caller closes; mu is held.
func (l *connections) putOut(c *connection) {
	l.cut.Add(1)
	l.leave(c)
	l.arrivals.strike(c.from)
}

// count returns how many connections there are.
func (l *connections) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// drop closes a socket, and the kernel keeps nothing of it for the client. Whoever
// uses it finds out.
func drop(c net.Conn) {
	forget(c)
	_ = c.Close() // it may be closed already
}

// forget has the kernel keep nothing for the client once the socket is closed.
func forget(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // it may be closed already
	}
}

// leave takes a connection out; mu is held.
func (l *connections) leave(c *connection) {
	if _, ok := l.all[c]; !ok {
		return
	}
	delete(l.all, c)
	c.turn.End()
	c.goes()
	c.gone.Store(true)
	if l.by[c.from]--; l.by[c.from] == 0 {
		delete(l.by, c.from)
	}
	l.untaken -= c.untaken
	c.untaken = 0
	l.unfinished.Add(-c.unfinished.Swap(0))
	l.weigh()
}

// cutAll closes the sockets of all connections. Unlike closing the connections
// themselves that waits for nobody: TLS would send each client a farewell.
func (l *connections) cutAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.all {
		l.cutOff(c)
	}
}
