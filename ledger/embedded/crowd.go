package embedded

import (
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// What clients send waits for the door in one line: in the server, and then in
// the door's connection. NATS holds up who sends for some milliseconds only, and
// beyond its bounds drops messages, or the door, whoever sent them. So the line is
// watched, and while it is long, whoever has more than its share in it is cut off.
// Who waits for answers stays below its share, however slow the door is: it has no
// more in the line than it has requests without an answer, and half of its share
// is as many as may wait at the door.

const (
	// watchBytes, watchUnseen and watchPoured are when the line is watched: bytes for
	// the door in the server, messages in its connection, and bytes that the door has
	// taken faster than drainPerSecond. A writer decides some 20 MiB of commands in a
	// second.
	watchBytes     = 512 << 10
	watchUnseen    = 2 << 10
	watchPoured    = 6 << 20
	drainPerSecond = 64 << 20
	// shareMessages and shareBytes are how much of a client may be in the line. The
	// server counts what it has read of a connection some thousand messages late, so
	// that the share is more than the 4,096 that a client may have without an answer.
	shareMessages = 8 << 10
	shareBytes    = 8 << 20
	// fullUnseen and fullBytes are when the line must become shorter, although no
	// client has more than its share: many together do.
	fullUnseen = 16 * shareMessages
	fullBytes  = maxPending / 2
	// keptOut is how long a client that was cut off waits until it is let in again,
	// and for twice as long each time that it is cut off within forgetAfter, up to
	// longestKept. NATS's libraries wait for two seconds and then try again.
	keptOut     = 1500 * time.Millisecond
	longestKept = 16 * keptOut
	forgetAfter = time.Minute
)

// Door is where the requests of clients come in.
type Door interface {
	// Unseen is how many messages have come that it has not looked at.
	Unseen() int
	// CountSenders begins to count anew the messages that it looks at, by
	// connection, or ends that.
	CountSenders(on bool)
	// SeenOf returns what was counted.
	SeenOf() map[uint64]int
	// Forget refuses the requests of an account that it has not begun.
	Forget(account string)
}

// WatchDoor has the server watch the line to a door; nil: there is none.
func (s *Server) WatchDoor(d Door) {
	if d == nil {
		s.door.Store(nil)
		return
	}
	s.door.Store(&d)
}

// line is what waits for the door: bytes in the server, messages in its
// connection, and bytes that it took too fast.
type line struct{ bytes, unseen, poured int }

// isShort reports whether nobody need be watched.
func (l line) isShort() bool {
	return l.bytes <= watchBytes && l.unseen <= watchUnseen && l.poured <= watchPoured
}

// volume is what was sent.
type volume struct{ messages, bytes int }

// crowd is what each connection had sent when the line became long. Of one
// goroutine.
type crowd struct {
	door   Door
	before map[uint64]volume
}

// relieve cuts off who makes the line to the door long. waiting are the bytes that
// the server has for the door, and arrived those that it has taken since the last
// look.
func (s *Server) relieve(waiting, arrived int) {
	s.poured = max(s.poured+arrived-drainPerSecond/int(time.Second/lookEvery), 0)
	var door Door
	l := line{bytes: waiting, poured: s.poured}
	if d := s.door.Load(); d != nil {
		door = *d
		l.unseen = door.Unseen()
	}
	if s.crowd != nil && (l.isShort() || s.crowd.door != door) {
		s.crowd.door.CountSenders(false)
		s.crowd = nil
	}
	if l.isShort() || door == nil { // without a door nobody knows who has what in the line
		return
	}
	begins := s.crowd == nil
	if begins {
		s.crowd = &crowd{door: door, before: make(map[uint64]volume)}
		// Before what was sent is read, so that nobody seems to have more in the line
		// than it has.
		door.CountSenders(true)
	}
	list, err := s.ns.Connz(&server.ConnzOptions{Username: true, Limit: mostListed})
	if err != nil {
		s.log.Warn("nobody knows who sends so much", "error", err)
		return
	}
	if begins {
		for _, c := range list.Conns {
			s.crowd.before[c.Cid] = volume{int(c.InMsgs), int(c.InBytes)}
		}
		return
	}
	for account, sent := range s.crowd.tooMuch(list.Conns, l) {
		s.log.Warn("a NATS client does not wait for answers, and is cut off for what it has sent and nobody could read",
			"client", account, "messages", sent.messages, "bytes", sent.bytes)
		s.expel(account, list.Conns)
	}
}

// tooMuch finds the clients that have more in the line than their share. If the line
// is full and there is none, it is the one that has most.
func (c *crowd) tooMuch(conns []*server.ConnInfo, l line) map[string]volume {
	by, found := c.inLine(conns), make(map[string]volume)
	many, much := "", ""
	for account, v := range by {
		if v.messages > shareMessages || v.bytes > shareBytes {
			found[account] = v
		}
		if v.messages > by[many].messages {
			many = account
		}
		if v.bytes > by[much].bytes {
			much = account
		}
	}
	if len(found) == 0 && l.unseen > fullUnseen && many != "" {
		found[many] = by[many]
	}
	if len(found) == 0 && l.bytes > fullBytes && much != "" {
		found[much] = by[much]
	}
	return found
}

// inLine returns what each client has in the line: messages that the door has not
// seen, and, as the door counts only messages, as many bytes as so many of its
// messages have.
func (c *crowd) inLine(conns []*server.ConnInfo) map[string]volume {
	seen := c.door.SeenOf()
	sent, by := make(map[string]volume), make(map[string]volume)
	for _, conn := range conns {
		if isOwn(conn) {
			continue
		}
		before, v := c.before[conn.Cid], sent[conn.Account]
		messages := int(conn.InMsgs) - before.messages
		v.messages += messages
		v.bytes += int(conn.InBytes) - before.bytes
		sent[conn.Account] = v
		by[conn.Account] = volume{messages: by[conn.Account].messages + messages - seen[conn.Cid]}
	}
	for account, v := range by {
		if v.messages > 0 {
			v.bytes = int(float64(sent[account].bytes) / float64(sent[account].messages) * float64(v.messages))
			by[account] = v
		}
	}
	return by
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
	s.keepOut(account)
	for _, c := range conns {
		if c.Account == account {
			s.close(c.Cid)
		}
	}
}

// keepOut keeps a client out for a while, and has its requests forgotten.
func (s *Server) keepOut(account string) {
	s.logins.kept.out(account)
	if d := s.door.Load(); d != nil {
		(*d).Forget(account)
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
	quit    chan struct{}
	mu      sync.Mutex
	strikes map[string]strike // by account; guarded by mu
	since   time.Time         // guarded by mu
	count   map[string]int    // logins since then, by account; guarded by mu
}

// strike is the last time that a client was cut off.
type strike struct {
	at  time.Time
	out time.Duration // for how long
}

func newKept() *kept { return &kept{quit: make(chan struct{}), strikes: make(map[string]strike)} }

// out keeps a client out from now on. Several of its connections may be found out
// one after the other, which counts once.
func (k *kept) out(account string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	last, again := k.strikes[account]
	switch {
	case !again || now.Sub(last.at) > forgetAfter:
		last.out = keptOut
	case now.Sub(last.at) > last.out:
		last.out = min(2*last.out, longestKept)
	}
	k.strikes[account] = strike{now, last.out}
}

// wait holds up a login of a user that was cut off, or that signed in within a
// second as often as it may have connections: each may begin a message, and leave
// it to the collector. It is not refused: NATS's libraries never come back after
// that. It reports whether the login may go on; when it may not, the server has
// closed the connection by itself.
func (k *kept) wait(account string, connections int) bool {
	k.mu.Lock()
	if time.Since(k.since) >= time.Second {
		k.since, k.count = time.Now(), make(map[string]int)
	}
	k.count[account]++
	last := k.strikes[account]
	wait := time.Until(last.at.Add(last.out))
	if k.count[account] > connections {
		wait = max(wait, keptOut)
	}
	k.mu.Unlock()
	if wait <= 0 {
		return true
	}
	select {
	case <-time.After(min(wait, authTimeout)):
		return wait <= authTimeout
	case <-k.quit:
		return false
	}
}
