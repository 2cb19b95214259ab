package commands

import (
	"context"
	"strings"
)

// Trace is the place of a request in a trace, in the words of W3C Trace Context.
// Only requests that are recorded have one.
type Trace struct {
	Parent string `json:"parent"`          // value of the header traceparent
	State  string `json:"state,omitempty"` // value of the header tracestate
}

// ID returns the id of the trace, or "" if there is none.
func (t *Trace) ID() string {
	if t == nil {
		return ""
	}
	if parts := strings.Split(t.Parent, "-"); len(parts) == 4 {
		return parts[1]
	}
	return ""
}

type traceKey struct{}

// WithTrace returns a context that carries a trace.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace that a context carries, or nil.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}
