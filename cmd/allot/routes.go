package main

import (
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
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

// routes puts all APIs behind one port.
func (s *server) routes() http.Handler {
	mounted, metal := s.placement("/placement"), s.baremetal("/baremetal")
	toConsole := http.RedirectHandler(console.Prefix, http.StatusMovedPermanently)
	table := []route{
		{"/placement", "Placement, where a web server mounts it", mounted},
		{"/placement/", "Placement, where a web server mounts it", mounted},
		{"/baremetal", "Ironic's allocations and nodes", metal},
		{"/baremetal/", "Ironic's allocations and nodes", metal},
		{"/console", "redirect to the page for auditors", toConsole},
		{console.Prefix, "the page for auditors", console.Handler()},
	}
	for path, handler := range map[string]http.HandlerFunc{
		healthPath: s.answerHealth, livePath: s.answerHealth, readyPath: s.answerReady,
	} {
		table = append(table, route{path, "health of the server", handler})
	}
	table = append(table, s.clusterRoutes()...)
	table = append(table, s.descriptions()...)
	for path, handler := range s.audits() {
		table = append(table, route{path, "Allot's own reads", handler})
	}
	return rest.BelieveProxies(s.config.TrustedProxy, s.config.fromBrowsers(newRouter(s.placement(""), table)))
}

// placement serves Placement's API below a path.
func (s *server) placement(prefix string) http.Handler {
	return &placement.Handler{
		Commands: s.commands, Fresh: s.freshness(), Views: s.views, Logger: s.logger, Prefix: prefix,
		IncompleteProject: placement.DefaultIncompleteID, IncompleteUser: placement.DefaultIncompleteID,
		Auth: s.access.auth, Policy: s.access.policy, Fair: s.fair,
		Candidates: s.config.candidateOptions(),
	}
}

// baremetal serves Ironic's API below a path.
func (s *server) baremetal(prefix string) http.Handler {
	return &baremetal.Handler{
		Commands: s.commands, Fresh: s.freshness(), Views: s.views, Logger: s.logger, Prefix: prefix,
		PublicURL: strings.TrimRight(s.config.BaremetalURL, "/"),
		Auth:      s.access.auth, Policy: s.access.policy, Fair: s.fair, Noauth: s.config.Keystone.URL == "",
	}
}

// diskNow measures the disk for auditors.
func (s *server) diskNow() audit.Disk {
	data := int64(s.views.StoreStats().DiskBytes)
	if s.log.nats != nil {
		stored, err := s.log.nats.Stored()
		if err != nil {
			s.logger.Warn("the size of the log is not known", "error", err)
		}
		data += int64(stored.Bytes)
	}
	return audit.Disk{Free: s.disks.free.Load(), Reserve: s.disks.reserve.Load(), Data: data, Stores: s.disks.measured()}
}

// audits returns the routes below /audit, by path.
func (s *server) audits() map[string]http.Handler {
	authorize := auth.Guard(s.access.auth, s.access.policy, "allot:audit")
	asked := &audit.Questions{
		Views: s.views, Log: s.log.all, Notary: s.notary, Authorize: authorize, Logger: s.logger,
		Snapshots: s.snaps, MaxSteps: candidatesBudget, Version: cli.Version(),
		Fair: s.fair, Stop: s.rest.stopping.Done(),
	}
	asked.Disk = s.diskNow
	asked.Present, asked.Fresh = s.commands, s.freshness()
	if s.scrubber != nil {
		asked.Scrub = s.scrubber.Status
	}
	if s.rejected != nil {
		asked.Rejected = s.rejected
	}
	return asked.Handlers()
}
