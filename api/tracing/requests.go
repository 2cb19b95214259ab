package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
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

// The keys of Allot's own attributes.
const (
	requestIDKey = "allot.request_id"
	commandIDKey = "allot.command_id"
	commandKey   = "allot.command"
	outcomeKey   = "allot.outcome"
	rejectionKey = "allot.rejection"
	addressKey   = "allot.record"
)

// Searched records the search for a claim: see writer.Observer.
func (t *Tracer) Searched(s commands.Submission, began, ended time.Time) {
	t.later(1, func() { t.stage(within(context.Background(), s.Trace), "search", began, ended) })
}

// Traced records a command, and its stages in the writer: see writer.Observer.
func (t *Tracer) Traced(s commands.Submission, at writer.Times, outcome commands.Outcome, name string, err error) {
	const spans = 6 // of the command, and of its stages where it came through all of them
	t.later(spans, func() { t.command(s, at, outcome, name, err) })
}

func (t *Tracer) command(s commands.Submission, at writer.Times, outcome commands.Outcome, name string, err error) {
	command := commands.NameOf(s.Command)
	ctx, span := t.tracer.Start(within(context.Background(), s.Trace), command, trace.WithTimestamp(at.Submitted),
		trace.WithAttributes(attribute.String(commandKey, command), attribute.String(outcomeKey, name)))
	if !s.ID.IsNil() {
		span.SetAttributes(attribute.String(commandIDKey, s.ID.String()))
	}
	if s.RequestID != "" {
		span.SetAttributes(attribute.String(requestIDKey, s.RequestID))
	}
	switch {
	case err != nil:
		span.SetStatus(codes.Error, err.Error())
	case outcome.Rejection != nil:
		span.SetAttributes(attribute.String(rejectionKey, string(outcome.Rejection.Code)))
	case outcome.Address.Sequence > 0:
		span.SetAttributes(attribute.String(addressKey, outcome.Address.String()))
	}
	began := at.Submitted
	for _, stage := range []struct {
		name string
		ends time.Time
	}{
		{"queue", at.Taken}, {"decide", at.Sent}, {"append", at.Appended}, {"fold", at.Folded}, {"answer", at.Answered},
	} {
		if stage.ends.IsZero() {
			continue // it did not come there: the next stage begins where the last one ended
		}
		if !at.Taken.IsZero() {
			t.stage(ctx, stage.name, began, stage.ends)
		}
		began = stage.ends
	}
	span.End(trace.WithTimestamp(at.Answered))
}

// stage records a stage that is over.
func (t *Tracer) stage(ctx context.Context, name string, began, ended time.Time) {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(began))
	span.End(trace.WithTimestamp(ended))
}
