package vitals

import (
	"cmp"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
)

// Instruments count and time the server's work. A nil one does nothing.
type Instruments struct {
	registry      *prometheus.Registry
	httpRequests  *prometheus.CounterVec
	httpTook      *prometheus.HistogramVec
	natsRequests  *prometheus.CounterVec
	natsTook      *prometheus.HistogramVec
	commands      *prometheus.CounterVec
	commandTook   *prometheus.HistogramVec
	stages        *prometheus.HistogramVec
	stageTook     [4]prometheus.Observer // queue, decide, append, fold
	commitRecords prometheus.Histogram
	commitBytes   prometheus.Histogram
}

// latencies are the buckets: from reads in memory to the patience of clients.
var latencies = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

// NewInstruments returns instruments that have counted nothing.
func NewInstruments() *Instruments {
	registry := prometheus.NewRegistry()
	to := promauto.With(registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return to.NewCounterVec(prometheus.CounterOpts{Namespace: "allot", Name: name, Help: help}, labels)
	}
	timer := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return to.NewHistogramVec(
			prometheus.HistogramOpts{Namespace: "allot", Name: name, Help: help, Buckets: latencies}, labels,
		)
	}
	size := func(name, help string, buckets []float64) prometheus.Histogram {
		return to.NewHistogram(prometheus.HistogramOpts{Namespace: "allot", Name: name, Help: help, Buckets: buckets})
	}
	in := &Instruments{
		registry:     registry,
		httpRequests: counter("http_requests_total", "Requests answered over HTTP.", "route", "method", "code"),
		httpTook: timer("http_request_duration_seconds",
			"Time from a request's header to the end of its answer.", "route", "method"),
		commands: counter("commands_total",
			"Commands answered, by outcome: accepted, repeated, nothing, dry_run, rejected or failed.", "command", "outcome"),
		commandTook: timer("command_duration_seconds", "Time from a command's submission to its answer.", "command"),
		stages: timer("commit_stage_duration_seconds",
			"Duration of each stage of a commit: queue (for its first command), decide, append, fold.", "stage"),
		commitRecords: size("commit_records", "Number of records in a commit.", prometheus.ExponentialBuckets(1, 2, 12)),
		commitBytes:   size("commit_size_bytes", "Size of a commit in bytes.", prometheus.ExponentialBuckets(256, 4, 9)),
		natsRequests: counter("nats_requests_total",
			"Requests answered over NATS, by outcome: ok, rejected, unsent, or the code of the error.", "kind", "name", "outcome"),
		natsTook: timer("nats_request_duration_seconds",
			"Time from a request's arrival over NATS to its reply.", "kind", "name"),
	}
	for i, stage := range []string{"queue", "decide", "append", "fold"} {
		in.stageTook[i] = in.stages.WithLabelValues(stage)
	}
	return in
}

// Messages returns what notes requests over NATS; nil: there are no metrics.
func (in *Instruments) Messages() func(natsapi.Name, string, time.Duration) {
	if in == nil {
		return nil
	}
	return func(name natsapi.Name, outcome string, took time.Duration) {
		in.natsRequests.WithLabelValues(name.Kind, name.Name, outcome).Inc()
		in.natsTook.WithLabelValues(name.Kind, name.Name).Observe(took.Seconds())
	}
}

// Requests counts and times the requests of a handler.
func (in *Instruments) Requests(handler http.Handler) http.Handler {
	if in == nil {
		return handler
	}
	return noted(handler, func(r *http.Request, route string, seen *seenWriter, took time.Duration) {
		method := rest.KnownMethod(r.Method)
		in.httpRequests.WithLabelValues(route, method, strconv.Itoa(seen.status)).Inc()
		in.httpTook.WithLabelValues(route, method).Observe(took.Seconds())
	})
}

// Logged writes a message for each request of a handler. It names the route, and not the
// path: paths are what strangers make of them.
func Logged(handler http.Handler, logger *slog.Logger) http.Handler {
	return noted(handler, func(r *http.Request, route string, seen *seenWriter, took time.Duration) {
		logger.DebugContext(r.Context(), "request", "method", rest.KnownMethod(r.Method), "route", route,
			"status", seen.status, "took", took, "from", r.RemoteAddr,
			"request_id", seen.Header().Get("X-Openstack-Request-Id"))
	})
}

// noted notes each request of a handler when it has been answered, with the route that it had,
// whatever its path was.
func noted(handler http.Handler, note func(*http.Request, string, *seenWriter, time.Duration)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen := time.Now(), &seenWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() { note(r, cmp.Or(r.Pattern, "other"), seen, time.Since(began)) }()
		handler.ServeHTTP(seen, r)
	})
}

type seenWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *seenWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *seenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Observer passes on what the writer tells.
type Observer struct {
	Instruments *Instruments    // nil: there are no metrics
	Tracer      *tracing.Tracer // nil: there are no traces
}

var _ writer.Observer = Observer{}

// Answered implements writer.Observer.
func (o Observer) Answered(command string, outcome commands.Outcome, err error, took time.Duration) {
	if o.Instruments != nil {
		o.Instruments.commands.WithLabelValues(command, outcomeName(outcome, err)).Inc()
		o.Instruments.commandTook.WithLabelValues(command).Observe(took.Seconds())
	}
}

// Committed implements writer.Observer.
func (o Observer) Committed(stages writer.Stages) {
	if in := o.Instruments; in != nil {
		for i, took := range [...]time.Duration{stages.Queue, stages.Decide, stages.Append, stages.Fold} {
			in.stageTook[i].Observe(took.Seconds())
		}
		in.commitRecords.Observe(float64(stages.Records))
		in.commitBytes.Observe(float64(stages.Bytes))
	}
}

// Searched implements writer.Observer.
func (o Observer) Searched(s commands.Submission, began, ended time.Time) {
	if o.Tracer != nil {
		o.Tracer.Searched(s, began, ended)
	}
}

// Traced implements writer.Observer.
func (o Observer) Traced(s commands.Submission, at writer.Times, outcome commands.Outcome, err error) {
	if o.Tracer != nil {
		o.Tracer.Traced(s, at, outcome, outcomeName(outcome, err), err)
	}
}

func outcomeName(outcome commands.Outcome, err error) string {
	switch {
	case err != nil:
		return "failed"
	case outcome.Rejection != nil:
		return "rejected"
	case outcome.Repeated:
		return "repeated"
	case outcome.Address.Sequence != 0: // those of claims have events, too
		return "accepted"
	case outcome.Events != nil:
		return "dry_run"
	}
	return "nothing"
}
