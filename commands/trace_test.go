package commands_test

import (
	"context"
	"testing"

	"github.com/allot-project/allot/commands"
)

// TestTrace: a context carries a trace, and a trace knows its id.
func TestTrace(t *testing.T) {
	if got := commands.TraceOf(context.Background()); got != nil || got.ID() != "" {
		t.Errorf("a context without a trace has %+v", got)
	}
	const id = "0af7651916cd43dd8448eb211c80319c"
	in := &commands.Trace{Parent: "00-" + id + "-b7ad6b7169203331-01"}
	out := commands.TraceOf(commands.WithTrace(context.Background(), in))
	if out != in || out.ID() != id {
		t.Errorf("a context carries %+v, with the id %q", out, out.ID())
	}
	if got := (&commands.Trace{Parent: "nonsense"}).ID(); got != "" {
		t.Errorf("nonsense has the id %q", got)
	}
}
