package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHangingReceiver: spans for a receiver that hangs do not pile up, and hold up neither requests
// nor the tracer's end.
func TestHangingReceiver(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	t.Cleanup(server.Close)
	defer close(hangs)
	all := 1.0
	tracer, err := Start(t.Context(), Options{URL: server.URL, Ratio: &all, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
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
	if err := tracer.Stop(ended); err != nil {
		t.Error(err)
	}
}
