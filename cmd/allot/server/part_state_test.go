package server

import (
	"log/slog"
	"testing"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestLeaveToRejoinStays: State that came from the other replicas does not withdraw the leave to rejoin
// before this one has its own part of the log, since its disk may fail until then.
func TestLeaveToRejoinStays(t *testing.T) {
	for _, c := range []struct {
		name         string
		found, whole bool // the log, at this start; what the others told since
		stays        bool
	}{
		{"its disk fails while the log is made anew", false, false, true},
		{"the others have filled it", false, true, false},
		{"its log was there, and lacks the newest commits", true, false, false},
	} {
		s := newServer(&Command{Data: t.TempDir()}, slog.New(slog.DiscardHandler))
		ledgertest.OK(t, s.data.start(t.Context()), s.data.MayRejoin())
		s.verdict.Verdict = &blocks.Verdict{}
		if c.found {
			s.verdict.Report = &blocks.Report{}
		}
		s.nats.whole = func() bool { return c.whole }
		ledgertest.OK(t, s.state.withdrawLeave())
		if has, err := s.data.Has(datafolder.Rejoin); err != nil || has != c.stays {
			t.Errorf("%s: the leave is there: %v, %v", c.name, has, err)
		}
	}
}
