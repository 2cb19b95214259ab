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
	// client has more than its share: many together do. Then the one that has most is
	// cut off, if it has much: most of the line may be of clients that have gone.
	fullUnseen   = 16 * shareMessages
	fullBytes    = 32 << 20
	muchMessages = shareMessages / 2
	muchBytes    = shareBytes / 2
	// brimBytes is when it is cut off even if it has only a little.
	brimBytes   = maxPending / 2
	littleBytes = 64 << 10
	// keptOut is how long a client that was cut off waits until it is let in again,
	// and for twice as long each time that it is cut off within forgetAfter, up to
	// longestKept. NATS's libraries wait for two seconds and then try again.
	keptOut     = 1500 * time.Millisecond
	longestKept = 16 * keptOut
	forgetAfter = time.Minute
)

// Door is where the requests of clients come in.
type Door interface {
	// Came is how many messages have come for it.
	Came() int
	// Unseen is how many messages have come that it has not looked at.
	Unseen() int
	// Caught returns what is closed as soon as it has not looked at most messages
	// or fewer. One goroutine waits at a time.
	Caught(most int) <-chan struct{}
	// CountSenders begins to count anew the messages that it looks at, by
	// connection.
	CountSenders()
	// SeenOf returns what was counted.
	SeenOf() map[uint64]int
	// Forget refuses the requests of an account that it has not begun.
	Forget(account string)
}

// WatchDoor has the server watch the line to a door; nil: there is none.
func (s *Server) WatchDoor(d Door) { s.door.set(d) }

// line is what waits for the door: bytes in the server, messages in its
// connection, and bytes that it took too fast.
type line struct{ bytes, unseen, poured int }

// isShort reports whether nobody need be watched.
func (l line) isShort() bool {
	return l.bytes <= watchBytes && l.unseen <= watchUnseen && l.poured <= watchPoured
}

// volume is what was sent.
type volume struct{ messages, bytes int }

// crowd is what each connection had sent at a moment at which the line was short.
// Of one goroutine.
type crowd struct {
	door   Door
	since  time.Time
	came   int // messages for the door
	before map[uint64]volume
}

// renewCrowd is how often that is noted anew while the line is short. So it is known
// who makes it long as soon as it is.
const renewCrowd = time.Second

// isDue reports whether it is to be noted anew.
func (c *crowd) isDue(door Door) bool {
	return c == nil || c.door != door || time.Since(c.since) >= renewCrowd && door.Came() != c.came
}

// relieve cuts off who makes the line to the door long. waiting are the bytes that
// the server has for the door, and arrived those that it has taken since the last
// look, which is some time ago.
func (s *Server) relieve(waiting, arrived int, since time.Duration) {
	s.poured = max(s.poured+arrived-int(drainPerSecond*since.Seconds()), 0)
	door, _ := s.door.get()
	l := line{bytes: waiting, poured: s.poured}
	if door != nil {
		l.unseen = door.Unseen()
	}
	s.long = !l.isShort()
	if door == nil { // nobody knows who has what in the line
		s.crowd = nil
		return
	}
	begins := s.crowd.isDue(door) && (!s.long || s.crowd == nil || s.crowd.door != door)
	if !begins && !s.long {
		return
	}
	if begins {
		s.crowd = &crowd{door: door, since: time.Now(), came: door.Came(), before: make(map[uint64]volume)}
		// Before what was sent is read, so that nobody seems to have more in the line
		// than it has.
		door.CountSenders()
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
	switch v := by[much]; {
	case len(found) > 0:
	case l.unseen > fullUnseen && by[many].messages >= muchMessages:
		found[many] = by[many]
	case l.bytes > fullBytes && v.bytes >= muchBytes, l.bytes > brimBytes && v.bytes >= littleBytes:
		found[much] = v
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
	s.logins.kept.out(account)
	for _, c := range conns {
		if c.Account == account {
			s.close(c.Cid)
		}
	}
	s.forget(account)
}

// forget has the requests of a client that is cut off forgotten. That publishes a
// refusal for each, through a connection that may be full because of the client. So
// it waits neither for the end of that nor, before, with closing the connections:
// nobody would be cut off meanwhile.
func (s *Server) forget(account string) {
	if door, _ := s.door.get(); door != nil {
		go door.Forget(account)
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
	waiting map[string]int    // logins that wait, by account; guarded by mu

	// atOnce is how many logins of a user come in within a second: each may begin a
	// message, for which the server makes room, and leave it to the collector. It is
	// half of the connections that a user may have. As many as it may have wait, so
	// that a service comes back with all of them: a login that waits takes memory, and
	// does not notice when its client goes.
	atOnce, mostWaiting int
}

// strike is the last time that a client was cut off.
type strike struct {
	at  time.Time
	out time.Duration // for how long
}

func newKept(connections int) *kept {
	return &kept{
		quit: make(chan struct{}), strikes: make(map[string]strike), count: make(map[string]int),
		waiting: make(map[string]int), atOnce: max(1, connections/2), mostWaiting: connections,
	}
}

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

// wait holds up a login of a user that was cut off, or of which many have signed in
// within this second: a place in one of the next seconds is kept for it. It is not
// refused unless many wait: NATS's libraries never come back after that. It reports
// whether the login may go on; when it may not, the server has closed the connection
// by itself.
func (k *kept) wait(account string) bool {
	wait, ok := k.place(account, time.Now())
	if wait <= 0 || !ok {
		return ok
	}
	defer k.leave(account)
	select {
	case <-time.After(min(wait, authTimeout)):
		return wait <= authTimeout
	case <-k.quit:
		return false
	}
}

// place returns how long a login must wait, and whether it may.
func (k *kept) place(account string, now time.Time) (wait time.Duration, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since := now.Sub(k.since); since >= time.Second {
		for account := range k.count {
			if k.count[account] -= int(since.Seconds()) * k.atOnce; k.count[account] <= 0 {
				delete(k.count, account)
			}
		}
		k.since = now
	}
	last := k.strikes[account]
	wait = last.at.Add(last.out).Sub(now)
	later := time.Duration(k.count[account]/k.atOnce) * time.Second
	wait = max(wait, later)
	if wait > 0 && k.waiting[account] >= k.mostWaiting {
		return wait, false
	}
	k.count[account]++
	if wait > 0 {
		k.waiting[account]++
	}
	return wait, true
}

func (k *kept) leave(account string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting[account]--; k.waiting[account] == 0 {
		delete(k.waiting, account)
	}
}
