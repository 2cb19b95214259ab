package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/commands/fair"
)

const (
	// drainTimeout is how long requests under way may take after SIGTERM.
	drainTimeout = 5 * time.Second
	// leaveTime is how long one of several servers announces its end before it
	// ends: several times as long as a request of a busy client takes.
	leaveTime = 300 * time.Millisecond
)

// restDoor answers requests over REST.
type restDoor struct {
	tls    *tls.Config // nil: none
	port   *port.Port
	server *http.Server

	leaving      atomic.Bool     // clients should send requests elsewhere
	opened       chan struct{}   // closed when the routes are open
	stopping     context.Context // ends when followers of the log should end
	endFollowing context.CancelFunc
}

// bindREST takes the port.
func (s *server) bindREST(context.Context) error {
	s.rest.stopping, s.rest.endFollowing = context.WithCancel(context.Background())
	s.rest.opened = make(chan struct{})
	s.fair = fair.NewPool()
	listener, err := net.Listen("tcp", s.config.HTTP)
	if err != nil {
		return fmt.Errorf("--http %s: %w", s.config.HTTP, err)
	}
	s.rest.port = port.New(listener, s.fair, s.logger)
	s.rest.server = s.rest.port.Server(s.config.fromBrowsers(newRouter(http.HandlerFunc(s.answerStarting), nil)))
	return nil
}

func (s *server) unbindREST() error { return s.rest.server.Close() }

func (d *restDoor) address() string { return d.port.Addr().String() }

func (d *restDoor) endFollowers() { d.endFollowing() }

// openREST answers all requests, once everything that they need has started.
func (s *server) openREST(context.Context) error {
	s.rest.port.Answer(s.recorded(s.instruments.requests(s.logged(s.routes()))))
	close(s.rest.opened)
	return nil
}

// serveREST answers requests until drainREST or unbindREST.
func (s *server) serveREST() error { return s.rest.port.Serve(s.rest.server, s.rest.tls) }

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
		return s.rest.server.Close() // else the end would wait for each client that does not read
	}
	return nil
}
