package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestHangingReceiver: spans for a receiver that hangs do not pile up, and hold up neither requests
// nor the tracer's end.
func TestHangingReceiver(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(server.Close)
	defer close(hangs)
	tracer, err := Start(t.Context(), Options{URL: server.URL, Ratio: new(1.0), Logger: slog.New(slog.DiscardHandler)})
	ledgertest.OK(t, err)
	const spans = 2 * maxSpans
	for range spans {
		_, span := tracer.tracer.Start(t.Context(), "a request")
		span.End()
	}
	if n := tracer.Counts(); n.Made != spans || n.Sent > 0 {
		t.Errorf("of %d spans %d were made and %d sent", spans, n.Made, n.Sent)
	}
	held := make(chan struct{})
	for range 2 * maxCommands {
		tracer.later(1, func() { <-held })
	}
	if n := tracer.Counts(); n.Made < spans+maxCommands-1 {
		t.Errorf("%d of %d spans were made: those of commands pile up", n.Made, spans+2*maxCommands)
	}
	close(held)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ledgertest.OK(t, tracer.Stop(ended))
}

// TestAskedTracesAreBounded: clients that want everything recorded get a part of
// it. Those who do not ask are recorded by the ratio, as before.
func TestAskedTracesAreBounded(t *testing.T) {
	t.Parallel()
	sampler := (&Options{Ratio: new(1.0)}).sampler()
	recorded := func(flags trace.TraceFlags, remote bool) (n int) {
		for i := range 10 * maxAsked {
			id := trace.TraceID{1, byte(i), byte(i >> 8)}
			parameters := sdk.SamplingParameters{ParentContext: t.Context(), TraceID: id}
			if remote {
				parameters.ParentContext = trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(
					trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true},
				))
			}
			if sampler.ShouldSample(parameters).Decision == sdk.RecordAndSample {
				n++
			}
		}
		return n
	}
	if n := recorded(trace.FlagsSampled, true); n < maxAsked || n == 10*maxAsked {
		t.Errorf("%d of %d were recorded that clients asked for", n, 10*maxAsked)
	}
	if n := recorded(0, true); n > 0 {
		t.Errorf("%d were recorded that clients did not want", n)
	}
	if n := recorded(0, false); n != 10*maxAsked {
		t.Errorf("of those that begin here %d were recorded", n)
	}
}
