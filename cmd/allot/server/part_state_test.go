package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
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

// TestLeaveComesBeforeTheLogGoes: a replica whose leave to rejoin cannot be written keeps its damaged log, since
// without both an operator would have to help.
func TestLeaveComesBeforeTheLogGoes(t *testing.T) {
	s := newServer(&Command{Data: t.TempDir()}, slog.New(slog.DiscardHandler))
	ledgertest.OK(t, s.data.start(t.Context()))
	nats, err := embedded.Start(t.Context(), embedded.Config{StoreDir: s.data.Path(datafolder.Log)})
	ledgertest.OK(t, err)
	nc, err := nats.Connect()
	ledgertest.OK(t, err)
	log, err := jetstream.Open(t.Context(), nc, jetstream.Config{MayCreate: true, AckTimeout: ledgertest.Hang})
	ledgertest.OK(t, err)
	for _, commit := range ledgertest.Commits(t, 20) {
		appended := make(chan error, 1)
		log.Append(commit.Sequence, ledgertest.Encoded(t, commit), func(err error) { appended <- err })
		ledgertest.OK(t, <-appended)
	}
	nc.Close()
	nats.Shutdown()
	block := filepath.Join(s.data.Path(datafolder.Log), "jetstream", "$G", "streams", jetstream.DefaultStream, "msgs", "1.blk")
	data := ledgertest.ReadFile(t, block)
	data[len(data)/2] ^= 1
	unwritable := s.data.Path(datafolder.Rejoin + ".tmp")
	ledgertest.OK(t, os.WriteFile(block, data, 0o600), os.Mkdir(unwritable, 0o700))
	if err := s.verdict.judgeReplica(t.Context()); !errors.Is(err, blocks.ErrDamaged) {
		t.Errorf("no leave can be written: %v", err)
	}
	if _, err := os.Stat(block); err != nil {
		t.Errorf("the log is gone, without leave: %v", err)
	}
	ledgertest.OK(t, os.Remove(unwritable), s.verdict.judgeReplica(t.Context()))
	if has, err := s.data.Has(datafolder.Rejoin); err != nil || !has {
		t.Errorf("the leave is there: %v, %v", has, err)
	}
	if _, err := os.Stat(block); err == nil {
		t.Error("the damaged log is still there")
	}
}
