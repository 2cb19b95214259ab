package embedded

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// A connection costs the NATS server as much as many messages: it is taken, greeted,
// signed in or not, ended and collected. The server takes whatever comes, and has no
// place where somebody could ask who it is. So new connections are counted after they
// came, by place, and while a place has made more than its pace lets it, the kernel
// drops what would begin another one. Who calls tries again by itself, after a second
// at first; connections that are there are not touched.

const (
	// arrivalsAtOnce connections of a place come in at once, and then so many in a
	// second: a service's or a site's that all come back after the server was away.
	arrivalsAtOnce    = 256
	arrivalsPerSecond = 200
	// fewArrivals between two looks are not counted: they are within the pace.
	fewArrivals = arrivalsPerSecond * lookAgain * int(lookEvery) / int(time.Second)
	// mostTurnedAway is how many places are turned away at a time: the kernel looks
	// through them for each new connection.
	mostTurnedAway = 64
)

// arrivals are the new connections by place. Of one goroutine.
type arrivals struct {
	total  uint64                   // connections that ever came
	newest uint64                   // the id of the newest one that was counted
	paces  map[string]*rate.Limiter // by place; a place that is not in it has its whole burst
	until  map[string]time.Time     // places that are turned away
	kept   []netip.Prefix           // whom the kernel keeps off, as it was last told
	told   time.Time                // when an operator last was
}

func newArrivals() *arrivals {
	return &arrivals{paces: make(map[string]*rate.Limiter), until: make(map[string]time.Time)}
}

// count counts who came since the last time. conns are those that are open and some
// that have gone, which stand for all that have.
func (a *arrivals) count(came uint64, conns []*server.ConnInfo, now time.Time) {
	by, known, newest := make(map[string]int), 0, a.newest
	for _, c := range conns {
		at, err := netip.ParseAddr(c.IP)
		if err != nil || c.Cid <= a.newest { // this process's own have none
			continue
		}
		newest = max(newest, c.Cid)
		by[placeOf(at)]++
		known++
	}
	a.newest = newest
	for place, n := range by {
		a.turnAway(place, n*max(int(came), known)/known, now)
	}
}

// turnAway turns a place away for as long as its pace needs for so many connections.
func (a *arrivals) turnAway(place string, n int, now time.Time) {
	pace := a.paces[place]
	if pace == nil {
		pace = rate.NewLimiter(arrivalsPerSecond, arrivalsAtOnce)
		a.paces[place] = pace
	}
	var wait time.Duration
	for n > 0 {
		some := min(n, arrivalsAtOnce)
		wait = pace.ReserveN(now, some).DelayFrom(now)
		n -= some
	}
	if wait > 0 {
		a.until[place] = now.Add(wait)
	}
}

// forget forgets places that may come again, and those that have their whole burst.
func (a *arrivals) forget(now time.Time) {
	maps.DeleteFunc(a.until, func(_ string, until time.Time) bool { return !now.Before(until) })
	maps.DeleteFunc(a.paces, func(_ string, pace *rate.Limiter) bool { return pace.TokensAt(now) >= arrivalsAtOnce })
}

// tell has the kernel keep off those who are turned away now, and nobody else, unless it
// does so already. What fails is tried again the next time: else somebody might stay out
// for ever.
func (a *arrivals) tell(drop func(networks []netip.Prefix) error) error {
	networks := a.turnedAway()
	slices.SortFunc(networks, netip.Prefix.Compare)
	if slices.Equal(networks, a.kept) {
		return nil
	}
	if err := drop(networks); err != nil {
		return err
	}
	a.kept = networks
	return nil
}

// turnedAway are the networks of the places that wait longest.
func (a *arrivals) turnedAway() (networks []netip.Prefix) {
	places := slices.SortedFunc(maps.Keys(a.until), func(x, y string) int { return a.until[y].Compare(a.until[x]) })
	for _, place := range places[:min(len(places), mostTurnedAway)] {
		networks = append(networks, networksOf(place)...)
	}
	return networks
}

// networksOf are the addresses that are one place, see placeOf.
func networksOf(place string) []netip.Prefix {
	switch {
	case place == thisMachine:
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	case strings.Contains(place, "/"):
		return []netip.Prefix{netip.MustParsePrefix(place)}
	}
	at := netip.MustParseAddr(place)
	return []netip.Prefix{netip.PrefixFrom(at, at.BitLen())}
}

// paceArrivals turns places away that make too many connections, and lets them in
// again.
func (s *Server) paceArrivals(now time.Time) {
	a := s.arrivals
	a.forget(now)
	if err := s.countArrivals(now); err != nil {
		s.tellArrivals(now, "the server does not say who connects", "error", err)
	}
	if err := a.tell(func(networks []netip.Prefix) error { return dropNew(s.ns.Addr(), networks) }); err != nil {
		s.tellArrivals(now, "who makes too many NATS connections cannot be turned away, or let in again", "error", err)
	}
	if len(a.until) > 0 {
		s.tellArrivals(now, "places make NATS connections faster than they may, and wait for new ones",
			"places", slices.Sorted(maps.Keys(a.until)), "each_second", arrivalsPerSecond)
	}
}

// countArrivals counts who came since the last time, if they were many.
func (s *Server) countArrivals(now time.Time) error {
	v, err := s.ns.Varz(nil)
	if err != nil {
		return err
	}
	came := v.TotalConnections - s.arrivals.total
	s.arrivals.total = v.TotalConnections
	if came <= uint64(fewArrivals) {
		return nil
	}
	list, err := s.ns.Connz(&server.ConnzOptions{State: server.ConnAll, Limit: mostListed + mostClosed})
	if err != nil {
		return err
	}
	s.arrivals.count(came, list.Conns, now)
	return nil
}

// tellArrivals tells an operator, but not each time.
func (s *Server) tellArrivals(now time.Time, text string, args ...any) {
	if now.Sub(s.arrivals.told) >= time.Second {
		s.arrivals.told = now
		s.log.Warn(text, args...)
	}
}
