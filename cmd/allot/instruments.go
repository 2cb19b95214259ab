package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
)

// instruments count and time the server's work. A nil one does nothing.
type instruments struct {
	httpRequests  *prometheus.CounterVec
	httpTook      *prometheus.HistogramVec
	natsRequests  *prometheus.CounterVec
	natsTook      *prometheus.HistogramVec
	commands      *prometheus.CounterVec
	commandTook   *prometheus.HistogramVec
	stages        *prometheus.HistogramVec
	queueTook     prometheus.Observer // the stages, in order
	decideTook    prometheus.Observer
	appendTook    prometheus.Observer
	foldTook      prometheus.Observer
	commitRecords prometheus.Histogram
	commitBytes   prometheus.Histogram
}

// latencies are the buckets: from reads in memory to the patience of clients.
var latencies = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

func newInstruments() *instruments {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "allot", Name: name, Help: help}, labels)
	}
	timer := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(
			prometheus.HistogramOpts{Namespace: "allot", Name: name, Help: help, Buckets: latencies}, labels,
		)
	}
	size := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "allot", Name: name, Help: help, Buckets: buckets})
	}
	in := &instruments{
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
	in.queueTook, in.decideTook = in.stages.WithLabelValues("queue"), in.stages.WithLabelValues("decide")
	in.appendTook, in.foldTook = in.stages.WithLabelValues("append"), in.stages.WithLabelValues("fold")
	return in
}

func (in *instruments) register(registry *prometheus.Registry) {
	registry.MustRegister(
		in.httpRequests, in.httpTook, in.natsRequests, in.natsTook, in.commands, in.commandTook, in.stages,
		in.commitRecords, in.commitBytes,
	)
}

// answered notes an answered command.
func (in *instruments) answered(command string, outcome commands.Outcome, err error, took time.Duration) {
	in.commands.WithLabelValues(command, outcomeName(outcome, err)).Inc()
	in.commandTook.WithLabelValues(command).Observe(took.Seconds())
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

// committed notes a commit.
func (in *instruments) committed(s writer.Stages) {
	in.queueTook.Observe(s.Queue.Seconds())
	in.decideTook.Observe(s.Decide.Seconds())
	in.appendTook.Observe(s.Append.Seconds())
	in.foldTook.Observe(s.Fold.Seconds())
	in.commitRecords.Observe(float64(s.Records))
	in.commitBytes.Observe(float64(s.Bytes))
}

// messages returns what notes requests over NATS; nil: there are no metrics.
func (in *instruments) messages() func(natsapi.Name, string, time.Duration) {
	if in == nil {
		return nil
	}
	return func(name natsapi.Name, outcome string, took time.Duration) {
		in.natsRequests.WithLabelValues(name.Kind, name.Name, outcome).Inc()
		in.natsTook.WithLabelValues(name.Kind, name.Name).Observe(took.Seconds())
	}
}

// requests counts and times the requests of a handler.
func (in *instruments) requests(handler http.Handler) http.Handler {
	if in == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen := time.Now(), &seenWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			route, method := knownRoute(r), rest.KnownMethod(r.Method)
			in.httpRequests.WithLabelValues(route, method, strconv.Itoa(seen.status)).Inc()
			in.httpTook.WithLabelValues(route, method).Observe(time.Since(began).Seconds())
		}()
		handler.ServeHTTP(seen, r)
	})
}

// logged writes a message for each request of a handler, if the flags say so. It
// names the route, and not the path: paths are what strangers make of them.
func (s *server) logged(handler http.Handler) http.Handler {
	if !s.config.Log.Access {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen := time.Now(), &seenWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			s.logger.InfoContext(r.Context(), "request", "method", rest.KnownMethod(r.Method), "route", knownRoute(r),
				"status", seen.status, "took", time.Since(began), "from", r.RemoteAddr,
				"request_id", seen.Header().Get("X-Openstack-Request-Id"))
		}()
		handler.ServeHTTP(seen, r)
	})
}

// knownRoute returns the route that a request had, whatever its path was.
func knownRoute(r *http.Request) string {
	if r.Pattern == "" {
		return "other"
	}
	return r.Pattern
}

// seenWriter remembers the status of an answer.
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
