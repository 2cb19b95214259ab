package placement

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/projector/candidates"
)

// heldBytes is how many bytes of an answer are held back, so that an answer that
// fails early can still become an error, and a short one gets its length.
const heldBytes = 256 << 10

// holding has buffers of heldBytes for answers: almost all fit, and are gone soon.
var holding = sync.Pool{New: func() any { return new([heldBytes]byte) }}

type streamWriter struct {
	w       http.ResponseWriter
	status  int
	held    []byte           // in buffer
	buffer  *[heldBytes]byte // from holding; nil: nothing was written yet
	lease   *fair.Lease
	started bool
}

// Write implements io.Writer.
func (s *streamWriter) Write(b []byte) (int, error) {
	if s.buffer == nil {
		s.buffer, _ = holding.Get().(*[heldBytes]byte) // it has nothing else
		s.held = s.buffer[:0]
	}
	if !s.started && len(s.held)+len(b) <= heldBytes {
		s.held = append(s.held, b...)
		return len(b), nil
	}
	if err := s.start(); err != nil {
		return 0, err
	}
	return s.w.Write(b)
}

func (s *streamWriter) start() error {
	if s.started {
		return nil
	}
	if err := s.lease.Grow(int64(len(s.held))); err != nil {
		return err // a client that reads slowly would keep that
	}
	s.started = true
	s.w.WriteHeader(s.status)
	_, err := s.w.Write(s.held)
	return err
}

func (s *streamWriter) release() {
	if s.buffer != nil {
		holding.Put(s.buffer)
		s.buffer = nil
	}
}

// writeStream sends a body that is written in pieces. After a part was sent, a
// failure can only break the connection off, so that no client takes half an
// answer for a whole one.
func (r *request) writeStream(w http.ResponseWriter, answer *response) {
	out := &streamWriter{w: w, status: answer.status, lease: r.Lease}
	defer out.release()
	w.Header().Set("Content-Type", jsonType)
	err := answer.stream(out)
	if errors.Is(err, candidates.ErrBudget) {
		err = rest.BadRequest(
			"The request has too many combinations to search: %v. Ask with a limit, or for fewer groups.", err,
		)
	}
	if err == nil && !out.started {
		w.Header().Set("Content-Length", strconv.Itoa(len(out.held)))
		if err = out.start(); out.started {
			err = nil // if a write fails the client is gone
		}
	}
	switch {
	case err == nil:
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler)
	case !out.started:
		out.release()
		w.Header().Del("Content-Length")
		r.writeFailure(w, err)
	default:
		r.Logger.WarnContext(r.Context(), "answer broken off", "request_id", r.ID, "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler)
	}
}

var _ io.Writer = (*streamWriter)(nil)
