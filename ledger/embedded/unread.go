package embedded

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxUnread is what all clients together may leave unread. Beyond it, who has
// left most is cut off: a client that does not read takes room from itself.
const maxUnread = 32 << 20

const (
	// lookEvery is how often it is asked whether much was sent.
	lookEvery = 10 * time.Millisecond
	// lookAfter is after how many bytes it is looked who has not read them.
	lookAfter = 1 << 20
	// mostListed is more connections than there are.
	mostListed = maxConnections + 16
)

// unread watches what clients leave unread. Only this process sends clients
// anything, so it need look only when it has.
type unread struct {
	mu    sync.Mutex
	conns map[*nats.Conn]sent // guarded by mu
	quit  chan struct{}
	done  chan struct{}
}

// sent is what one of this process's connections had sent when it was looked
// last, and whether that may go to every client.
type sent struct {
	bytes uint64
	toAll bool
}

func (s *Server) watchUnread() {
	s.unread.quit, s.unread.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.unread.done)
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		for grown := 0; ; {
			select {
			case <-s.unread.quit:
				return
			case <-ticker.C:
			}
			if grown += s.unread.grown(s.ns.NumClients()); grown >= lookAfter {
				grown = 0
				s.cutOff()
			}
		}
	}()
}

func (u *unread) watch(nc *nats.Conn, as role) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns == nil {
		u.conns = make(map[*nats.Conn]sent)
	}
	if as.name != logRole.name { // clients cannot reach what it sends
		u.conns[nc] = sent{toAll: as.toAll}
	}
}

func (u *unread) stop() {
	close(u.quit)
	<-u.done
}

// grown is how many bytes clients may have been sent since it was asked last.
func (u *unread) grown(clients int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	grown := 0
	for nc, last := range u.conns {
		if nc.IsClosed() {
			delete(u.conns, nc)
			continue
		}
		now := nc.Stats().OutBytes
		bytes := int(now - last.bytes)
		if last.toAll {
			bytes *= clients
		}
		grown += bytes
		last.bytes = now
		u.conns[nc] = last
	}
	return grown
}

// CutOff closes a client's connection.
func (s *Server) CutOff(connection uint64) {
	if err := s.ns.DisconnectClientByID(connection); err != nil {
		s.log.Debug("a NATS client has gone by itself", "connection", connection, "error", err)
	}
}

// cutOff closes connections until what is unread has room.
func (s *Server) cutOff() {
	for {
		list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed, Sort: server.ByPending})
		if err != nil {
			s.log.Warn("nobody knows what clients have not read", "error", err)
			return
		}
		worst, total := greediest(list.Conns)
		if total <= maxUnread || worst == nil {
			return
		}
		s.log.Warn("a NATS client does not read what it is sent, and is cut off",
			"client", worst.Account, "connection", worst.Cid, "address", worst.IP, "unread", worst.Pending)
		s.CutOff(worst.Cid)
	}
}

// greediest finds the client that has left most unread, and of its
// connections the first, which has left most; and what all have left.
func greediest(conns []*server.ConnInfo) (worst *server.ConnInfo, total int) {
	by := make(map[string]int)
	for _, c := range conns {
		if c.Account == ownAccount {
			continue
		}
		by[c.Account] += c.Pending
		total += c.Pending
	}
	for _, c := range conns {
		if by[c.Account] > 0 && (worst == nil || by[c.Account] > by[worst.Account]) {
			worst = c
		}
	}
	return worst, total
}
