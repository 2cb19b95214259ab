package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
)

// statePart brings State and read models to the end of the log, and learns the ledger's id.
type statePart struct {
	*server

	state *ledger.State // at the end of the log; nil: a writer or a replica has taken it
}

func (p *statePart) start(ctx context.Context) (err error) {
	if p.state, err = p.restoreOrWait(ctx, p.joining.once()); err != nil {
		return err
	}
	p.waits.Store(nil)
	if err := p.withdrawLeave(); err != nil {
		return err
	}
	if last := p.state.Next() - 1; last > p.state.Head().Sequence {
		writer.TellSkipped(p.logger, p.state.Head().Sequence, last)
	}
	id := p.state.LedgerID()
	if begin := p.verdict.Begin; p.config.Cluster.on() && begin != nil && !id.IsNil() && begin.Ledger != id {
		return fmt.Errorf(
			"the log is that of the ledger %s, but %s says that this server is to begin the ledger %s: to join the other ledger, remove that file",
			id, p.config.Data, begin.Ledger,
		)
	}
	if id.IsNil() {
		if p.verdict.Begin == nil {
			return p.data.Missing()
		}
		id = p.verdict.Begin.Ledger
	}
	if p.config.NATSURL != "" && p.verdict.Begin != nil && !p.state.LedgerID().IsNil() {
		if err := p.data.Files().Begun(); err != nil { // by this server or another one
			return err
		}
	}
	p.notary.Ledger, p.notary.Log = id, p.log.all
	p.nats.ledger.Store(&id)
	return nil
}

// withdrawLeave withdraws the leave to rejoin once this server has its own part of the log. State may be
// there before, from what the others hold, and the disk may still fail: the next start needs the leave then.
func (p *statePart) withdrawLeave() error {
	if p.verdict.Report == nil && p.nats.whole != nil && !p.nats.whole() {
		return nil
	}
	return p.data.Rejoined()
}

// take hands the State over: nil if it was taken before. What takes it changes it.
func (p *statePart) take() (state *ledger.State) {
	state, p.state = p.state, nil
	return state
}

// restoreOrWait is restore, and on one of several servers waits until the one that was told to has begun the
// ledger. Before it replays, join may shorten that; nil: it may not.
func (p *statePart) restoreOrWait(ctx context.Context, join func(context.Context) error) (*ledger.State, error) {
	waits, pause := p.waits.tell("waiting for the cluster's ledger"), openAgain
	for {
		var state *ledger.State
		filled, err := p.filled(ctx)
		if filled && join != nil {
			if err := join(ctx); err != nil {
				return nil, err
			}
		}
		if filled {
			state, err = p.restore(ctx)
		}
		begun := filled && err == nil && (!state.LedgerID().IsNil() || p.verdict.Begin != nil)
		if !p.config.Cluster.on() {
			return state, err
		}
		if refused := p.nats.welcome(); refused != nil {
			return nil, refused
		}
		if begun || err != nil && !errors.Is(err, ledger.ErrUnavailable) {
			return state, p.explainReplica(err)
		}
		if err != nil {
			waits(err.Error())
			pause = min(2*pause, openLatest)
		} else {
			waits("it has not begun, or is being filled")
			pause = openAgain
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("stopped while waiting for the cluster's ledger: %w", context.Cause(ctx))
		}
	}
}

// filled reports whether the log has what it begins with. Until then it may lack what read models know.
func (p *statePart) filled(ctx context.Context) (bool, error) {
	if !p.config.Cluster.on() || p.log.stream.History() == 0 {
		return true, nil
	}
	last, err := p.log.all.Last(ctx)
	return err == nil && last >= p.log.stream.History(), err
}

// restore brings State and read models to the end of the log. The log must agree
// with every head that was seen of it.
func (p *statePart) restore(ctx context.Context) (*ledger.State, error) {
	seen, err := p.highWater.seen()
	if err != nil {
		return nil, err
	}
	replayed, end := progress(p.logger, "replaying", "replayed", "commits", longReplay)
	defer end()
	models := &leaderModels{p.views.Projector, p.highWater.HighWater, p.clock}
	state, err := writer.Restore(ctx, p.log.all, p.snaps.Store, models, seen, replayed, p.snaps.due)
	if err != nil {
		return nil, adviseToCut(unreached(err))
	}
	last := time.Unix(0, state.LastTime())
	if behind := p.clock.Behind(last); behind != nil {
		p.logger.Error("the clock is wrong, or was", "error", behind)
	}
	p.clock.Confirm(last)
	return state, nil
}

// leaderModels move the high-water mark beside the log before a client learns of a commit, and tell the
// clock of its time.
type leaderModels struct {
	writer.ReadModels
	highWater *blocks.HighWater
	clock     *vitals.Clock
}

// Fold implements writer.ReadModels.
func (m *leaderModels) Fold(c *ledger.Commit, changes ledger.Changes) error {
	if err := m.highWater.Set(c.Head()); err != nil {
		return err
	}
	if n := len(c.Records); n > 0 {
		m.clock.Confirm(time.Unix(0, c.Records[n-1].Time))
	}
	return m.ReadModels.Fold(c, changes)
}

// adviseToCut names the way out if the log ends with an entry that may be of another publisher.
func adviseToCut(err error) error {
	var bad *chain.BadEntryError
	if !errors.As(err, &bad) {
		return err
	}
	good := bad.Sequence - 1
	return fmt.Errorf("%w. If another publisher wrote entry %d and everything after it, find out who can publish there, and cut it off: "+
		"\"allot repair --cut-after %d\" does that to the log in a data folder; a log in another NATS server begins anew "+
		"from its archive, with \"allot restore --at %d\"", err, bad.Sequence, good, good)
}

// explainReplica explains that a replica's folder and the log of its cluster do
// not belong together, and what to do.
func (p *statePart) explainReplica(err error) error {
	if !errors.Is(err, writer.ErrRefused) {
		return err
	}
	return fmt.Errorf("%s holds data of another ledger than the cluster's, or of commits that the cluster has lost: if it is "+
		"the wrong folder, name the right one with --data; if the cluster is right, move the folder away and start with an empty one, "+
		"which the others fill: %w", p.data.Dir, err)
}
