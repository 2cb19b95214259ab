package embedded

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxUnread is how many bytes all clients together may leave unread. Beyond it,
// the client that has left most is cut off, so a client that does not read harms
// only itself.
const maxUnread = 24 << 20

const (
	// lookEvery is how often the server checks whether much was sent.
	lookEvery = 10 * time.Millisecond
	// lookAfter is how many bytes are sent until the server checks who has not
	// read them.
	lookAfter = 1 << 20
	// lookAgain is after how many such checks the unread bytes are measured again
	// while there are many.
	lookAgain = 10
	// muchUnread is an amount that clients that read do not leave unread.
	muchUnread = 2 << 20
	// muchArrived is more than arrives between two checks if requests are small,
	// however many they are.
	muchArrived = 2 << 20
	// manyCome is how many connections come within a tick if somebody makes them
	// come, and stormLasts how long such a moment counts: each leaves garbage.
	manyCome   = maxUnknown / 4
	stormLasts = time.Second
	// mostListed is more connections than there are.
	mostListed = MaxConnections + 16
	// mostClosed is how many of those that have gone are remembered, to know where
	// they came from.
	mostClosed = 100
)

// unread watches what clients leave unread. Only this process sends clients
// anything, so it need look only when the process has sent something.
type unread struct {
	mu    sync.Mutex
	conns map[*nats.Conn]sent // guarded by mu
	quit  chan struct{}
	done  chan struct{}
	gone  []gone // clients that were cut off; for one goroutine only
}

// sent is how much one of this process's connections had sent and received at the
// last check, and whether its messages may go to every client.
type sent struct {
	bytes, arrived uint64
	door           bool // requests come to it
	toAll          bool
}

// watchUnread cuts off who leaves too much unread, makes the line to the door
// long, or does not say who it is. It tells whether clients make the server hold much: what they do not read,
// large messages, or many connections that come at once.
func (s *Server) watchUnread(heavily func(bool)) {
	s.unread.quit, s.unread.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.unread.done)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		wasMuch, unread, last := false, 0, time.Now()
		var stormed time.Time // when many connections last came at once
		for grown, ticks, known := 0, 0, 0; ; ticks++ {
			select {
			case <-s.unread.quit:
				return
			case <-s.door.full:
			case <-ticker.C:
			}
			clients := s.ns.NumClients()
			more, arrived := s.unread.moved(clients)
			now := time.Now()
			if clients > known+manyCome {
				stormed = now
			}
			if ticks%lookAgain == 0 || clients > known+manyCome {
				s.paceArrivals(now)
				s.lookForUnknown()
				known = s.ns.NumClients()
			}
			s.relieve(s.waitForDoor(), arrived, now.Sub(last))
			last = now
			grown += more
			if again := unread > muchUnread && ticks%lookAgain == 0; grown >= lookAfter || again {
				grown, unread = 0, s.cutOff()
			}
			begun := s.logins.entered.Swap(0) > 0
			storm := !stormed.IsZero() && now.Sub(stormed) < stormLasts
			isMuch := unread > muchUnread || arrived > muchArrived || begun || s.long || storm
			if isMuch != wasMuch && heavily != nil {
				wasMuch = isMuch
				heavily(isMuch)
			}
		}
	}()
}

// lookForUnknown looks for connections that nobody has signed in on: they are in
// this process's own account. To ask the server for those of an account alone
// would read connections that it has only begun to make.
func (s *Server) lookForUnknown() {
	if s.ns.NumClients() <= maxUnknown {
		return
	}
	list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed})
	if err != nil {
		s.log.Warn("the server does not say who connects", "error", err)
		return
	}
	s.closeUnknown(slices.DeleteFunc(list.Conns, func(c *server.ConnInfo) bool { return !isOwn(c) }))
}

// waitForDoor returns how many bytes the server has for the door.
func (s *Server) waitForDoor() (bytes int) {
	for _, id := range s.unread.doors() {
		list, err := s.ns.Connz(&server.ConnzOptions{CID: id})
		if err != nil {
			s.log.Warn("the server does not say what waits for the door", "error", err)
			return 0
		}
		for _, c := range list.Conns {
			bytes += c.Pending
		}
	}
	return bytes
}

// doors lists the connections of the door by the server's numbers.
func (u *unread) doors() (ids []uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for nc, last := range u.conns {
		if id, err := nc.GetClientID(); last.door && err == nil { // else it is not connected
			ids = append(ids, id)
		}
	}
	return ids
}

func (u *unread) watch(nc *nats.Conn, as role) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns == nil {
		u.conns = make(map[*nats.Conn]sent)
	}
	if as.name != logRole.name { // clients cannot receive what it sends
		u.conns[nc] = sent{toAll: as.toAll, door: as.name == doorRole.name}
	}
}

func (u *unread) stop() {
	close(u.quit)
	<-u.done
}

// moved returns how many bytes clients may have been sent since the last call,
// and how many have come from them.
func (u *unread) moved(clients int) (grown, arrived int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for nc, last := range u.conns {
		if nc.IsClosed() {
			delete(u.conns, nc)
			continue
		}
		now := nc.Stats()
		bytes := int(now.OutBytes - last.bytes)
		if last.toAll {
			bytes *= clients
		}
		grown += bytes
		arrived += int(now.InBytes - last.arrived)
		last.bytes, last.arrived = now.OutBytes, now.InBytes
		u.conns[nc] = last
	}
	return grown, arrived
}

// gone is what a client that was cut off had left unread. The server keeps it
// until a write under way ends, so it counts until then.
type gone struct {
	account string
	bytes   int
	until   time.Time
}

// cutOff closes connections until there is room, and returns how much is unread.
func (s *Server) cutOff() int {
	list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed, Sort: server.ByPending})
	if err != nil {
		s.log.Warn("nobody knows what clients have not read", "error", err)
		return 0
	}
	now := time.Now()
	s.unread.gone = slices.DeleteFunc(s.unread.gone, func(g gone) bool { return now.After(g.until) })
	worst, total := greediest(list.Conns, s.unread.gone)
	for _, c := range worst {
		s.log.Warn("a NATS client does not read what it is sent, and is cut off",
			"client", c.Account, "connection", c.Cid, "address", c.IP, "unread", c.Pending)
		s.logins.kept.out(c.Account)
		s.close(c.Cid)
		s.forget(c.Account)
		s.unread.gone = append(s.unread.gone, gone{c.Account, c.Pending, now.Add(2 * writeDeadline)})
	}
	return total
}

// littleUnread is how much a connection may leave unread, whatever others of its
// client do.
const littleUnread = 64 << 10

// isOwn reports whether a connection is in this process's own account, whose
// name the server leaves out of its list.
func isOwn(c *server.ConnInfo) bool { return c.Account == "" || c.Account == ownAccount }

// greediest finds connections to be closed, so that what is left has room:
// all those of the client that has left most, with what it had left before it
// was last cut off, and then of the next one. What others had left is no reason
// to cut off a client that would have room without them. It also returns what
// all have left.
func greediest(conns []*server.ConnInfo, before []gone) (worst []*server.ConnInfo, total int) {
	by, live := make(map[string]int), 0
	for _, c := range conns {
		if !isOwn(c) {
			by[c.Account] += c.Pending
			live += c.Pending
		}
	}
	total = live
	for _, g := range before {
		by[g.account] += g.bytes
		total += g.bytes
	}
	accounts := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return by[b] - by[a] })
	for i, account := range accounts {
		if live <= maxUnread && (i > 0 || total <= maxUnread) {
			break
		}
		for _, c := range conns {
			if c.Account == account && c.Pending > littleUnread {
				worst = append(worst, c)
				live -= c.Pending
			}
		}
	}
	return worst, total
}
