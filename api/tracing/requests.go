package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/allot-project/allot/commands"
)

// The names of headers of HTTP.
const (
	parentHeader    = "Traceparent"
	requestIDHeader = "X-Openstack-Request-Id"
)

// Requests records the requests of a handler. The answer to one that is recorded
// has the header traceparent, with the server's span. The route is the request's
// Pattern, and knownMethod the name of its method.
func (t *Tracer) Requests(next http.Handler, knownMethod func(string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if wellFormed(r.Header.Get(parentHeader)) {
			ctx = traceContext.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, knownMethod(r.Method), trace.WithSpanKind(trace.SpanKindServer))
		place := placeOf(ctx, span)
		if place == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set(parentHeader, place.Parent)
		seen := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(commands.WithTrace(ctx, place))
		defer func() { endRequest(span, r, seen, knownMethod(r.Method)) }()
		next.ServeHTTP(seen, r)
	})
}

func endRequest(span trace.Span, r *http.Request, seen *statusWriter, method string) {
	route := r.Pattern
	if route == "" {
		route = "other"
	}
	span.SetName(method + " " + route)
	span.SetAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", seen.status),
	)
	if id := seen.Header().Get(requestIDHeader); id != "" {
		span.SetAttributes(attribute.String(requestIDKey, id))
	}
	if seen.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Message records a request over NATS, of a kind and a name that are among a few.
// It returns the request's place in its trace, and what is called with its
// outcome; or nil and nil. Header returns a header's value.
func (t *Tracer) Message(kind, name string, header func(string) string) (*commands.Trace, func(outcome string)) {
	ctx := context.Background()
	if parent := header("traceparent"); wellFormed(parent) {
		ctx = asked(ctx, parent, header("tracestate"))
	}
	ctx, span := t.tracer.Start(ctx, kind+" "+name, trace.WithSpanKind(trace.SpanKindServer))
	place := placeOf(ctx, span)
	if place == nil {
		return nil, nil
	}
	span.SetAttributes(attribute.String("messaging.system", "nats"))
	if id := header("Allot-Request-Id"); id != "" && len(id) <= maxRequestID {
		span.SetAttributes(attribute.String(requestIDKey, id))
	}
	return place, func(outcome string) {
		span.SetAttributes(attribute.String(outcomeKey, outcome))
		if outcome == "internal" || outcome == "unavailable" || outcome == "unsent" {
			span.SetStatus(codes.Error, outcome)
		}
		span.End()
	}
}

// maxRequestID is the size, in bytes, of the longest request id.
const maxRequestID = 255

// Carrying records that a command is passed on to another server.
func (t *Tracer) Carrying(place *commands.Trace) (*commands.Trace, func(error)) {
	ctx, span := t.tracer.Start(
		within(context.Background(), place), "pass on to the leader", trace.WithSpanKind(trace.SpanKindClient),
	)
	within := placeOf(ctx, span)
	if within == nil {
		within = place
	}
	return within, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Outgoing adds the trace of a request's context to the request.
func Outgoing(next http.RoundTripper) http.RoundTripper { return outgoing{next} }

type outgoing struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o outgoing) RoundTrip(r *http.Request) (*http.Response, error) {
	if place := commands.TraceOf(r.Context()); place != nil {
		r = r.Clone(r.Context())
		r.Header.Set(parentHeader, place.Parent)
		if place.State != "" {
			r.Header.Set("Tracestate", place.State)
		}
	}
	return o.next.RoundTrip(r)
}
