package embedded

import (
	"net/netip"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// maxUnknown is how many connections of one place may not yet have said who they
// are. Each has authTimeout for that, so that one stranger could hold all
// connections that there are, one after the other. Beyond it the oldest are
// closed: who comes to sign in does so at once.
const maxUnknown = 256

// ownConnections is more than this process has to its own server.
const ownConnections = 8

// closeUnknown closes connections that take the places of clients. It costs
// nothing while there are few.
func (s *Server) closeUnknown() {
	if s.ns.GlobalAccount().NumLocalConnections() <= maxUnknown+ownConnections {
		return
	}
	list, err := s.ns.Connz(&server.ConnzOptions{Account: ownAccount, Limit: mostListed})
	if err != nil {
		s.log.Warn("nobody knows who connects and does not say who it is", "error", err)
		return
	}
	for place, conns := range tooManyUnknown(list.Conns) {
		s.log.Warn("many NATS connections of one place do not say who they are; the oldest are closed",
			"place", place, "closed", len(conns), "most", maxUnknown)
		for _, c := range conns {
			s.CutOff(c.Cid)
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
