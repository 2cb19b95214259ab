package natsapi

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/commands/wire"
)

// All answers share a connection, and each takes locks of the NATS server that a client
// who floods it holds most of the time. So whoever looks at what comes tells nobody that
// too much waits: what comes behind would wait for that, of whichever client it is. One
// goroutine tells it later, a few at a time, so that other answers come between.

const (
	// mostUntold is how many refusals of one client may be untold. A client that waits
	// for answers has fewer, however slow they are.
	mostUntold = 2 * clientQueue
	// mostUntoldAll bounds those of all clients together, and of those that are gone:
	// some 100 bytes each.
	mostUntoldAll = 128 << 10
	// toldAtOnce are told until the NATS server has read them.
	toldAtOnce = 16
	// goneFor is how long what comes from a client that was cut off is what it had sent
	// before. It is let in again later than that.
	goneFor = time.Second
	// tellPatience is how long the NATS server may take to read them.
	tellPatience = time.Second
)

// refusal is where a refusal goes, and its encoding. The request is not kept.
type refusal struct{ reply, encoding string }

// refusals are those of which the clients are not told yet.
type refusals struct {
	mu     sync.Mutex
	comes  *sync.Cond           // with mu: there is one, or no more will come
	of     map[string][]refusal // by client; guarded by mu
	turns  []string             // clients of which there are some, in turn; guarded by mu
	gone   []refusal            // of clients that were cut off, whom nobody keeps waiting; guarded by mu
	count  int                  // of all; guarded by mu
	left   map[string]int       // how often accounts were cut off a moment ago; guarded by mu
	closed bool                 // guarded by mu
}

func newRefusals() *refusals {
	r := &refusals{of: make(map[string][]refusal), left: make(map[string]int)}
	r.comes = sync.NewCond(&r.mu)
	return r
}

// add has a client told later. It reports false if it must be told at once, because too
// many are untold, and whether the client has more of them than who waits for answers.
func (r *refusals) add(client string, one refusal) (taken, isFlood bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.of[client]
	isFlood = len(mine) >= mostUntold
	if r.closed || r.count >= mostUntoldAll {
		return false, isFlood
	}
	r.count++
	r.comes.Signal()
	if r.isGone(client) {
		r.gone = append(r.gone, one)
		return true, false
	}
	if len(mine) == 0 {
		r.turns = append(r.turns, client)
	}
	r.of[client] = append(mine, one)
	return true, isFlood
}

// isGone reports whether a client was cut off a moment ago; mu is held.
func (r *refusals) isGone(client string) bool {
	if len(r.left) == 0 {
		return false
	}
	account, _, _ := strings.Cut(client, " ")
	return r.left[account] > 0
}

// hasGone reports whether a client was cut off a moment ago.
func (r *refusals) hasGone(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isGone(client)
}

// leave says that an account was cut off. It is told when what it has sent has come: the
// NATS server takes the same locks for both, and others need them.
func (r *refusals) leave(account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[account]++
	time.AfterFunc(goneFor, func() { r.hasLeft(account) })
	r.turns = slices.DeleteFunc(r.turns, func(client string) bool {
		if !strings.HasPrefix(client, account+" ") {
			return false
		}
		r.gone = append(r.gone, r.of[client]...)
		delete(r.of, client)
		return true
	})
}

// hasLeft says that what an account had sent when it was cut off has come.
func (r *refusals) hasLeft(account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left[account]--; r.left[account] == 0 {
		delete(r.left, account)
	}
	r.comes.Signal()
}

// isDue reports whether somebody is to be told; mu is held.
func (r *refusals) isDue() bool {
	return len(r.turns) > 0 || len(r.gone) > 0 && (len(r.left) == 0 || r.closed)
}

// next waits for refusals and takes a few out: one of each client in turn, and of those
// that are gone if there are no others. Nil: there are none, and no more will come.
func (r *refusals) next() (some []refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.isDue() && !r.closed {
		r.comes.Wait()
	}
	for len(some) < toldAtOnce && len(r.turns) > 0 {
		client := r.turns[0]
		mine := r.of[client]
		some = append(some, mine[0])
		r.turns = r.turns[1:]
		if len(mine) == 1 {
			delete(r.of, client)
			continue
		}
		r.of[client] = mine[1:]
		r.turns = append(r.turns, client)
	}
	if len(some) == 0 {
		n := min(toldAtOnce, len(r.gone))
		some = slices.Clone(r.gone[:n])
		if r.gone = r.gone[n:]; len(r.gone) == 0 {
			r.gone = nil
		}
	}
	r.count -= len(some)
	return some
}

// close says that no more will come. Those that are untold are still told.
func (r *refusals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.comes.Signal()
}

// refuseLater refuses a request because too much waits.
func (s *Service) refuseLater(r *request) {
	if r.trace != nil { // few are, and their answers say so
		s.refuse(r, tooMany())
		return
	}
	taken, isFlood := true, false
	if r.Reply() != "" {
		taken, isFlood = s.refusals.add(r.client, refusal{r.Reply(), r.encoding})
	}
	if isFlood && s.floods.cut(r.from, r.came) {
		s.logger.Warn("a NATS client does not wait for answers, and is cut off", "client", r.client,
			"connection", r.from.Connection)
	}
	if !taken {
		s.refuse(r, tooMany())
		return
	}
	s.answered(r, micro.Headers{micro.ErrorCodeHeader: {statusOf(tooMany().Code)}}, nil)
}

// tellRefused tells clients what is refused, until the service has stopped.
func (s *Service) tellRefused() {
	failed := false
	for some := s.refusals.next(); len(some) > 0; some = s.refusals.next() {
		err := s.tell(some)
		if err != nil && !failed { // the next ones say the same
			s.logger.Warn("a refusal cannot be sent", "error", err)
		}
		failed = err != nil
	}
}

// tell tells some of what is refused, and waits until the NATS server has read it.
func (s *Service) tell(some []refusal) error {
	failure := tooMany()
	made := make(map[string]*nats.Msg)
	for _, one := range some {
		msg := made[one.encoding]
		if msg == nil {
			body, headers, err := s.encode(wire.Answer[any]{Error: failure}, one.encoding, failure)
			if err != nil {
				return err
			}
			msg = &nats.Msg{Data: body, Header: nats.Header(headers)}
			made[one.encoding] = msg
		}
		msg.Subject = one.reply
		if err := s.nc.PublishMsg(msg); err != nil {
			return err
		}
	}
	return s.nc.FlushTimeout(tellPatience)
}
