package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
)

// instruments count and time what the server does. A nil one does nothing.
type instruments struct {
	httpRequests  *prometheus.CounterVec
	httpTook      *prometheus.HistogramVec
	commands      *prometheus.CounterVec
	commandTook   *prometheus.HistogramVec
	stageTook     map[string]prometheus.Observer
	stages        *prometheus.HistogramVec
	commitRecords prometheus.Histogram
	commitBytes   prometheus.Histogram
}

// latencies go from what is read from memory to what a client gives up on.
var latencies = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

// The stages of a commit, in their order.
const (
	stageQueue, stageDecide, stageAppend, stageFold = "queue", "decide", "append", "fold"
)

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
		httpRequests: counter("http_requests_total", "Requests over HTTP that were answered.", "route", "method", "code"),
		httpTook: timer("http_request_duration_seconds",
			"From a request's header to the end of its answer.", "route", "method"),
		commands: counter("commands_total",
			"Commands that were answered: accepted, repeated, nothing, dry_run, rejected or failed.", "command", "outcome"),
		commandTook: timer("command_duration_seconds", "From a command's submission to its answer.", "command"),
		stages: timer("commit_stage_duration_seconds",
			"Where the time of a commit went: queue (its first command's), decide, append, fold.", "stage"),
		commitRecords: size("commit_records", "Records of a commit.", prometheus.ExponentialBuckets(1, 2, 12)),
		commitBytes:   size("commit_size_bytes", "Bytes of a commit.", prometheus.ExponentialBuckets(256, 4, 9)),
		stageTook:     make(map[string]prometheus.Observer),
	}
	for _, stage := range []string{stageQueue, stageDecide, stageAppend, stageFold} {
		in.stageTook[stage] = in.stages.WithLabelValues(stage)
	}
	return in
}

func (in *instruments) register(registry *prometheus.Registry) {
	registry.MustRegister(
		in.httpRequests, in.httpTook, in.commands, in.commandTook, in.stages, in.commitRecords, in.commitBytes,
	)
}

// Answered implements writer.Observer.
func (in *instruments) Answered(command string, outcome commands.Outcome, err error, took time.Duration) {
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
	case outcome.Events != nil:
		return "dry_run"
	case outcome.Address.Sequence == 0:
		return "nothing"
	}
	return "accepted"
}

// Committed implements writer.Observer.
func (in *instruments) Committed(s writer.Stages) {
	for stage, took := range map[string]time.Duration{
		stageQueue: s.Queue, stageDecide: s.Decide, stageAppend: s.Append, stageFold: s.Fold,
	} {
		in.stageTook[stage].Observe(took.Seconds())
	}
	in.commitRecords.Observe(float64(s.Records))
	in.commitBytes.Observe(float64(s.Bytes))
}

// requests counts and times what a handler answers.
func (in *instruments) requests(handler http.Handler) http.Handler {
	if in == nil {
		return handler
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, seen := time.Now(), &seenWriter{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			route, method := r.Pattern, knownMethod(r.Method)
			if route == "" {
				route = "other"
			}
			in.httpRequests.WithLabelValues(route, method, strconv.Itoa(seen.status)).Inc()
			in.httpTook.WithLabelValues(route, method).Observe(time.Since(began).Seconds())
		}()
		handler.ServeHTTP(seen, r)
	})
}

// knownMethod keeps strangers from making up labels.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	}
	return "other"
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
