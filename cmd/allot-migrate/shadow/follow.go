package shadow

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// follower carries out at the follower what the leader has done, and compares the answers.
type follower struct{ *Shadow }

func (s follower) sendOnce(ctx context.Context, to Side, e *entry, body []byte, query string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	began := time.Now()
	answer, err := s.sides.send(ctx, to, e, body, query)
	if err != nil {
		return Answer{}, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCompared+1))
	if closed := answer.Body.Close(); err != nil || closed != nil {
		return Answer{}, errors.Join(err, closed)
	}
	s.answered(to, e, answer.StatusCode, time.Since(began))
	return Answer{answer.StatusCode, string(text)}, s.sides.busy(to, answer.StatusCode)
}

// follow carries out a write at the follower, however long that is away. If its outcome is
// not the leader's, what it was about is brought in line.
func (s follower) follow(ctx context.Context, e *entry) {
	to := e.lead.Other()
	answer, err := s.patiently(ctx, to, e)
	if err == nil && refuses(e.answer, answer) {
		// What it needs may be under way, such as a release of what it takes.
		e.translated, e.asked = nil, true
		s.crew.byItself(func() { answer, err = s.patiently(ctx, to, e) })
	}
	switch {
	case ctx.Err() != nil:
		return // the next start compares everything
	case err != nil:
		s.unsure(e)
		s.compared("write", "skipped")
		return
	}
	if e.again && to == Placement {
		s.queue.lookAgain(unsureFor, e.touched...) // the first attempt may come to an end only now
	}
	differences := Compare(e.path, e.query, e.answer, answer)
	if answer.Status != e.answer.Status {
		s.missed(e)
		if e.again && answer.Status < http.StatusInternalServerError {
			// The first attempt may have been carried out, so the answer means nothing.
			s.compared("write", "skipped")
			return
		}
	}
	s.noted("write", e, e.answer, answer, differences)
}

// patiently repeats a write until the follower answers. It waits as long as the follower
// is away, but not for one that is there and cannot carry out this write.
func (s follower) patiently(ctx context.Context, to Side, e *entry) (answer Answer, err error) {
	tries := 0
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, longestPause) {
		answer, err = s.followOnce(ctx, to, e)
		if err == nil && answer.Status < http.StatusInternalServerError {
			return answer, nil
		}
		e.again = true
		if s.sides.isThere(ctx, to) {
			if tries++; tries == mostTries {
				return answer, err
			}
		}
		if !pause(ctx, wait) {
			return answer, ctx.Err()
		}
	}
}

func (s follower) followOnce(ctx context.Context, to Side, e *entry) (Answer, error) {
	if e.translated == nil {
		body, err := s.translated(ctx, to, e, !e.asked)
		if err != nil {
			return Answer{}, err
		}
		e.translated = body
	}
	return s.sendOnce(ctx, to, e, e.translated, e.query)
}

// translated returns an entry's body with the generations that a side has now. If it trusts
// that the side is equal, it asks only for the generations of consumers, which differ.
func (s follower) translated(ctx context.Context, to Side, e *entry, trusts bool) ([]byte, error) {
	var failed error
	body, err := withGenerations(e.pattern, e.parameter, e.body, func(of Resource, given string) (string, error) {
		if trusts && (given == "null" || !strings.HasPrefix(string(of), kindConsumer)) {
			return given, nil
		}
		generation, err := s.sides.generation(ctx, to, of)
		switch {
		case err != nil:
			failed = err
			return given, err
		case generation == "null" && !strings.HasPrefix(string(of), kindConsumer):
			return given, nil // the follower says that there is no such provider
		}
		return generation, nil
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return e.body, nil // it is no JSON: both sides refuse it
	}
	return body, nil
}

// repeat repeats a read, or has Allot rehearse a refused write.
func (s follower) repeat(ctx context.Context, e *entry) {
	to, kind := e.lead.Other(), "read"
	if !reads(e.method) {
		kind = "refused"
	}
	// While the lead changes, writes wait for what is to do; afterwards the other one leads.
	if s.pacing.Load() || s.Lead() != e.lead {
		s.compared(kind, "skipped")
		return
	}
	answer, err := s.repeated(ctx, to, e)
	if err != nil || len(answer.Body) > maxCompared {
		s.compared(kind, "skipped")
		return
	}
	differences := Compare(e.path, e.query, e.answer, answer)
	if len(differences) > 0 && s.passes(ctx, e) {
		s.compared(kind, "passing")
		return
	}
	s.noted(kind, e, e.answer, answer, differences)
}

func (s follower) repeated(ctx context.Context, to Side, e *entry) (Answer, error) {
	switch {
	case reads(e.method):
		return s.sendOnce(ctx, to, e, nil, e.query)
	case to != Allot:
		return Answer{}, errors.New("only Allot rehearses: Placement would carry the write out")
	}
	query := dryRunQuery
	if e.query != "" {
		query = e.query + "&" + dryRunQuery
	}
	answer, err := s.sendOnce(ctx, to, e, e.body, query)
	if err != nil || !conflicts(answer.Status, []byte(answer.Body)) {
		return answer, err // it may have been refused unread, so no generation is asked for before
	}
	body, err := s.translated(ctx, to, e, false)
	if err != nil {
		return Answer{}, err
	}
	return s.sendOnce(ctx, to, e, body, query)
}

// passes reports whether a read that differed is the same when both sides are asked again:
// the contents may have changed between the two answers. A refused write is not repeated.
func (s follower) passes(ctx context.Context, e *entry) bool {
	if !reads(e.method) {
		return false
	}
	for attempt := range 3 {
		// A write that is on its way to the follower explains the difference.
		if left := s.queue.length(); left.entries > 1 || left.missing > 0 || !s.gate.quiet() {
			return true
		}
		if attempt > 0 && !pause(ctx, passingPause) {
			return true
		}
		left, err := s.sendOnce(ctx, e.lead, e, nil, e.query)
		if err != nil {
			return true
		}
		right, err := s.sendOnce(ctx, e.lead.Other(), e, nil, e.query)
		if err != nil || len(Compare(e.path, e.query, left, right)) == 0 {
			return true
		}
	}
	return false
}

func (s follower) noted(kind string, e *entry, leads, follows Answer, differences []string) {
	if len(differences) == 0 {
		s.compared(kind, "same")
		return
	}
	s.compared(kind, "different")
	target := e.path
	if e.query != "" {
		target += "?" + e.query
	}
	d := Difference{
		At: time.Now().UTC(), Kind: kind, Request: e.method + " " + shortened(target, mostKeptBytes),
		Microversion: strings.Join(e.header[http.CanonicalHeaderKey(versionHeader)], ", "), Lead: e.lead.String(),
		Differences: slices.Clone(differences), Leader: kept(leads), Follower: kept(follows),
	}
	if s.watch.keep(d) {
		s.config.Logger.Warn("the answers differ", "request", d.Request, "kind", kind, "lead", d.Lead,
			"differences", d.Differences, "leader", d.Leader, "follower", d.Follower)
	}
}

func kept(a Answer) Answer { return Answer{a.Status, shortened(a.Body, mostKeptBytes)} }

// mostAtOnce is how many requests the follower gets at once.
const mostAtOnce = 8

// work does what the queue has, in its order. Allocations, of which there are most, may run side by side if
// they concern different consumers and providers; so may reads. All else is done while nothing else is.
func (s *Shadow) work(ctx context.Context) {
	s.crew.init()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		e, m := s.queue.next(ctx)
		switch {
		case m != nil:
			s.crew.enter(nil, 1)
			repairs{s}.repairMissed(ctx, *m)
			s.crew.leave(nil)
			s.queue.done()
		case e == nil:
			return
		case !e.besideOthers():
			s.crew.enter(nil, 1)
			s.do(ctx, e)
			s.crew.leave(nil)
			s.queue.done()
		default:
			concerned := e.concerned()
			s.crew.enter(concerned, mostAtOnce)
			all.Go(func() {
				s.do(ctx, e)
				s.crew.leave(concerned)
				s.queue.done()
			})
		}
	}
}

func (s *Shadow) do(ctx context.Context, e *entry) {
	if e.write {
		follower{s}.follow(ctx, e)
		return
	}
	follower{s}.repeat(ctx, e)
}

// besideOthers reports whether the follower may get an entry while it has others.
func (e *entry) besideOthers() bool {
	return reads(e.method) || e.write && (e.pattern == "/allocations" || e.pattern == "/allocations/*")
}

func (e *entry) concerned() []Resource {
	if !e.write {
		return nil
	}
	return slices.Concat(e.touched, raised(e.pattern, e.body))
}

// crew are those who bring entries to the follower.
type crew struct {
	mu      sync.Mutex
	changed sync.Cond
	busy    map[Resource]int // how many work on a thing
	inside  int
	waiting int  // of inside: how many want to be alone
	alone   bool // one of these is
}

func (c *crew) init() {
	c.changed.L = &c.mu
	c.busy = make(map[Resource]int)
}

// enter waits until no other holder works on any of these things, and fewer than most are inside.
// Only one goroutine may call it.
func (c *crew) enter(all []Resource, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.waiting > 0 || c.inside >= most || slices.ContainsFunc(all, func(of Resource) bool { return c.busy[of] > 0 }) {
		c.changed.Wait()
	}
	c.inside++
	for _, of := range all {
		c.busy[of]++
	}
}

func (c *crew) leave(all []Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	for _, of := range all {
		if c.busy[of]--; c.busy[of] == 0 {
			delete(c.busy, of)
		}
	}
	c.changed.Broadcast()
}

// byItself lets one of those inside do something while all others have left, or wait for the same.
func (c *crew) byItself(do func()) {
	c.mu.Lock()
	c.waiting++
	c.changed.Broadcast()
	for c.alone || c.inside > c.waiting {
		c.changed.Wait()
	}
	c.alone = true
	c.mu.Unlock()
	do()
	c.mu.Lock()
	c.alone = false
	c.waiting--
	c.changed.Broadcast()
	c.mu.Unlock()
}

// refuses reports whether a side has refused what the other one has accepted. A refusal
// changes nothing, so the same may be sent again.
func refuses(accepted, answer Answer) bool {
	return accepted.Status/100 == 2 && answer.Status/100 == 4 && answer.Status != http.StatusTooManyRequests
}
