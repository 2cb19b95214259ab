package server

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/cli"
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

// lastSpans is how long a receiver may take for the last spans when the server stops.
const lastSpans = time.Second

// tracesPart records traces of requests, if a flag asks for them.
type tracesPart struct {
	*server

	tracer *tracing.Tracer // nil: there are none
}

func (p *tracesPart) start(ctx context.Context) (err error) {
	if p.config.Trace.URL == "" && !tracing.Wanted() {
		return nil
	}
	p.tracer, err = tracing.Start(ctx, tracing.Options{
		URL: p.config.Trace.URL, Ratio: p.config.Trace.Ratio, Version: cli.Version(),
		Instance: cmp.Or(p.config.Cluster.Name, p.config.HTTP), Logger: p.logger,
	})
	if err != nil {
		return fmt.Errorf("--trace-url: %w", err)
	}
	return nil
}

func (p *tracesPart) stop() error {
	if p.tracer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	return p.tracer.Stop(ctx)
}
