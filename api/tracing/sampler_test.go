package tracing

import (
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TestAskedTracesAreBounded: clients that want everything recorded get a part of
// it. Those who do not ask are recorded by the ratio, as before.
func TestAskedTracesAreBounded(t *testing.T) {
	t.Parallel()
	all := 1.0
	sampler := (&Options{Ratio: &all}).sampler()
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
