package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
)

// traceFlags say which requests are recorded as traces.
type traceFlags struct {
	URL   string   `help:"Send traces of requests to this URL, as OTLP over HTTP; empty: as OTEL_EXPORTER_OTLP_ENDPOINT says, otherwise none. Credentials belong in OTEL_EXPORTER_OTLP_HEADERS." placeholder:"URL"`
	Ratio *float64 `help:"Share of the traces that begin here that are recorded, from 0 to 1; default: as OTEL_TRACES_SAMPLER says, otherwise 0.01. A request that comes with a traceparent is recorded if that says so." placeholder:"SHARE"`
}

func (f traceFlags) check() error {
	if f.Ratio != nil && (*f.Ratio < 0 || *f.Ratio > 1) {
		return fmt.Errorf("--trace-ratio %g is not a share from 0 to 1", *f.Ratio)
	}
	return nil
}

// lastSpans is how long a receiver may take for the last spans when the server
// stops.
const lastSpans = time.Second

// startTraces starts to record traces, if a flag asks for them.
func (s *server) startTraces(ctx context.Context) (err error) {
	if s.config.Trace.URL == "" && !tracing.Wanted() {
		return nil
	}
	s.tracer, err = tracing.Start(ctx, tracing.Options{
		URL: s.config.Trace.URL, Ratio: s.config.Trace.Ratio, Version: cli.Version(),
		Instance: cmp.Or(s.config.Cluster.Name, s.config.HTTP), Logger: s.logger,
	})
	if err != nil {
		return fmt.Errorf("--trace-url: %w", err)
	}
	return nil
}

func (s *server) stopTraces() error {
	if s.tracer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	return s.tracer.Stop(ctx)
}

// recorded records the requests of a handler, if there are traces.
func (s *server) recorded(handler http.Handler) http.Handler {
	if s.tracer == nil {
		return handler
	}
	return s.tracer.Requests(handler, rest.KnownMethod)
}

// carrying records commands that are passed on to the leader; nil: they are not recorded.
func (s *server) carrying() func(*commands.Trace) (*commands.Trace, func(error)) {
	if s.tracer == nil {
		return nil
	}
	return s.tracer.Carrying
}

// messages records requests over NATS; nil: they are not recorded.
func (s *server) messages() func(natsapi.Name, func(string) string) (*commands.Trace, func(string)) {
	if s.tracer == nil {
		return nil
	}
	return func(name natsapi.Name, header func(string) string) (*commands.Trace, func(string)) {
		return s.tracer.Message(name.Kind, name.Name, header)
	}
}

// observer returns what watches the writer; nil: nothing does.
func (s *server) observer() writer.Observer {
	if s.instruments == nil && s.tracer == nil {
		return nil
	}
	return observer{s.instruments, s.tracer}
}

// observer passes on what the writer tells.
type observer struct {
	instruments *instruments    // nil: there are no metrics
	tracer      *tracing.Tracer // nil: there are no traces
}

var _ writer.Observer = observer{}

// Answered implements writer.Observer.
func (o observer) Answered(command string, outcome commands.Outcome, err error, took time.Duration) {
	if o.instruments != nil {
		o.instruments.answered(command, outcome, err, took)
	}
}

// Committed implements writer.Observer.
func (o observer) Committed(stages writer.Stages) {
	if o.instruments != nil {
		o.instruments.committed(stages)
	}
}

// Searched implements writer.Observer.
func (o observer) Searched(s commands.Submission, began, ended time.Time) {
	if o.tracer != nil {
		o.tracer.Searched(s, began, ended)
	}
}

// Traced implements writer.Observer.
func (o observer) Traced(s commands.Submission, at writer.Times, outcome commands.Outcome, err error) {
	if o.tracer != nil {
		o.tracer.Traced(s, at, outcome, outcomeName(outcome, err), err)
	}
}
