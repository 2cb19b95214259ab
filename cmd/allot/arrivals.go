package main

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A connection costs as much as several requests until it is in the line of its
// address: it is taken, begun, ended and collected, and it wakes who waits for
// nothing. Whoever is cut off comes back at once, and pays for none of that. So while
// other addresses are there, those of one address are begun at a pace. The rest waits,
// as open sockets that nobody reads, and so do their clients.

const (
	// arrivalsAtOnce connections of an address begin at once, and then so many in a
	// second: more than a proxy that opens one for each request does beside others.
	arrivalsAtOnce    = 512
	arrivalsPerSecond = 2000
	// returnsPerSecond begin of an address while a connection of it was cut off within
	// strikeLasts.
	returnsPerSecond = 100
	strikeLasts      = time.Second
	// lookForTurn is how often somebody looks whether the next one may begin.
	lookForTurn = time.Second / returnsPerSecond / 4
	// forgetArrivals is how often addresses are forgotten that need not wait.
	forgetArrivals = time.Second
)

// arrivals are connections that have no place yet.
type arrivals struct {
	each, most int                          // how many may wait, of an address and of all
	others     func(from netip.Prefix) bool // whether other addresses are there
	begin      func(net.Conn, netip.Prefix) // of a connection; it may wait
	quit       chan struct{}                // closed at the end

	mu      sync.Mutex
	of      map[netip.Prefix]*arrivalLine // guarded by mu
	waiting int                           // guarded by mu
	looked  time.Time                     // when addresses were last forgotten; guarded by mu
	ended   bool                          // guarded by mu
}

// arrivalLine is what an address has of them. All is guarded by the mu of arrivals.
type arrivalLine struct {
	pace    *rate.Limiter
	struck  time.Time // when a connection of the address was last cut off; zero: never
	waiting []net.Conn
}

func newArrivals(each, most int, others func(netip.Prefix) bool, begin func(net.Conn, netip.Prefix)) *arrivals {
	return &arrivals{
		each: each, most: most, others: others, begin: begin,
		quit: make(chan struct{}), of: make(map[netip.Prefix]*arrivalLine),
	}
}

// came begins a connection, or lets it wait. If too many wait, it closes it.
func (a *arrivals) came(c net.Conn, from netip.Prefix) {
	if a.mayBegin(c, from) {
		a.begin(c, from)
	}
}

// mayBegin reports whether a connection may begin at once. Otherwise it waits, or is
// closed.
func (a *arrivals) mayBegin(c net.Conn, from netip.Prefix) bool {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(now)
	one := a.lineOf(from)
	switch {
	case len(one.waiting) == 0 && a.may(one, from, now):
		return true
	case a.ended, len(one.waiting) >= a.each, a.waiting >= a.most:
		drop(c)
		return false
	}
	one.waiting = append(one.waiting, c)
	a.waiting++
	if len(one.waiting) == 1 {
		go a.beginWaiting(one, from)
	}
	return false
}

// lineOf returns the line of an address; mu is held.
func (a *arrivals) lineOf(from netip.Prefix) *arrivalLine {
	one := a.of[from]
	if one == nil {
		one = &arrivalLine{pace: rate.NewLimiter(arrivalsPerSecond, arrivalsAtOnce)}
		a.of[from] = one
	}
	return one
}

// may reports whether the next connection of an address may begin; mu is held.
func (a *arrivals) may(one *arrivalLine, from netip.Prefix, now time.Time) bool {
	if !one.struck.IsZero() && now.Sub(one.struck) >= strikeLasts {
		one.struck = time.Time{}
		one.pace.SetLimitAt(now, arrivalsPerSecond)
		one.pace.SetBurstAt(now, arrivalsAtOnce)
	}
	return one.pace.AllowN(now, 1) || !a.others(from)
}

// strike says that a connection of an address was cut off.
func (a *arrivals) strike(from netip.Prefix) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.lineOf(from)
	one.struck = now
	one.pace.SetLimitAt(now, returnsPerSecond)
	one.pace.SetBurstAt(now, 1)
}

// beginWaiting begins the connections of an address that wait, until none does.
func (a *arrivals) beginWaiting(one *arrivalLine, from netip.Prefix) {
	for {
		c, more := a.next(one, from)
		switch {
		case c != nil:
			a.begin(c, from)
		case more:
			select {
			case <-time.After(lookForTurn):
			case <-a.quit:
				return
			}
		}
		if !more {
			return
		}
	}
}

// next takes the connection of an address that has waited for longest out, if it may
// begin; nil: none may. It also reports whether others wait.
func (a *arrivals) next(one *arrivalLine, from netip.Prefix) (c net.Conn, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(one.waiting) > 0 && a.may(one, from, time.Now()) {
		c, one.waiting[0] = one.waiting[0], nil
		one.waiting = one.waiting[1:]
		a.waiting--
	}
	return c, len(one.waiting) > 0
}

// forget forgets addresses that need not wait, but not each time; mu is held.
func (a *arrivals) forget(now time.Time) {
	if now.Sub(a.looked) < forgetArrivals {
		return
	}
	a.looked = now
	for from, one := range a.of {
		isFull := one.pace.TokensAt(now) >= float64(one.pace.Burst())
		if len(one.waiting) == 0 && isFull && now.Sub(one.struck) >= strikeLasts {
			delete(a.of, from)
		}
	}
}

// end closes what waits, once. Nothing waits any more.
func (a *arrivals) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.quit)
	a.ended, a.waiting = true, 0
	for _, one := range a.of {
		for _, c := range one.waiting {
			drop(c)
		}
		one.waiting = nil
	}
}
