package natsapi

import (
	"sync"

	"github.com/nats-io/nats.go/micro"

	"github.com/allot-project/allot/commands"
)

// outbox answers commands. The writer must not wait, so it only puts answers in.
// The answers of one commit are sent together, so that their clients come back
// together and share the next commit.
type outbox struct {
	service *Service
	wake    chan struct{} // signals new answers; capacity 1
	stopped chan struct{}

	mu      sync.Mutex
	answers []answer // guarded by mu
	refused int      // refusals among them; guarded by mu
	closed  bool     // guarded by mu
}

type answer struct {
	request *request
	dryRun  bool
	outcome commands.Outcome
	err     error
	refused bool // it was never under way
	// What is sent.
	body    []byte
	headers micro.Headers
}

func startOutbox(s *Service) *outbox {
	o := &outbox{service: s, wake: make(chan struct{}, 1), stopped: make(chan struct{})}
	go o.run()
	return o
}

func (o *outbox) add(a answer) {
	o.mu.Lock()
	o.answers = append(o.answers, a)
	o.mu.Unlock()
	o.signal()
}

// mostRefused is how many refusals may wait to be sent. Beyond it a refused request gets
// no answer, as one that NATS has dropped.
const mostRefused = 8 << 10

// refuse answers a request that did not begin. It does not wait: what comes behind would
// wait, too, of whichever client it is.
func (o *outbox) refuse(r *request, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused < mostRefused {
		o.refused++
		o.answers = append(o.answers, answer{request: r, err: err, refused: true})
		o.signal()
	}
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *outbox) run() {
	defer close(o.stopped)
	var spare []answer
	for range o.wake {
		o.mu.Lock()
		answers, closed := o.answers, o.closed
		o.answers, o.refused = spare[:0], 0
		o.mu.Unlock()
		o.send(answers)
		clear(answers)
		spare = answers
		if closed {
			return
		}
	}
}

// send answers requests, and only then lets others begin. It makes all replies
// before it sends the first, because messages that are published together also
// travel together.
func (o *outbox) send(answers []answer) {
	s := o.service
	for i := range answers {
		a := &answers[i]
		reply := s.replyTo(a.request, a.dryRun, a.outcome, a.err)
		a.body, a.headers, a.err = s.encode(&reply, a.request.encoding, reply.Error)
	}
	for i := range answers {
		a := &answers[i]
		s.send(a.request, a.body, a.headers, a.err)
	}
	for i := range answers {
		if !answers[i].refused {
			s.done(answers[i].request)
		}
	}
}

// close waits until everything is sent. Nothing may be added after it.
func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.signal()
	<-o.stopped
}
