package audit

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
)

// kind is a way to answer questions. Its error is a *rest.Failure, or a fault of
// the server; after an error it has answered nothing.
type kind interface {
	serve(q *Questions, w http.ResponseWriter, r *http.Request, one *question) error
}

// asked answers the parameters of a request with one JSON document.
type asked func(q *Questions, ctx context.Context, p *parameters) (any, error)

// about makes a method of a subject's type one of Questions.
func about[Subject ~struct{ *Questions }](method func(Subject, context.Context, *parameters) (any, error)) asked {
	return func(q *Questions, ctx context.Context, p *parameters) (any, error) { return method(Subject{q}, ctx, p) }
}

func (a asked) serve(q *Questions, w http.ResponseWriter, r *http.Request, one *question) error {
	return a.answer(q, w, r, one, (*fair.Pool).Short)
}

// place waits for a place for a client's work.
type place func(pool *fair.Pool, ctx context.Context, client string) (*fair.Work, error)

// answer answers with a place: of a kind of its own if the question is about the past.
// What locks guard, such as indexes of the past, is only asked for with one. The answer
// is written without it, however slowly the client reads.
func (a asked) answer(q *Questions, w http.ResponseWriter, r *http.Request, one *question, take place) error {
	p, err := parse(r, one.parameters)
	if err != nil {
		return err
	}
	if p.given["at"] != "" {
		take = (*fair.Pool).Long
	}
	client := policy.Identity{}.Client(r.RemoteAddr)
	work, err := take(q.Fair, r.Context(), client)
	if err != nil {
		return err
	}
	var answer any
	if err = q.resolve(p); err == nil {
		answer, err = a(q, r.Context(), p)
	}
	work.End()
	if err != nil {
		return err
	}
	lease := q.Fair.Lease(client)
	defer lease.End()
	return write(w, lease, answer)
}

// thorough is asked, of questions that read all that the ledger holds. Only a few of
// them are under way at a time, in turn among clients: one reader could ask on all
// processors at once.
type thorough asked

func (a thorough) serve(q *Questions, w http.ResponseWriter, r *http.Request, one *question) error {
	return asked(a).answer(q, w, r, one, (*fair.Pool).Long)
}

// posted answers the body of a request with one JSON document.
type posted func(q *Questions, ctx context.Context, client string, body []byte) (any, error)

func (p posted) serve(q *Questions, w http.ResponseWriter, r *http.Request, one *question) error {
	if _, err := parse(r, one.parameters); err != nil {
		return err
	}
	if err := rest.CheckContentType(r); err != nil {
		return rest.Errorf(http.StatusUnsupportedMediaType, "%v", err)
	}
	client := policy.Identity{}.Client(r.RemoteAddr)
	lease := q.Fair.Lease(client)
	defer lease.End()
	body, err := rest.ReadBody(r, lease, maxPostedBytes)
	if err != nil {
		return err
	}
	answer, err := p(q, r.Context(), client, body)
	if err != nil {
		return err
	}
	return write(w, lease, answer)
}

// maxPostedBytes is the size of the largest body, in bytes.
const maxPostedBytes = 4 << 20

// stream is an answer in lines, which may go on until the client has enough. It
// returns a function that writes the lines, or what is wrong with the parameters.
type stream func(q *Questions, p *parameters) (func(ctx context.Context, to *lines) error, error)

func (s stream) serve(q *Questions, w http.ResponseWriter, r *http.Request, one *question) error {
	p, err := parse(r, one.parameters)
	if err != nil {
		return err
	}
	tell, err := s(q, p)
	if err != nil {
		return err
	}
	to := newLines(w, r, p.given["format"] == formatText)
	to.lease = q.Fair.Lease(to.asker)
	defer to.lease.End()
	err = tell(r.Context(), to)
	_, passing := rest.Unavailable(err)
	switch {
	case err == nil || r.Context().Err() != nil: // the client has gone
		return nil
	case !to.begun && passing:
		return err
	}
	if !rest.TooMuch(err) {
		q.Logger.ErrorContext(r.Context(), "an answer was cut short", "path", r.URL.Path, "error", err)
	}
	_ = to.write(ledger.Address{}, Trouble{Error: err.Error()}) // the client is gone if this fails
	return nil
}

// Trouble is the last line of an answer that had to be cut short.
type Trouble struct {
	Error string `json:"error"`
}

// String returns the line as text.
func (t Trouble) String() string { return "error: " + t.Error }

// lines is an answer that is sent line by line: as lines of JSON or, for a client
// that accepts them, as server-sent events, whose ids are addresses.
type lines struct {
	w     http.ResponseWriter
	asker string // the client, as places are given to it
	lease *fair.Lease
	write func(at ledger.Address, line any) error
	begun bool // too late for another status
}

func newLines(w http.ResponseWriter, r *http.Request, asText bool) *lines {
	to := &lines{w: w, asker: policy.Identity{}.Client(r.RemoteAddr)}
	if asText {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		to.write = func(_ ledger.Address, line any) error {
			_, err := fmt.Fprintln(w, line)
			return err
		}
		return to
	}
	if !strings.Contains(r.Header.Get("Accept"), eventStream) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		out := ledger.PlainEncoder(w)
		to.write = func(_ ledger.Address, line any) error { return out.Encode(line) }
		return to
	}
	w.Header().Set("Content-Type", eventStream)
	to.write = func(at ledger.Address, line any) error {
		text, err := ledger.PlainJSON(line)
		if err == nil {
			_, err = fmt.Fprintf(w, "id: %s\ndata: %s\n\n", at, text)
		}
		return err
	}
	return to
}

const eventStream = "text/event-stream"

// heaviest is the most that a part of an answer counts as: a commit of any size can be read.
const heaviest = fair.MaxWeight / 2

// hold takes memory for the next part of the answer, until it is flushed: a client that reads slowly keeps that.
func (l *lines) hold(bytes int) error { return l.lease.Grow(min(int64(bytes), heaviest)) }

func (l *lines) line(at ledger.Address, line any) error {
	l.begun = true
	return l.write(at, line)
}

func (l *lines) flush() error {
	l.begun = true
	defer l.lease.End()
	return http.NewResponseController(l.w).Flush()
}

type plain []byte

// write sends an answer, with memory for it until the client has taken it. If that
// fails, the client is gone.
func write(w http.ResponseWriter, lease *fair.Lease, answer any) error {
	var text []byte
	var kind string
	switch answer := answer.(type) {
	case plain:
		text, kind = answer, "text/plain; charset=utf-8"
	case octets:
		text, kind = answer, openapi.Bytes
		w.Header().Set("Cache-Control", forEver)
	default:
		var err error
		if text, err = ledger.PlainJSON(answer); err != nil {
			return err
		}
		text, kind = append(text, '\n'), "application/json"
	}
	if err := lease.Grow(int64(len(text))); err != nil {
		return err
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(text)
	return nil
}
