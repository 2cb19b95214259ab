// Package tracing records sampled requests as OpenTelemetry traces: the request
// at its API, its way to the leader, and the stages of its command in the writer.
// It sends them as OTLP over HTTP, beside the requests: a receiver that is slow
// or away costs spans, and neither time nor memory.
//
// A request that comes with a traceparent belongs to that trace, and the client
// has decided whether it is recorded. Others begin a trace, of which a share is
// recorded.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/allot-project/allot/commands"
)

const (
	// exportTimeout is how long a receiver may take for one batch of spans.
	exportTimeout = 10 * time.Second
	// maxSpans is how many ended spans may wait to be sent. Further ones are
	// dropped.
	maxSpans = 8192
	// maxCommands is how many traced commands may wait until their spans are
	// made. The spans of further ones are dropped, because the writer must not
	// wait.
	maxCommands = 4096
	// defaultRatio is the share of traces that are recorded, among those that
	// begin here.
	defaultRatio = 0.01
)

// Options configure a Tracer.
type Options struct {
	// URL is where spans are sent to, as OTLP over HTTP. A URL without a path gets
	// /v1/traces. If it is empty the environment says it (OTEL_EXPORTER_OTLP_*).
	URL string
	// Ratio is the share of traces that are recorded, among those that begin
	// here; nil: as OTEL_TRACES_SAMPLER says, otherwise one in a hundred.
	Ratio *float64
	// Version and Instance describe this server.
	Version, Instance string
	Logger            *slog.Logger
}

// Wanted reports whether the environment asks for traces, by OpenTelemetry's
// variables.
func Wanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// maxAsked is how many requests a second are recorded because their clients ask
// for it.
const maxAsked = 200

// Tracer records traces, from Start until Stop.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	tap      *tap
	traced   chan func()
	quit     chan struct{}
	idle     sync.WaitGroup
}

// Start returns a Tracer. It does not speak to the receiver yet, which may start
// later.
func Start(ctx context.Context, opts Options) (*Tracer, error) {
	exporterOptions := []otlptracehttp.Option{
		otlptracehttp.WithTimeout(exportTimeout),
		// Batches of a receiver that is away are dropped: the next ones are newer.
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}),
	}
	if opts.URL != "" {
		target, err := receiver(opts.URL)
		if err != nil {
			return nil, err
		}
		exporterOptions = append(exporterOptions, otlptracehttp.WithEndpointURL(target))
	}
	exporter, err := otlptracehttp.New(ctx, exporterOptions...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	described, err := describe(ctx, opts)
	if err != nil {
		return nil, err
	}
	t := &Tracer{
		tap: &tap{SpanExporter: exporter, logger: opts.Logger}, traced: make(chan func(), maxCommands),
		quit: make(chan struct{}),
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { opts.Logger.Debug("tracing", "error", err) }))
	batches := sdk.NewBatchSpanProcessor(t.tap, sdk.WithMaxQueueSize(maxSpans), sdk.WithExportTimeout(exportTimeout))
	providerOptions := []sdk.TracerProviderOption{
		sdk.WithResource(described), sdk.WithSpanProcessor(&counted{SpanProcessor: batches, made: &t.tap.made}),
	}
	if sampler := opts.sampler(); sampler != nil {
		providerOptions = append(providerOptions, sdk.WithSampler(sampler))
	}
	t.provider = sdk.NewTracerProvider(providerOptions...)
	t.tracer = t.provider.Tracer("github.com/allot-project/allot", trace.WithInstrumentationVersion(opts.Version))
	t.idle.Go(t.run)
	return t, nil
}

// receiver completes the URL of a receiver.
func receiver(text string) (string, error) {
	target, err := url.Parse(text)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return "", fmt.Errorf("%q is not http://HOST:PORT or https://HOST:PORT", text)
	}
	if target.User != nil {
		return "", errors.New("the URL has a password in it: give the header in OTEL_EXPORTER_OTLP_HEADERS instead")
	}
	if target.Path == "" || target.Path == "/" {
		target.Path = "/v1/traces"
	}
	return target.String(), nil
}

// describe describes this server. The environment may add to it, and name it
// otherwise.
func describe(ctx context.Context, opts Options) (*resource.Resource, error) {
	described, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "allot"), attribute.String("service.version", opts.Version),
			attribute.String("service.instance.id", opts.Instance),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return described, nil
}

// sampler returns what decides which traces are recorded; nil: the environment.
func (o *Options) sampler() sdk.Sampler {
	if o.Ratio == nil && os.Getenv("OTEL_TRACES_SAMPLER") != "" {
		return nil
	}
	ratio := defaultRatio
	if o.Ratio != nil {
		ratio = *o.Ratio
	}
	asked := &bounded{Sampler: sdk.AlwaysSample(), limit: rate.NewLimiter(maxAsked, maxAsked)}
	return sdk.ParentBased(sdk.TraceIDRatioBased(ratio), sdk.WithRemoteParentSampled(asked))
}

// bounded is a Sampler that records so many traces a second at most. To record
// one takes several times as long as a command, and every client may ask for
// it.
type bounded struct {
	sdk.Sampler
	limit *rate.Limiter
}

// ShouldSample implements sdk.Sampler.
func (b *bounded) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	if !b.limit.Allow() {
		return sdk.NeverSample().ShouldSample(p)
	}
	return b.Sampler.ShouldSample(p)
}

// Stop sends what is left, until the context ends.
func (t *Tracer) Stop(ctx context.Context) error {
	close(t.quit)
	t.idle.Wait()
	if err := t.provider.Shutdown(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// run makes the spans of traced commands until Stop.
func (t *Tracer) run() {
	for {
		select {
		case record := <-t.traced:
			record()
		case <-t.quit:
			for {
				select {
				case record := <-t.traced:
					record()
				default:
					return
				}
			}
		}
	}
}

// later makes so many spans soon, unless too many wait.
func (t *Tracer) later(spans int64, record func()) {
	select {
	case t.traced <- record:
	default:
		t.tap.made.Add(spans) // and never sent
	}
}

// Counts are how many spans were made, and how many of these the receiver has
// taken. Those in between wait, or are lost.
type Counts struct{ Made, Sent int64 }

// Counts returns the numbers since the start.
func (t *Tracer) Counts() Counts { return Counts{t.tap.made.Load(), t.tap.sent.Load()} }

// counted counts the spans that are to be sent.
type counted struct {
	sdk.SpanProcessor
	made *atomic.Int64
}

// OnEnd implements sdk.SpanProcessor.
func (c *counted) OnEnd(span sdk.ReadOnlySpan) {
	c.made.Add(1)
	c.SpanProcessor.OnEnd(span)
}

// tap counts the spans that pass, and says once that none do.
type tap struct {
	sdk.SpanExporter
	logger     *slog.Logger
	made, sent atomic.Int64
	away       atomic.Bool
}

// ExportSpans implements sdk.SpanExporter.
func (e *tap) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.sent.Add(int64(len(spans)))
		if e.away.Swap(false) {
			e.logger.Info("traces are sent again")
		}
		return nil
	}
	if !e.away.Swap(true) {
		e.logger.Warn("traces are not sent, and are lost until they are: look at --trace-url; the ledger works without them",
			"error", err)
	}
	return err
}

// traceContext reads and writes the headers traceparent and tracestate.
var traceContext propagation.TraceContext

// wellFormed reports whether a traceparent has the length that its version has.
// The library looks at the rest.
func wellFormed(parent string) bool {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	return len(parent) == length || len(parent) > length && parent[:2] != "00"
}

// within returns a context in which spans belong to a trace that this server or
// the one before it has decided to record: all its spans are recorded, and do not
// count among those that clients ask for.
func within(ctx context.Context, place *commands.Trace) context.Context {
	decided := trace.SpanContextFromContext(asked(ctx, place.Parent, place.State)).WithRemote(false)
	return trace.ContextWithSpanContext(ctx, decided)
}

// asked returns a context in which spans belong to a trace that a client names.
func asked(ctx context.Context, parent, state string) context.Context {
	return traceContext.Extract(ctx, propagation.MapCarrier{"traceparent": parent, "tracestate": state})
}

// placeOf returns the place of a span in its trace, or nil if it is not recorded.
func placeOf(ctx context.Context, span trace.Span) *commands.Trace {
	if !span.SpanContext().IsSampled() {
		return nil
	}
	headers := make(propagation.MapCarrier, 2)
	traceContext.Inject(trace.ContextWithSpan(ctx, span), headers)
	return &commands.Trace{Parent: headers["traceparent"], State: headers["tracestate"]}
}
