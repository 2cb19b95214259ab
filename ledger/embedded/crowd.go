package embedded

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// What clients send waits for the door in one line: in the server, and then in
// the door's connection. NATS holds up who sends for some milliseconds only, and
// beyond its bounds drops messages, or the door, whoever sent them. So the line is
// watched, and whoever has sent most while it is long is cut off.

const (
	// longBytes and longUnseen are when the line is long: bytes for the door in the
	// server, and messages in its connection. Clients that wait for their answers do
	// not bring that about with small messages, however many requests of theirs may
	// wait at the door.
	longBytes  = 2 << 20
	longUnseen = 8 << 10
	// maxPoured is when it is long because of large messages: those that wait in the
	// server, and those that the door has taken faster than drainPerSecond. A writer
	// decides some 20 MiB of commands in a second; to pass more on makes three times
	// as much garbage.
	maxPoured      = 24 << 20
	drainPerSecond = 64 << 20
	// leastMessages and leastBytes are what a client sends between two looks at least
	// that makes a line long.
	leastMessages = 500
	leastBytes    = 1 << 20
	// keptOut is how long a client that was cut off waits until it is let in again.
	// After two seconds NATS's libraries give up, and the server asks who waits
	// whether it is there, which they do not understand.
	keptOut = 1500 * time.Millisecond
)

// line is what waits for the door: bytes in the server, messages in its
// connection, and bytes that it took too fast.
type line struct{ bytes, unseen, poured int }

// volume is what was sent.
type volume struct{ messages, bytes int }

// crowd is what each connection had sent when it was looked last; nil: the line
// was short then. Of one goroutine.
type crowd map[uint64]volume

// relieve cuts off who makes the line to the door long. waiting are the bytes that
// the server has for the door, and arrived those that it has taken since the last
// look.
func (s *Server) relieve(waiting, arrived int) {
	s.poured = max(s.poured+arrived-drainPerSecond/int(time.Second/lookEvery), 0)
	l := line{bytes: waiting, unseen: s.unseenByDoor(), poured: s.poured}
	if l.bytes <= longBytes/4 && l.unseen <= longUnseen/4 && l.poured <= maxPoured/4 {
		s.crowd = nil
		return
	}
	list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed})
	if err != nil {
		s.log.Warn("nobody knows who sends so much", "error", err)
		return
	}
	before := s.crowd
	s.crowd = make(crowd, len(list.Conns))
	for _, c := range list.Conns {
		s.crowd[c.Cid] = volume{int(c.InMsgs), int(c.InBytes)}
	}
	if before == nil {
		return
	}
	for account, sent := range tooMuch(list.Conns, before, s.crowd, l) {
		s.log.Warn("a NATS client sends more than can be read, and is cut off",
			"client", account, "messages", sent.messages, "bytes", sent.bytes)
		s.expel(account, list.Conns)
	}
}

// tooMuch finds the client that has sent most between two looks, in messages and
// in bytes, if the line is long because of it.
func tooMuch(conns []*server.ConnInfo, before, now crowd, l line) map[string]volume {
	by, found := make(map[string]volume), make(map[string]volume)
	many, much := "", ""
	for _, c := range conns {
		if isOwn(c) {
			continue
		}
		sent := by[c.Account]
		sent.messages += now[c.Cid].messages - before[c.Cid].messages
		sent.bytes += now[c.Cid].bytes - before[c.Cid].bytes
		by[c.Account] = sent
		if sent.messages > by[many].messages {
			many = c.Account
		}
		if sent.bytes > by[much].bytes {
			much = c.Account
		}
	}
	if (l.bytes > longBytes || l.unseen > longUnseen) && by[many].messages >= leastMessages {
		found[many] = by[many]
	}
	if l.bytes+l.poured > maxPoured && by[much].bytes >= leastBytes {
		found[much] = by[much]
	}
	return found
}

// WatchDoor has the server ask how many messages have come for the door that it
// has not looked at.
func (s *Server) WatchDoor(unseen func() int) { s.unseen.Store(&unseen) }

func (s *Server) unseenByDoor() int {
	if unseen := s.unseen.Load(); unseen != nil {
		return (*unseen)()
	}
	return 0
}

// CutOff closes all connections of the client that a connection is of, and keeps
// it out for a while.
func (s *Server) CutOff(connection uint64) {
	// Of all connections: to list those of an account races with connections that the
	// server is making.
	list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed})
	if err != nil {
		s.close(connection)
		return
	}
	for _, c := range list.Conns {
		if c.Cid == connection && !isOwn(c) {
			s.expel(c.Account, list.Conns)
			return
		}
	}
	s.close(connection)
}

// expel closes those connections that are a client's, and keeps it out for a while.
func (s *Server) expel(account string, conns []*server.ConnInfo) {
	s.logins.kept.out(account)
	for _, c := range conns {
		if c.Account == account {
			s.close(c.Cid)
		}
	}
}

func (s *Server) close(connection uint64) {
	if err := s.ns.DisconnectClientByID(connection); err != nil {
		s.log.Debug("a NATS client has gone by itself", "connection", connection, "error", err)
	}
}

// kept are clients that were cut off. Where there are no users, one that comes
// back is another one.
type kept struct {
	quit  chan struct{}
	mu    sync.Mutex
	until map[string]time.Time // by account; guarded by mu
	since time.Time            // guarded by mu
	count map[string]int       // logins since then, by account; guarded by mu
}

func newKept() *kept { return &kept{quit: make(chan struct{}), until: make(map[string]time.Time)} }

func (k *kept) out(account string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until[account] = time.Now().Add(keptOut)
}

// wait holds up a login of a user that was cut off, or that signed in within a
// second as often as it may have connections: each may begin a message, and leave
// it to the collector. It is not refused: NATS's libraries never come back after that.
func (k *kept) wait(account string, connections int) {
	k.mu.Lock()
	if time.Since(k.since) >= time.Second {
		k.since, k.count = time.Now(), make(map[string]int)
	}
	k.count[account]++
	wait := time.Until(k.until[account])
	if k.count[account] > connections {
		wait = keptOut
	}
	k.mu.Unlock()
	if wait <= 0 {
		return
	}
	select {
	case <-time.After(wait):
	case <-k.quit:
	}
}
