package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
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
	// takesWithin is how long a client may take for the next pieceBytes of an
	// answer, and for what the kernel keeps of it. That is bounded by sendBuffer,
	// because the kernel says nothing until a third of it was taken.
	takesWithin = 10 * time.Second
	pieceBytes  = 64 << 10
	sendBuffer  = 256 << 10
	// maxUnfinished is what clients may have sent of requests that no handler has
	// yet: headers without an end. Beyond it whoever has sent most is cut off.
	maxUnfinished = 8 << 20
	// maxUntaken is what answers may hold that clients do not take. Beyond it
	// whoever has left most is cut off if it has taken nothing within stalls, and
	// beyond brimUntaken in any case.
	maxUntaken  = 16 << 20
	brimUntaken = 32 << 20
	stalls      = 250 * time.Millisecond
	// heavyBytes of both are much memory.
	heavyBytes = 2 << 20
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

// connection is one of them.
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

// weigh tells whether much is held, if that has changed; mu is held.
func (l *connections) weigh() {
	isHeavy := l.untaken > heavyBytes || l.unfinished.Load() > heavyBytes
	if isHeavy != l.isHeavy.Load() {
		l.isHeavy.Store(isHeavy)
		if l.heavy != nil {
			l.heavy(isHeavy)
		}
	}
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

// begun says that so much came of a request without a handler.
func (c *connection) begun(n int) {
	c.unfinished.Add(int64(n))
	all := c.of.unfinished.Add(int64(n))
	if c.gone.Load() { // it was cut off meanwhile, which counts nothing that comes later
		all = c.of.unfinished.Add(-c.unfinished.Swap(0))
	}
	if (all > maxUnfinished || all > heavyBytes && !c.of.isHeavy.Load()) && c.of.ends.CompareAndSwap(false, true) {
		go c.of.endUnfinished()
	}
}

// endUnfinished cuts off those that have sent most of requests without an end. One
// goroutine does so at a time, and no connection waits for it: a thousand that send
// would stand in line for the lock, and with them every other that reads.
func (l *connections) endUnfinished() {
	for again := true; again; {
		for l.endLargest() {
		}
		l.ends.Store(false)
		// What came since the last look has found somebody at it.
		again = l.unfinished.Load() > maxUnfinished && l.ends.CompareAndSwap(false, true)
	}
}

// endLargest cuts off one of them, and reports whether there may be more.
func (l *connections) endLargest() bool {
	l.mu.Lock()
	l.weigh()
	if l.unfinished.Load() <= maxUnfinished {
		l.mu.Unlock()
		return false
	}
	var most *connection
	for c := range l.all {
		if n := c.unfinished.Load(); n > 0 && (most == nil || n > most.unfinished.Load()) {
			most = c
		}
	}
	if most == nil {
		l.mu.Unlock()
		return false // what is left is of connections that leave
	}
	l.refuse("HTTP headers without an end take too much memory, and a connection is cut off", most.from, len(l.all))
	l.putOut(most)
	l.mu.Unlock()
	drop(most.Conn)
	return true
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

// leaves says that a client has so many more bytes of answers to take.
func (c *connection) leaves(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, ok := c.of.all[c]; !ok {
		return // it is cut off
	}
	if c.untaken == 0 {
		c.took = time.Now()
	}
	c.untaken += n
	c.of.untaken += n
	c.of.relieve()
	c.of.weigh()
}

// takes says that it has taken so many, or that nobody sends them any more.
func (c *connection) takes(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	n = min(n, c.untaken)
	c.untaken -= n
	c.of.untaken -= n
	c.took = time.Now()
	c.of.weigh()
}

// relieve cuts off who leaves most, while there is too much; mu is held.
func (l *connections) relieve() {
	for l.untaken > maxUntaken {
		c := l.laziest(time.Now())
		if c == nil {
			if !l.looks {
				l.looks = true
				time.AfterFunc(stalls, func() {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.looks = false
					l.relieve()
				})
			}
			return
		}
		l.refuse("answers that HTTP clients do not take hold too much memory, and a connection is cut off", c.from, len(l.all))
		l.cutOff(c)
	}
}

// laziest returns the connection that has left most, of the address that has left
// most; nil: all of them go on. mu is held.
func (l *connections) laziest(now time.Time) (found *connection) {
	by := make(map[netip.Prefix]int)
	for c := range l.all {
		by[c.from] += c.untaken
	}
	for c := range l.all {
		if c.untaken == 0 || l.untaken <= brimUntaken && now.Sub(c.took) < stalls {
			continue
		}
		if found == nil || by[c.from] > by[found.from] || by[c.from] == by[found.from] && c.untaken > found.untaken {
			found = c
		}
	}
	return found
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
