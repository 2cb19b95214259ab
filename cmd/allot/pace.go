package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/turns"
)

const (
	// bringsWithin is how long a body may take, and bringsPerSecond how many bytes
	// give it another second. It never has more than readTimeout.
	bringsWithin    = 10 * time.Second
	bringsPerSecond = 16 << 10
	// restWithin is how long the rest of a body may take that the handler did not
	// want.
	restWithin = 2 * time.Second
	// smallBody is a body that is read without a place.
	smallBody = 16 << 10
	// smallAnswer is a part of an answer that needs no counting: net/http copies it.
	smallAnswer = 16 << 10
	// streamBuffer is what HTTP/2 keeps of an answer before it waits for the client,
	// and streamPiece what a client must take of it within takesWithin.
	streamBuffer = 4 << 10
	streamPiece  = 16 << 10
)

// paced has the connections of a port watch what handlers read and write. Large
// bodies are read in turn among addresses, in places of a pool; nil: they need none.
func paced(handler http.Handler, places *turns.Pool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := r.Context().Value(connectionKey{}).(*connection)
		if !ok {
			handler.ServeHTTP(w, r)
			return
		}
		c.begins()
		defer c.ends()
		turn := c.turn
		if c.streams {
			turn = c.turn.Beside()
			r = r.WithContext(turn.Carry(r.Context()))
		}
		defer turn.GiveUp()
		if err := turn.Take(r.Context()); err != nil {
			return // nobody waits for the answer
		}
		answer := &pacedAnswer{ResponseWriter: w, conn: c, ctx: r.Context()}
		control := http.NewResponseController(w)
		if r.ProtoMajor == 2 {
			answer.stream = control
			defer answer.finish()
		}
		if r.Body != nil && r.Body != http.NoBody {
			body := &pacedBody{
				ReadCloser: r.Body, control: control, last: time.Now().Add(readTimeout), ctx: r.Context(), frames: c.frames,
			}
			if places != nil && (r.ContentLength > smallBody || r.ContentLength < 0) {
				body.work = places.Begin(c.from.String())
			}
			r.Body = body
			defer body.finish(r)
		}
		handler.ServeHTTP(answer, r)
		c.answered(r)
	})
}

// pacedBody is the body of a request. It must come on.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	begun   time.Time // zero: nobody has read yet
	last    time.Time
	came    int64
	ended   bool
	frames  *frames // of HTTP/2

	work *turns.Work // of reading and weighing a large body; nil: it needs no place
	ctx  context.Context
}

// Read implements io.Reader. Who waits for the client needs no place, but who makes
// something of what came does.
func (b *pacedBody) Read(p []byte) (n int, err error) {
	if b.work == nil {
		return b.read(p)
	}
	waited := b.work.Aside(b.ctx, func() { n, err = b.read(p) })
	if err == nil && waited == nil {
		waited = b.work.Pause(b.ctx)
	}
	switch {
	case err != nil || b.ended:
		b.endWork() // what follows is the request's own work
	case errors.Is(waited, turns.ErrBusy):
		return n, fmt.Errorf("%w: %w", intake.ErrBusy, waited)
	case waited != nil:
		return n, waited
	}
	return n, err
}

func (b *pacedBody) endWork() {
	if b.work != nil {
		b.work.End()
		b.work = nil
	}
}

// read reads what has come, or waits for it.
func (b *pacedBody) read(p []byte) (int, error) {
	if b.begun.IsZero() {
		b.begun = time.Now()
	}
	until := b.begun.Add(bringsWithin + time.Duration(b.came)*time.Second/bringsPerSecond)
	if until.After(b.last) {
		until = b.last
	}
	if err := b.control.SetReadDeadline(until); err != nil {
		return 0, err
	}
	var n int
	var err error
	turns.Aside(b.ctx, func() { n, err = b.ReadCloser.Read(p) })
	b.came += int64(n)
	b.frames.gives(n + n/aroundBody)
	b.ended = b.ended || err != nil
	return n, err
}

// finish bounds the time that net/http takes to read what the handler has left, so
// that the connection can be used again. HTTP/2 does not read it. net/http finds its
// own body again: if that has a rest, it waits for the client to read its answer.
func (b *pacedBody) finish(r *http.Request) {
	r.Body = b.ReadCloser
	b.endWork()
	if !b.ended && r.ProtoMajor == 1 {
		_ = b.control.SetReadDeadline(time.Now().Add(restWithin)) // if that fails, the client has gone
	}
}

// pacedAnswer is an answer. Its client must take it.
type pacedAnswer struct {
	http.ResponseWriter
	conn    *connection
	ctx     context.Context
	stream  *http.ResponseController // of HTTP/2; nil: the connection has its own deadline
	written int
}

// Write implements io.Writer.
func (a *pacedAnswer) Write(p []byte) (n int, err error) {
	left := 0
	if len(p) > smallAnswer {
		left = len(p)
		a.conn.leaves(left)
		defer func() { a.conn.takes(left) }()
	}
	piece := pieceBytes
	if a.stream != nil {
		piece = streamPiece
	}
	for {
		took, err := a.piece(p[n:min(len(p), n+piece)])
		if n += took; err != nil || n == len(p) {
			return n, err
		}
		a.conn.takes(took)
		left -= took
	}
}

// piece writes a part of the answer, for which a stream has its time.
func (a *pacedAnswer) piece(p []byte) (int, error) {
	if a.written += len(p); a.stream == nil || a.written <= streamBuffer {
		return a.ResponseWriter.Write(p)
	}
	if err := a.stream.SetWriteDeadline(time.Now().Add(takesWithin)); err != nil {
		return 0, err
	}
	var n int
	var err error
	turns.Aside(a.ctx, func() { n, err = a.ResponseWriter.Write(p) })
	if err == nil {
		err = a.stream.SetWriteDeadline(time.Time{}) // a stream may say nothing for long
	}
	return n, err
}

// FlushError is what http.ResponseController calls to flush.
func (a *pacedAnswer) FlushError() error {
	control := http.NewResponseController(a.ResponseWriter)
	if a.stream == nil {
		return control.Flush()
	}
	if err := control.SetWriteDeadline(time.Now().Add(takesWithin)); err != nil {
		return err
	}
	var err error
	turns.Aside(a.ctx, func() { err = control.Flush() })
	if err != nil {
		return err
	}
	return control.SetWriteDeadline(time.Time{})
}

// finish gives the rest of a stream's answer, which is sent after the handler, its
// time.
func (a *pacedAnswer) finish() {
	if a.written > 0 {
		_ = a.stream.SetWriteDeadline(time.Now().Add(takesWithin)) // if that fails, the client has gone
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (a *pacedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
