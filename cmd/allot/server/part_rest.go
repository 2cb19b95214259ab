package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/commands/fair"
)

const (
	// drainTimeout is how long requests under way may take after SIGTERM.
	drainTimeout = 5 * time.Second
	// leaveTime is how long one of several servers announces its end before it
	// ends: several times as long as a request of a busy client takes.
	leaveTime = 300 * time.Millisecond
)

// clients are what clients meet first, and what watches their requests.
type clients struct {
	access      *accessPart
	traces      *tracesPart
	instruments *vitals.Instruments // nil: there are no metrics
	rest        *restPart
}

// restPart is the port of REST: it answers that the server is starting, until the REST door opens.
type restPart struct {
	settings
	waits  *waiting
	access *accessPart

	fair   *fair.Pool // what clients share
	port   *port.Port
	server *http.Server

	leaving      atomic.Bool     // clients should send requests elsewhere
	opened       chan struct{}   // closed when the routes are open
	stopping     context.Context // ends when followers of the log should end
	endFollowing context.CancelFunc
}

// start takes the port.
func (p *restPart) start(context.Context) error {
	p.stopping, p.endFollowing = context.WithCancel(context.Background())
	p.opened = make(chan struct{})
	p.fair = fair.NewPool()
	listener, err := net.Listen("tcp", p.config.HTTP)
	if err != nil {
		return fmt.Errorf("--http %s: %w", p.config.HTTP, err)
	}
	p.port = port.New(listener, p.fair, p.logger)
	starting := &vitals.Starting{
		Waits: &p.waits.Pointer, Opened: p.opened, Stopped: p.stopping.Done(), Then: p.port.Handler, Logger: p.logger,
	}
	p.server = p.port.Server(p.config.fromBrowsers(newRouter(starting, nil)))
	return nil
}

func (p *restPart) stop() error { return p.server.Close() }

func (p *restPart) address() string { return p.port.Addr().String() }

func (p *restPart) interrupt() { p.endFollowing() }

// run answers requests until drain or stop.
func (p *restPart) run() error { return p.port.Serve(p.server, p.access.tls) }

// drain takes no new requests, and waits for those under way.
func (p *restPart) drain() error {
	if p.config.Cluster.shared() {
		// A client with a kept connection learns with its next answer that the
		// connection ends, and goes to another server. A request on a connection
		// that just ends would be lost.
		p.leaving.Store(true)
		p.server.SetKeepAlivesEnabled(false)
		time.Sleep(leaveTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		return p.server.Close() // else the end would wait for each client that does not read
	}
	return nil
}
