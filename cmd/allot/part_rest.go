package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/turns"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// Limits of the HTTP server.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// drainTimeout is how long requests under way may take after SIGTERM.
	drainTimeout = 5 * time.Second
	// leaveTime is how long one of several servers announces its end before it
	// ends: several times as long as a request of a busy client takes.
	leaveTime = 300 * time.Millisecond
)

// restDoor answers requests over REST.
type restDoor struct {
	tls      *tls.Config // nil: none
	listener *connections
	server   *http.Server
	handler  atomic.Pointer[http.Handler] // the routes; until they are open, an answer that the server starts

	leaving      atomic.Bool     // clients should send requests elsewhere
	opened       chan struct{}   // closed when the routes are open
	stopping     context.Context // ends when followers of the log should end
	endFollowing context.CancelFunc

	bodies   *intake.Pool
	searches *turns.Pool
	thorough *turns.Pool
}

// bindREST takes the port.
func (s *server) bindREST(context.Context) error {
	s.rest.stopping, s.rest.endFollowing = context.WithCancel(context.Background())
	s.rest.opened = make(chan struct{})
	s.rest.bodies = &intake.Pool{Heavy: s.ceiling.door()}
	s.rest.searches = turns.New(runtime.GOMAXPROCS(0) / 2) // everything else follows later
	s.rest.thorough = turns.New(runtime.GOMAXPROCS(0) / 2)
	listener, err := net.Listen("tcp", s.config.HTTP)
	if err != nil {
		return fmt.Errorf("--http %s: %w", s.config.HTTP, err)
	}
	s.rest.listener = newConnections(listener, s.config.Connections, s.logger)
	s.rest.listener.heavy, s.rest.listener.lines = s.ceiling.door(), turns.NewLines(runtime.GOMAXPROCS(0))
	starting := s.config.fromBrowsers(http.HandlerFunc(s.answerStarting))
	s.rest.handler.Store(&starting)
	s.rest.server = &http.Server{
		Addr: s.rest.address(), Handler: paced(&s.rest, turns.New(runtime.GOMAXPROCS(0)/2)), ConnContext: withConnection,
		ErrorLog:          cli.ErrorLog(s.logger),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, HTTP2: bounds(),
	}
	return nil
}

func (s *server) unbindREST() error {
	s.rest.listener.cutAll()
	return s.rest.server.Close()
}

func (d *restDoor) address() string { return d.listener.Addr().String() }

func (d *restDoor) endFollowers() { d.endFollowing() }

// openREST answers all requests, once everything that they need has started.
func (s *server) openREST(context.Context) error {
	handler := s.recorded(s.instruments.requests(s.logged(s.routes())))
	s.rest.handler.Store(&handler)
	close(s.rest.opened)
	return nil
}

// ServeHTTP implements http.Handler.
func (d *restDoor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.tls != nil && r.TLS == nil {
		r.TLS = new(tls.ConnectionState) // plainErrors hides the TLS connection from net/http.
	}
	(*d.handler.Load()).ServeHTTP(w, r)
}

// serveREST answers requests until drainREST or unbindREST.
func (s *server) serveREST() error {
	var listener net.Listener = plainErrors{s.rest.listener}
	if s.rest.tls != nil {
		listener = newSecured(s.rest.listener, s.rest.tls)
	}
	err := s.rest.server.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drainREST takes no new requests, and waits for those under way.
func (s *server) drainREST() error {
	if s.replica != nil {
		// A client with a kept connection learns with its next answer that the
		// connection ends, and goes to another server. A request on a connection
		// that just ends would be lost.
		s.rest.leaving.Store(true)
		s.rest.server.SetKeepAlivesEnabled(false)
		time.Sleep(leaveTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.rest.server.Shutdown(ctx); err != nil {
		s.rest.listener.cutAll() // else the end would wait for each client that does not read
		return s.rest.server.Close()
	}
	return nil
}
