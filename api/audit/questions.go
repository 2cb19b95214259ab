package audit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
)

// Questions answers the questions of auditors below /audit/.
type Questions struct {
	Views  *projector.Projector
	Log    ledger.Log
	Notary *present.Notary
	// Present and Snapshots give the State of now and of the past. Without
	// Present, as on a follower, the State of now is made in the same way as
	// those of the past.
	Present   StateSource
	Snapshots writer.SnapshotSource
	// Fresh tells when Views hold everything that other servers have answered;
	// nil: always.
	Fresh commands.Freshness
	// Directory knows the names of projects and users; nil: there is none.
	Directory present.Directory
	// Rejected keeps rejected commands; nil: they are not kept.
	Rejected rejected.Store
	Version  string // of the server
	// Scrub returns the progress of the search for damage on the disk; nil: there
	// is no search.
	Scrub func() check.ScrubStatus
	// Disk measures the disk; nil: it is not measured.
	Disk func() Disk
	// Fair shares out memory and places among clients; nil: each request has its own.
	Fair *fair.Pool
	// MaxSteps is the largest number of steps of a search for candidates; 0: no
	// bound.
	MaxSteps int
	// Authorize returns whether the client may read the log. If not, it has
	// answered the request.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
	// Stop ends endless answers when the server stops.
	Stop <-chan struct{}

	actors actors
	totals fleetTotals
}

// StateSource returns States of now. Each belongs to its caller.
type StateSource interface {
	Fork(ctx context.Context) (*ledger.State, error)
}

type question struct {
	parameters []string
	of         string // what it reads
	answer     kind

	id, summary string // as the OpenAPI description shows it
	result      any    // a value of the answer's type, or of that of a line
}

func (one question) method() string {
	if _, is := one.answer.(posted); is {
		return http.MethodPost
	}
	return http.MethodGet
}

// questions are all questions, by path. The handlers, Paths and the OpenAPI
// description follow from them, and with these the tests and documents of all
// routes.
var questions = map[string]question{
	"/audit/activity": {
		[]string{"since", "until", "points"}, anything, about(sums.activity),
		"showActivity", "Count accepted and rejected commands over time", Activity{},
	},
	"/audit/checkpoint": {
		[]string{"at"}, anything, proven{(*fair.Pool).Short, (*Questions).checkpoint},
		"showCheckpoint", "Show the signed checkpoint of the log", plain(nil),
	},
	"/audit/commits": {
		[]string{"from", "limit"}, "the log", stream((*Questions).rawCommits),
		"readCommits", "Read the commits of the log as they are, for backups", Commit{},
	},
	"/audit/consumers": {
		[]string{"project", "user", "type", "after", "limit", "at"}, anything, about(entities.consumers),
		"listConsumers", "List consumers and what they hold", Consumers{},
	},
	"/audit/consumption": {
		consumptionParameters, anything, thorough((*Questions).consumption),
		"showConsumption", "Show how much was held, or used of providers, for how long", wire.Consumption{},
	},
	"/audit/consumption/metrics": {
		nil, anything, thorough((*Questions).consumptionMetrics),
		"showConsumptionMetrics", "Show how much each project has held since the beginning, for Prometheus", plain(nil),
	},
	"/audit/contents": {
		[]string{"at"}, anything, stream((*Questions).contents),
		"listContents", "Tell all providers and consumers, as lines that allot-migrate import jsonl takes", present.Content{},
	},
	"/audit/diff": {
		[]string{"from", "to", "whole_ids"}, anything, thorough((*Questions).diff),
		"compareMoments", "Compare two moments", Diff{},
	},
	"/audit/digest": {
		[]string{"at"}, "the read models", thorough((*Questions).digest),
		"showDigest", "Show the digests that a replay of the log must give, too", Digests{},
	},
	"/audit/find": {
		[]string{"q", "at"}, anything, about(entities.find),
		"findSubjects", "Find entities by name or id", Found{},
	},
	"/audit/fleet": {
		[]string{"class", "order", "limit", "at"}, anything, about(sums.fleet),
		"showFleet", "Sum up all providers, and show how full each tree is of a class", Fleet{},
	},
	"/audit/history": {
		slices.Concat(wire.Subjects, historyParameters), "the history", asked((*Questions).history),
		"showHistory", "Show what happened to one thing", Page{},
	},
	"/audit/holders": {
		[]string{"provider", "tree", "after", "limit", "at"}, anything, about(entities.holders),
		"listHolders", "List who holds something of a provider, with owners", Holders{},
	},
	"/audit/names": {
		[]string{"ids", "at"}, anything, about(entities.names),
		"showNames", "Show what providers and nodes are called", Names{},
	},
	"/audit/owners": {
		[]string{"project", "user", "q", "limit", "at"}, anything, about(entities.owners),
		"listOwners", "List projects or users, and how much they hold", Owners{},
	},
	"/audit/proof/consumption": {
		[]string{"project", "from", "to"}, anything, proven{(*fair.Pool).Long, (*Questions).statement},
		"proveConsumption", "Prove what a project has consumed between two whole hours", Statement{},
	},
	"/audit/proof/growth": {
		[]string{"from", "at"}, anything, proven{(*fair.Pool).Short, (*Questions).growth},
		"proveGrowth", "Prove that the log holds all that it held at an earlier checkpoint", Growth{},
	},
	"/audit/proof/record": {
		[]string{"record", "at"}, anything, proven{(*fair.Pool).Short, (*Questions).inclusion},
		"proveRecord", "Prove that a record is in the log", Inclusion{},
	},
	"/audit/providers": {
		[]string{"at"}, anything, about(entities.providers),
		"listProvidersInShort", "List all providers with their usage", Providers{},
	},
	"/audit/records": {
		[]string{"from", "limit", "follow", "format", "whole_ids", "at"}, "the read models", stream((*Questions).records),
		"followRecords", "Read the records of the log, and follow it", Line{},
	},
	"/audit/rejections": {
		rejectionParameters, anything, asked((*Questions).rejections),
		"listRejections", "List commands that were rejected, and why", Rejections{},
	},
	"/audit/reservations": {
		[]string{"limit"}, anything, asked((*Questions).reservations),
		"listReservations", "List reservations, those that end first first", Reservations{},
	},
	"/audit/search": {
		[]string{"q", "limit", "at"}, anything, about(entities.search),
		"search", "Find what exists by a part of its name or the beginning of its uuid", Matches{},
	},
	"/audit/series": {
		[]string{"provider", "project", "user", "fleet", "since", "until", "points"}, anything, about(sums.series),
		"showSeries", "Show the usage of a provider, project, user or the fleet over time", Series{},
	},
	"/audit/status": {
		[]string{"at"}, anything, asked((*Questions).status),
		"showStatus", "Show how the ledger is", Status{},
	},
	tilesPrefix + "checkpoint": {
		nil, anything, proven{(*fair.Pool).Short, (*Questions).checkpoint},
		"showTilesCheckpoint", "Show the signed checkpoint of the log, beside its tiles", plain(nil),
	},
	tilesPrefix + "tile/{tile}": {
		nil, "the log", thorough((*Questions).tile),
		"showTile", "Show a tile of the tree of all records, LEVEL/NUMBER, or the records of one, entries/NUMBER", octets(nil),
	},
	"/audit/timeline": {
		slices.Concat(timelineSubjects, []string{"actor", "command", "since", "until", "before", "limit", "whole_ids", "at"}),
		"the timeline", about(timelines.timeline),
		"showTimeline", "List records with what they changed, newest first", Timeline{},
	},
	"/audit/tree": {
		[]string{"provider", "at"}, anything, about(sums.tree),
		"showTree", "Show the tree that a provider belongs to", Tree{},
	},
	"/audit/trees": {
		[]string{"q", "class", "order", "offset", "limit", "at"}, anything, about(sums.trees),
		"listTrees", "List trees of providers by name or by how full they are", Trees{},
	},
	"/audit/what-if": {
		nil, anything, posted((*Questions).whatIf),
		"askWhatIf", "Find out what would be so after some commands, which are not recorded", WouldBe{},
	},
	"/audit/why": {
		[]string{"consumer", "provider", "whole_ids", "at"}, anything, asked((*Questions).why),
		"askWhy", "Show the records that led to what a consumer holds of a provider", Why{},
	},
}

// anything stands for what most questions read.
const anything = "that"

var rejectionParameters = []string{
	"command_id", "actor", "command", "code", "project", "consumer", "provider", "since", "until", "before", "limit",
	"whole_ids",
}

// Paths returns all paths of the package, each with its method.
var Paths = func() (list []string) {
	for _, path := range slices.Sorted(maps.Keys(questions)) {
		list = append(list, questions[path].method()+" "+path)
	}
	return list
}()

// Handlers returns the handlers of the questions, by path. One that ends in a slash is for
// everything below it.
func (q *Questions) Handlers() map[string]http.Handler {
	handlers := make(map[string]http.Handler, len(questions))
	for path, one := range questions {
		below, _, _ := strings.Cut(path, "{") // it ends in a slash
		handlers[below] = q.handler(one)
	}
	return handlers
}

func (q *Questions) handler(one question) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // answers hold what all tenants do
		if method := one.method(); r.Method != method {
			w.Header().Set("Allow", method)
			http.Error(w, "only "+method, http.StatusMethodNotAllowed)
			return
		}
		if !q.Authorize(w, r) {
			return
		}
		err := rest.Await(r, q.Views, q.Fresh, false)
		if err == nil {
			err = one.answer.serve(q, w, r, &one)
		}
		if err != nil {
			q.fail(w, r, &one, err)
		}
	})
}

// fail answers with an error: a *rest.Failure, or a fault of the server.
func (q *Questions) fail(w http.ResponseWriter, r *http.Request, one *question, err error) {
	var failure *rest.Failure
	message, unavailable := rest.Unavailable(err)
	switch {
	case errors.As(err, &failure):
	case r.Context().Err() != nil: // the client has gone
		return
	case commands.Passing(err):
		failure = rest.TryAgain("%v", err)
	case rest.TooMuch(err):
		failure = rest.TryAgain("%s", message)
	case unavailable:
		q.Logger.WarnContext(r.Context(), "a question of an auditor was not answered", "path", r.URL.Path, "error", err)
		failure = rest.TryAgain("%s", message)
	default:
		q.Logger.ErrorContext(r.Context(), "a question of an auditor was not answered", "path", r.URL.Path, "error", err)
		failure = rest.Errorf(http.StatusInternalServerError, "%s cannot be read; the server's log says more", one.of)
	}
	failure.Header(w.Header())
	http.Error(w, failure.Message, failure.Status)
}

// parameters are the parameters of a question, each given at most once. What reads one keeps the
// first fault, which the client is told by what looks at the ledger then.
type parameters struct {
	given map[string]string
	path  string // of the request
	fault error
}

func parse(r *http.Request, known []string) (*parameters, error) {
	query := rest.ParseQuery(r)
	if err := query.Fault(); err != nil {
		return nil, rest.BadRequest("%v", err)
	}
	unknown, repeated := query.Once(known)
	switch {
	case unknown != nil:
		names := cmp.Or(strings.Join(known, ", "), "none")
		return nil, rest.BadRequest("unknown parameter %q; the parameters are %s", unknown[0], names)
	case repeated != "":
		return nil, rest.BadRequest("%s: given more than once", repeated)
	}
	p := &parameters{given: make(map[string]string), path: r.URL.EscapedPath()}
	for _, key := range query.Keys() {
		if p.given[key] = query.Get(key); p.given[key] == "" {
			return nil, rest.BadRequest("%s: is empty", key)
		}
	}
	return p, nil
}

func (p *parameters) refuse(format string, args ...any) {
	if p.fault == nil {
		p.fault = rest.BadRequest(format, args...)
	}
}

// into reads parameters into the fields of a query, which have the same names in JSON.
func (p *parameters) into(query any) error {
	fields := reflect.ValueOf(query).Elem()
	for _, of := range reflect.VisibleFields(fields.Type()) {
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		if p.given[name] == "" {
			continue
		}
		switch field := fields.FieldByIndex(of.Index).Addr().Interface().(type) {
		case *string:
			*field = p.given[name]
		case *wire.Instant:
			*field = wire.Instant(p.given[name])
		case *[]string:
			*field = strings.Split(p.given[name], ",")
		case *bool:
			*field = p.flag(name)
		case *ledger.UUID:
			*field = p.uuid(name)
		case *int:
			*field = number(p, name, 1, math.MaxInt32, 1)
		}
	}
	return p.fault
}

func (p *parameters) address(name string) ledger.Address {
	if p.given[name] == "" {
		p.refuse("%s: is needed", name)
		return ledger.Address{}
	}
	at, err := ledger.ParseAddress(p.given[name])
	if err != nil {
		p.refuse("%s: %s", name, strings.TrimPrefix(err.Error(), "ledger: "))
	}
	return at
}

func (p *parameters) uuid(name string) ledger.UUID {
	id, err := ledger.ParseUUID(p.given[name])
	if err != nil || id.IsNil() {
		p.refuse("%s: %q is not a uuid", name, p.given[name])
	}
	return id
}

// number reads a number between bounds; a missing one has the default.
func number[T int | int64](p *parameters, name string, least, most, missing T) T {
	if p.given[name] == "" && missing >= least {
		return missing
	}
	n, err := strconv.ParseInt(p.given[name], 10, 64)
	if err != nil || n < int64(least) || n > int64(most) {
		p.refuse("%s: %q is not a number from %d to %d", name, p.given[name], least, most)
	}
	return T(n)
}

// moment reads an RFC 3339 time; zero if it is missing.
func (p *parameters) moment(name string) (at time.Time) {
	if p.given[name] == "" {
		return at
	}
	at, err := ledger.ParseTime(p.given[name])
	if err != nil {
		p.refuse("%s: %v", name, err)
	}
	return at
}

// flag reads a parameter that is true or false; a missing one is false.
func (p *parameters) flag(name string) bool {
	if p.given[name] == "" {
		return false
	}
	value, err := strconv.ParseBool(p.given[name])
	if err != nil {
		p.refuse("%s: %q is not true or false", name, p.given[name])
	}
	return value
}

// means reports whether a parameter is a value, or missing.
func (p *parameters) means(name, value string) bool {
	return p.given[name] == "" || p.given[name] == value
}

// telling makes sentences, with whole ids if the parameters say so.
func (q *Questions) telling(p *parameters) present.Telling {
	return present.Telling{Views: q.Views, Directory: q.Directory, WholeIDs: p.flag("whole_ids")}
}

// looked is what a question looks at, and how much of it an answer has at most.
type looked struct {
	projector.View
	classes *ledger.ClassTable
	limit   int
}

// look reads the parameters at and limit, of which most is the greatest, and missing the default.
func (q *Questions) look(p *parameters, most, missing int) (l looked, err error) {
	l.limit = number(p, "limit", 1, most, missing)
	if l.View, err = q.view(p); err == nil {
		l.classes, err = l.Classes()
	}
	return l, err
}

// view returns the view of the parameter at, if no parameter is at fault.
func (q *Questions) view(p *parameters) (projector.View, error) {
	if p.fault != nil {
		return projector.View{}, p.fault
	}
	return q.viewAt(p.given["at"])
}

func (q *Questions) viewAt(at string) (projector.View, error) {
	view, err := present.ViewAt(q.Views, at, time.Now())
	if errors.Is(err, present.ErrMoment) {
		return view, rest.BadRequest("at: %v", err)
	}
	return view, err
}
