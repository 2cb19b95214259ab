package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/turns"
)

// Limits of the HTTP server.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// drainTimeout is how long requests under way may take after SIGTERM.
	drainTimeout = 5 * time.Second
	// leaveTime is how long one of several servers says that it ends, before it
	// does: a few times as long as a busy client takes for a request.
	leaveTime = 300 * time.Millisecond
)

// restDoor answers requests over REST.
type restDoor struct {
	tls      *tls.Config // nil: none
	listener net.Listener
	server   *http.Server
	handler  atomic.Pointer[http.Handler] // of the routes; until they are open, one that says so

	leaving      atomic.Bool     // requests had better go elsewhere
	opened       chan struct{}   // closed when the routes are open
	stopping     context.Context // ends when followers of the log should
	endFollowing context.CancelFunc

	bodies   *intake.Pool
	searches *turns.Pool
}

// bindREST takes the port.
func (s *server) bindREST(context.Context) (err error) {
	s.rest.stopping, s.rest.endFollowing = context.WithCancel(context.Background())
	s.rest.opened = make(chan struct{})
	s.rest.bodies = &intake.Pool{Heavy: s.ceiling.door()}
	s.rest.searches = turns.New(runtime.GOMAXPROCS(0) / 2) // the rest is for everything else
	if s.rest.listener, err = net.Listen("tcp", s.config.HTTP); err != nil {
		return fmt.Errorf("--http %s: %w", s.config.HTTP, err)
	}
	starting := s.config.fromBrowsers(http.HandlerFunc(s.answerStarting))
	s.rest.handler.Store(&starting)
	s.rest.server = &http.Server{
		Addr: s.rest.address(), Handler: &s.rest,
		ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}
	return nil
}

func (s *server) unbindREST() error { return s.rest.server.Close() }

func (d *restDoor) address() string { return d.listener.Addr().String() }

func (d *restDoor) endFollowers() { d.endFollowing() }

// openREST has requests answered that need more than a port.
func (s *server) openREST(context.Context) error {
	handler := s.instruments.requests(s.routes())
	s.rest.handler.Store(&handler)
	close(s.rest.opened)
	return nil
}

// ServeHTTP implements http.Handler.
func (d *restDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.tls != nil && r.TLS == nil {
		r.TLS = new(tls.ConnectionState) // plainErrors hides it from net/http
	}
	(*d.handler.Load()).ServeHTTP(w, r)
}

// serveREST answers requests until drainREST, or unbindREST.
func (s *server) serveREST() error {
	listener := s.rest.listener
	if s.rest.tls != nil {
		listener = tls.NewListener(listener, s.rest.tls)
	}
	err := s.rest.server.Serve(plainErrors{listener})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drainREST takes no more requests, and waits for those under way.
func (s *server) drainREST() error {
	if s.replica != nil {
		// Whoever keeps a connection is told with its next answer that it ends, and
		// goes to another server; a request on one that just ends would be lost.
		s.rest.leaving.Store(true)
		s.rest.server.SetKeepAlivesEnabled(false)
		time.Sleep(leaveTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.rest.server.Shutdown(ctx); err != nil {
		return s.rest.server.Close()
	}
	return nil
}
