package embedded

import (
	"net/netip"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// maxUnknown is how many connections of one place may not yet have said who they
// are. Each has authTimeout for that, so that one stranger could hold all
// connections that there are, one after the other. Beyond it the oldest are
// closed: who comes to sign in does so at once.
const maxUnknown = 256

// closeUnknown closes connections that take the places of clients, of those in
// this process's own account.
func (s *Server) closeUnknown(list []*server.ConnInfo) {
	if len(list) <= maxUnknown {
		return
	}
	for place, conns := range tooManyUnknown(list) {
		if time.Since(s.toldUnknown) >= time.Second { // they may come by the thousand
			s.toldUnknown = time.Now()
			s.log.Warn("many NATS connections of one place do not say who they are; the oldest are closed",
				"place", place, "closed", len(conns), "most", maxUnknown)
		}
		for _, c := range conns {
			s.close(c.Cid)
		}
	}
}

// tooManyUnknown picks, by place, the oldest of the connections that nobody has
// signed in on. They are in the process's own account until then.
func tooManyUnknown(conns []*server.ConnInfo) map[string][]*server.ConnInfo {
	by := make(map[string][]*server.ConnInfo)
	for _, c := range conns {
		if at, err := netip.ParseAddr(c.IP); err == nil { // this process's own have none
			by[placeOf(at)] = append(by[placeOf(at)], c)
		}
	}
	for place, conns := range by {
		if len(conns) <= maxUnknown {
			delete(by, place)
			continue
		}
		slices.SortFunc(conns, func(a, b *server.ConnInfo) int { return int(a.Cid) - int(b.Cid) })
		by[place] = conns[:len(conns)-maxUnknown]
	}
	return by
}
