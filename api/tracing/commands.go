package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
)

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
