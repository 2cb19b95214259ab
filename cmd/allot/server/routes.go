package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// route is a path of the REST port, and its handler. A path that ends in a slash
// stands for everything below it, too.
type route struct {
	path    string
	what    string
	handler http.Handler
}

// router finds the route of a request: its own path, or else the first route that
// it lies below.
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
type restDoorPart struct {
	settings
	stores
	clients
	log      *logPart
	disks    *disksPart
	rejected *rejectedPart
	replica  *replicaPart
	writer   *writerPart
	scrubber *scrubberPart
}

func (p *restDoorPart) start(context.Context) error {
	all := p.routes()
	if p.config.Log.Access {
		all = vitals.Logged(all, p.logger)
	}
	p.rest.port.Answer(p.traces.recorded(p.instruments.Requests(all)))
	close(p.rest.opened)
	return nil
}

// routes puts all APIs behind one port.
func (p *restDoorPart) routes() http.Handler {
	mounted, metal := p.placement("/placement"), p.baremetal("/baremetal")
	toConsole := http.RedirectHandler(console.Prefix, http.StatusMovedPermanently)
	table := []route{
		{"/placement", "Placement, where a web server mounts it", mounted},
		{"/placement/", "Placement, where a web server mounts it", mounted},
		{"/baremetal", "Ironic's allocations and nodes", metal},
		{"/baremetal/", "Ironic's allocations and nodes", metal},
		{"/console", "redirect to the page for auditors", toConsole},
		{console.Prefix, "the page for auditors", console.Handler()},
	}
	checks := &vitals.Checks{
		Views: p.views.Projector, Replica: p.replica.replica, Fresh: p.replica.commands(), Disks: &p.disks.Disks,
		Writer: p.writer.Load, Leaving: &p.rest.leaving, Logger: p.logger,
	}
	for path, handler := range map[string]http.HandlerFunc{
		vitals.HealthPath: checks.Alive, vitals.LivePath: checks.Alive, vitals.ReadyPath: checks.Ready,
	} {
		table = append(table, route{path, "health of the server", handler})
	}
	cluster := &clusterDoor{p.replica.replica, p.rest.fair, p.logger}
	table = append(table, cluster.routes(auth.Guard(p.access.auth, p.access.policy, clusterRule))...)
	table = append(table, descriptions(p.logger)...)
	for path, handler := range p.audits() {
		table = append(table, route{path, "Allot's own reads", handler})
	}
	return rest.BelieveProxies(p.config.TrustedProxy, p.config.fromBrowsers(newRouter(p.placement(""), table)))
}

// placement serves Placement's API below a path.
func (p *restDoorPart) placement(prefix string) http.Handler {
	return &placement.Handler{
		Commands: p.replica.commands(), Fresh: p.replica.freshness(), Views: p.views.Projector,
		Logger: p.logger, Prefix: prefix,
		IncompleteProject: placement.DefaultIncompleteID, IncompleteUser: placement.DefaultIncompleteID,
		Auth: p.access.auth, Policy: p.access.policy, Fair: p.rest.fair,
		Candidates: p.config.candidateOptions(),
	}
}

// baremetal serves Ironic's API below a path.
func (p *restDoorPart) baremetal(prefix string) http.Handler {
	return &baremetal.Handler{
		Commands: p.replica.commands(), Fresh: p.replica.freshness(), Views: p.views.Projector,
		Logger: p.logger, Prefix: prefix,
		PublicURL: strings.TrimRight(p.config.BaremetalURL, "/"),
		Auth:      p.access.auth, Policy: p.access.policy, Fair: p.rest.fair, Noauth: p.config.Keystone.URL == "",
	}
}

// audits returns the routes below /audit, by path.
func (p *restDoorPart) audits() map[string]http.Handler {
	authorize := auth.Guard(p.access.auth, p.access.policy, "allot:audit")
	asked := &audit.Questions{
		Views: p.views.Projector, Log: p.log.all, Notary: p.notary.Notary, Authorize: authorize, Logger: p.logger,
		Snapshots: p.snaps.Store, MaxSteps: candidatesBudget, Version: cli.Version(),
		Fair: p.rest.fair, Stop: p.rest.stopping.Done(), Disk: p.disks.Now, Scrub: p.scrubber.scrubber.Status,
		Present: p.replica.commands(), Fresh: p.replica.freshness(),
	}
	if p.rejected.stream != nil {
		asked.Rejected = p.rejected.stream
	}
	return asked.Handlers()
}
