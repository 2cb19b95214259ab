package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
)

// front answers clients with what the leader answers.
type front struct{ *Shadow }

// ServeHTTP answers a client with the leader's answer.
func (s *Shadow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &entry{method: r.Method, query: rest.Sent(r), path: r.URL.EscapedPath(), write: !reads(r.Method)}
	below, mounted := strings.CutPrefix(r.URL.Path, mountedAt)
	if mounted && (below == "" || below[0] == '/') {
		e.prefix, e.path = mountedAt, strings.TrimPrefix(e.path, mountedAt)
	} else {
		below = r.URL.Path
	}
	var known bool
	e.pattern, e.parameter, known = route(below)
	switch {
	case !known:
		refuse(w, http.StatusNotFound, "The shadow serves the API of Placement, and this path is none of it. "+
			"Ask Allot or Placement itself for anything else.")
		return
	case asksAllot(r):
		refuse(w, http.StatusBadRequest, "The shadow serves the API of Placement, without the headers Allot-* and "+
			"the parameters at and dry_run. Send such requests to Allot itself.")
		return
	}
	e.header = forwarded(r.Header)
	if e.write {
		front{s}.serveWrite(w, r, e)
		return
	}
	front{s}.serveRead(w, r, e)
}

// asksAllot reports whether a request uses what Placement does not have. Placement would
// carry out what Allot would only rehearse.
func asksAllot(r *http.Request) bool {
	for name := range r.Header {
		if strings.HasPrefix(name, allotPrefix) {
			return true
		}
	}
	query := rest.ParseQuery(r)
	return query.Has("at") || query.Has("dry_run")
}

func (s front) serveRead(w http.ResponseWriter, r *http.Request, e *entry) {
	began := time.Now()
	e.lead = s.Lead()
	answer, err := s.sides.send(r.Context(), e.lead, e, nil, e.query)
	if err != nil {
		s.unreachable(w, r, e, err)
		return
	}
	defer func() { _ = answer.Body.Close() }() // nothing was written
	repeat := s.repeats(e)
	var from io.Reader = answer.Body
	seen := &keeper{memory: s.kept}
	defer seen.free()
	if repeat || tells(e.pattern) {
		from = io.TeeReader(from, seen)
	}
	s.copyHeader(w, r, e, answer)
	_, err = io.Copy(w, from)
	s.answered(e.lead, e, answer.StatusCode, time.Since(began))
	if err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // the client must not take half an answer for a whole one
	}
	if err != nil || seen.failed {
		s.compared("read", "skipped")
		return
	}
	if tells(e.pattern) && answer.StatusCode == http.StatusOK {
		s.lastAnswers.note(e.lead, e.pattern, e.parameter, seen.text)
	}
	if repeat {
		e.answer = Answer{answer.StatusCode, string(seen.text)}
	}
	if !repeat || !s.queue.add(e) {
		s.compared("read", "skipped")
	}
}

func (s front) repeats(e *entry) bool {
	return s.config.CompareReads && e.method == http.MethodGet && e.pattern != "/" &&
		!s.pacing.Load() && s.queue.length().reads
}

// serveWrite carries a write through the leader. It goes on if the client leaves, because
// the follower has to learn the outcome.
func (s front) serveWrite(w http.ResponseWriter, r *http.Request, e *entry) {
	owner, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		owner = r.RemoteAddr
	}
	lease := s.config.Bodies.Lease(owner)
	defer lease.End()
	if e.body, err = intake.Read(lease, r.Body, r.ContentLength, maxBody); err != nil {
		status := http.StatusBadRequest
		switch {
		case errors.Is(err, intake.ErrTooLarge):
			status = http.StatusRequestEntityTooLarge
		case errors.Is(err, fair.ErrBusy):
			status = http.StatusServiceUnavailable
		}
		refuse(w, status, err.Error())
		return
	}
	if e.method == http.MethodPost && e.pattern == "/resource_providers" {
		e.body = named(e.body)
	}
	e.touched = touched(e.pattern, e.parameter, e.body)
	if named := len(e.concerned()); named > mostThings {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("The body names %d consumers and providers, and the shadow "+
			"takes %d in one request. Send fewer at a time.", named, mostThings))
		return
	}
	s.pace(r.Context())
	answer, body, err := s.inOrder(r.Context(), e)
	if err != nil {
		s.unreachable(w, r, e, err)
		return
	}
	s.copyHeader(w, r, e, answer)
	_, _ = w.Write(body) // if this fails the client is gone
}

// inOrder carries out a write while no other one changes the same things.
func (s front) inOrder(ctx context.Context, e *entry) (*http.Response, []byte, error) {
	if err := s.gate.enter(ctx); err != nil {
		return nil, nil, err // the client is gone
	}
	defer s.gate.leave()
	unlock, err := s.locks.lock(ctx, e.touched)
	if err != nil {
		return nil, nil, err // the client is gone
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaderTimeout)
	defer cancel()
	e.lead = s.Lead()
	answer, body, err := s.carryOut(ctx, e)
	if err != nil {
		s.unsure(e)
	}
	return answer, body, err
}

// carryOut has the leader carry out a write, and notes the outcome for the follower.
func (s front) carryOut(ctx context.Context, e *entry) (*http.Response, []byte, error) {
	began := time.Now()
	answer, body, err := s.leaderDoes(ctx, e, e.body)
	if err == nil && conflicts(answer.StatusCode, body) && s.lastAnswers.knows(e.touched, e.lead.Other()) {
		// The leader has permitted it, and may know its generations by other numbers.
		if sent, failed := s.forLeader(ctx, e); failed == nil && !bytes.Equal(sent, e.body) {
			answer, body, err = s.leaderDoes(ctx, e, sent)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	s.answered(e.lead, e, answer.StatusCode, time.Since(began))
	e.answer = Answer{answer.StatusCode, string(body)}
	switch {
	case answer.StatusCode/100 == 2:
		s.lastAnswers.forget(e.touched)
		s.accepted(e, answer)
	case answer.StatusCode >= http.StatusInternalServerError:
		s.unsure(e)
	case answer.StatusCode == http.StatusUnauthorized || conflicts(answer.StatusCode, body):
	case e.lead == Placement:
		s.refused(e)
	}
	return answer, body, nil
}

// conflicts reports whether a side has refused a generation. It has permitted the request
// before it looked at that.
func conflicts(status int, body []byte) bool {
	return status == http.StatusConflict && bytes.Contains(body, []byte(conflictCode))
}

// leaderDoes sends a write to the leader. To Allot it is sent once more if no answer comes,
// because its command id lets Allot carry it out once at most.
func (s front) leaderDoes(ctx context.Context, e *entry, sent []byte) (*http.Response, []byte, error) {
	if e.lead == Allot {
		e.commandID = uuid.NewString()
	}
	answer, body, err := s.exchange(ctx, e, sent)
	if err != nil && e.lead == Allot && ctx.Err() == nil {
		return s.exchange(ctx, e, sent)
	}
	return answer, body, err
}

func (s front) exchange(ctx context.Context, e *entry, sent []byte) (*http.Response, []byte, error) {
	answer, err := s.sides.send(ctx, e.lead, e, sent, e.query)
	if err != nil {
		return nil, nil, err
	}
	body, err := whole(answer)
	return answer, body, err
}

func (s front) accepted(e *entry, answer *http.Response) {
	if e.lead == Placement {
		e.commandID = commandID(answer.Header.Get(requestHeader))
	}
	if !s.queue.add(e) {
		s.compared("write", "skipped")
		s.missed(e)
	}
}

// missed notes that what a write changes may differ.
func (s *Shadow) missed(e *entry) {
	s.queue.miss(e.touched...)
	s.queue.miss(raised(e.pattern, e.body)...)
}

// unsureFor is after how long it is looked again whether a write without an answer was
// carried out: the service may have been at it still when it was looked first.
const unsureFor = 30 * time.Second

// unsure is missed for a write that may be carried out only later.
func (s *Shadow) unsure(e *entry) {
	s.missed(e)
	s.queue.lookAgain(unsureFor, e.touched...)
}

// refused has Allot rehearse a write that Placement has refused. A write that was refused
// for its generation cannot be rehearsed, because its generation would be replaced.
func (s front) refused(e *entry) {
	rehearsal := *e
	rehearsal.touched, rehearsal.write = nil, false
	if !s.config.CompareReads || !s.queue.add(&rehearsal) {
		s.compared("refused", "skipped")
	}
}

// commandID makes the id of Allot's command from the id that Placement gave the request,
// so that both logs name it alike, and a repetition changes nothing.
func commandID(requestID string) string {
	if id, err := uuid.Parse(strings.TrimPrefix(requestID, "req-")); err == nil && id != uuid.Nil {
		return id.String()
	}
	return uuid.NewString()
}

// ownHeaders are about one connection, and not about the request.
var ownHeaders = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Accept-Encoding", "Content-Length", "Expect",
}

func forwarded(from http.Header) http.Header {
	header := from.Clone()
	for _, list := range from.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			header.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range ownHeaders {
		delete(header, name)
	}
	return header
}

// refuse answers in the form of Placement's errors.
func refuse(w http.ResponseWriter, status int, detail string) {
	body, err := ledger.PlainJSON(map[string]any{"errors": []any{map[string]any{
		"status": status, "title": http.StatusText(status), "detail": detail, "request_id": "req-" + uuid.NewString(),
	}}})
	if err != nil {
		http.Error(w, detail, status)
		return
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", secondsOfRetry)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // if this fails the client is gone
}

// copyHeader begins the answer. Its links lead to the proxy.
func (s front) copyHeader(w http.ResponseWriter, r *http.Request, e *entry, answer *http.Response) {
	header := w.Header()
	for name, values := range forwarded(answer.Header) {
		header[name] = slices.Clone(values)
	}
	if location, err := url.Parse(answer.Header.Get("Location")); err == nil && location.Path != "" {
		if location.Host != "" {
			location.Scheme, location.Host = "http", r.Host
			if r.TLS != nil {
				location.Scheme = "https"
			}
		}
		mounted := strings.TrimRight(s.sides.peers[e.lead].URL.Path, "/")
		location.Path = e.prefix + strings.TrimPrefix(location.Path, mounted)
		header.Set("Location", location.String())
	}
	if answer.ContentLength >= 0 && answer.StatusCode != http.StatusNoContent {
		header.Set("Content-Length", fmt.Sprint(answer.ContentLength))
	}
	w.WriteHeader(answer.StatusCode)
}

func (s front) unreachable(w http.ResponseWriter, r *http.Request, e *entry, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	s.answered(e.lead, e, 0, 0)
	if s.watch.mayLogAway() {
		s.config.Logger.Warn("the leader does not answer", "lead", e.lead.String(), "error", err)
	}
	refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("The service behind this proxy (%s) does not answer. "+
		"If the request is a write, whether it was carried out is not known: read, and try again.", e.lead))
}
