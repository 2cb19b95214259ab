package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/fair"
)

const (
	// drainTimeout is how long requests under way may take after SIGTERM.
	drainTimeout = 5 * time.Second
	// leaveTime is how long one of several servers announces its end before it
	// ends: several times as long as a request of a busy client takes.
	leaveTime = 300 * time.Millisecond
)

// restPart is the port of REST: it answers that the server is starting, until the REST door opens.
type restPart struct {
	*server

	fair *fair.Pool // what clients share
	port *port.Port
	http *http.Server

	leaving      atomic.Bool     // clients should send requests elsewhere
	opened       chan struct{}   // closed when the routes are open
	stopping     context.Context // ends when followers of the log should end
	endFollowing context.CancelFunc
}

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
	p.http = p.port.Server(p.config.fromBrowsers(newRouter(starting, nil)))
	return nil
}

func (p *restPart) run() error { return p.port.Serve(p.http, p.access.tls) }

// drain takes no new requests, and waits for those under way.
func (p *restPart) drain() error {
	if p.config.Cluster.shared() {
		// A client with a kept connection learns with its next answer that the connection ends, and goes to another
		// server. A request on a connection that just ends would be lost.
		p.leaving.Store(true)
		p.http.SetKeepAlivesEnabled(false)
		time.Sleep(leaveTime)
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := p.http.Shutdown(ctx); err != nil {
		return p.http.Close() // else the end would wait for each client that does not read
	}
	return nil
}

// route is a path of the REST port, and its handler. A path that ends in a slash
// stands for everything below it, too.
type route struct {
	path    string
	handler http.Handler
}

// router finds the route of a request: its own path, or else the first route that it lies below.
type router struct {
	exact  map[string]http.Handler
	below  []route
	others http.Handler // handler of paths without a route
	guard  *rest.BrowserGuard
}

func newRouter(others http.Handler, table []route) *router {
	r := &router{exact: make(map[string]http.Handler), others: others}
	for _, one := range table {
		if _, twice := r.exact[one.path]; twice {
			panic("the path " + one.path + " has two routes") // a mistake in the program
		}
		r.exact[one.path] = one.handler
		if strings.HasSuffix(one.path, "/") {
			r.below = append(r.below, one)
		}
	}
	return r
}

// ServeHTTP implements http.Handler. It compares paths as they were sent, because
// an escaped slash does not separate parts of a path.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if r.guard != nil && !r.guard.Admits(w, req) {
		return
	}
	path := req.URL.EscapedPath()
	handler, pattern := r.handler(path)
	req.Pattern = pattern // for who watches; the facades know better
	handler.ServeHTTP(w, req)
}

func (r *router) handler(path string) (handler http.Handler, pattern string) {
	if exact, found := r.exact[path]; found {
		return exact, path
	}
	for _, one := range r.below {
		if strings.HasPrefix(path, one.path) {
			return one.handler, one.path
		}
	}
	return r.others, ""
}

// restDoorPart answers requests over REST, once everything that they need has started.
type restDoorPart struct{ *server }

func (p restDoorPart) start(context.Context) error {
	all := p.routes()
	if p.config.Log.Level <= slog.LevelDebug {
		all = vitals.Logged(all, p.logger)
	}
	all = p.instruments.Requests(all)
	if p.traces.tracer != nil {
		all = p.traces.tracer.Requests(all, rest.KnownMethod)
	}
	p.rest.port.Answer(all)
	close(p.rest.opened)
	return nil
}

func (p restDoorPart) routes() http.Handler {
	mounted, metal := p.placement("/placement"), p.baremetal("/baremetal")
	checks := &vitals.Checks{
		Views: p.views.Projector, Replica: p.replica.replica, Fresh: p.replica.commands(), Disks: &p.disks.Disks,
		Writer: p.writer.Load, Leaving: &p.rest.leaving, Witnesses: p.notary.Witnesses, Logger: p.logger,
		Tokens: p.access.reachable,
	}
	toConsole := http.RedirectHandler(console.Prefix, http.StatusMovedPermanently)
	table := []route{
		{"/placement", mounted},
		{"/placement/", mounted},
		{"/baremetal", metal},
		{"/baremetal/", metal},
		{"/console", toConsole},
		{console.Prefix, console.Handler()},
		{vitals.HealthPath, http.HandlerFunc(checks.Alive)},
		{vitals.LivePath, http.HandlerFunc(checks.Alive)},
		{vitals.ReadyPath, http.HandlerFunc(checks.Ready)},
		{openAPIPath, described(openAPI, p.logger)},
		{asyncAPIPath, described(asyncAPI, p.logger)},
	}
	table = append(table, p.cluster()...)
	for path, handler := range p.audits() {
		table = append(table, route{path, handler})
	}
	return rest.BelieveProxies(p.config.TrustedProxy, p.config.fromBrowsers(newRouter(p.placement(""), table)))
}

// placement serves Placement's API below a path.
func (p restDoorPart) placement(prefix string) http.Handler {
	return &placement.Handler{Facade: p.facade(prefix), Candidates: p.config.candidateOptions()}
}

func (p restDoorPart) facade(prefix string) rest.Facade {
	return rest.Facade{
		Commands: p.replica.commands(), Fresh: p.replica.freshness(), Views: p.views.Projector,
		Logger: p.logger, Prefix: prefix, Auth: p.access.auth, Policy: p.access.policy, Fair: p.rest.fair,
	}
}

func (p restDoorPart) baremetal(prefix string) http.Handler {
	return &baremetal.Handler{
		Facade: p.facade(prefix), Noauth: p.config.Keystone.URL == "",
		PublicURL: strings.TrimRight(p.config.BaremetalURL, "/"),
	}
}

func (p restDoorPart) audits() map[string]http.Handler {
	authorize := auth.Guard(p.access.auth, p.access.policy, "allot:audit")
	asked := &audit.Questions{
		Views: p.views.Projector, Log: p.log.all, Notary: p.notary.Notary, Authorize: authorize, Logger: p.logger,
		Snapshots: p.snaps.Store, MaxSteps: candidatesBudget, Version: cli.Version(),
		Fair: p.rest.fair, Stop: p.rest.stopping.Done(), Disk: p.disks.Now, Scrub: p.scrubber.scrubber.Status,
		Present: p.replica.commands(), Fresh: p.replica.freshness(),
	}
	if keystone, is := p.access.auth.(*auth.Keystone); is {
		asked.Directory = &auth.Directory{Keystone: keystone}
	}
	if p.rejected.stream != nil {
		asked.Rejected = p.rejected.stream
	}
	return asked.Handlers()
}
