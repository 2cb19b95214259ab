package leading

import (
	"context"
	"errors"
	"time"

	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger/jetstream"
)

// A replicated stream can be wedged: its servers say that they are a healthy
// group with a leader, but appends are never answered (nats-server issue 8519).
// Nothing in the cluster ends that by itself, because the lease is in another
// stream, which goes on. So it raises an alarm.

// ErrWedged means that the log takes no commits, although its servers say that
// they are well.
var ErrWedged = errors.New("the log takes no commits, though its servers say that they are well: " +
	"restart the server that leads its stream (docs/reliability.md, Replicas)")

const (
	// wedgeLook is how often the log is checked.
	wedgeLook = time.Second
	// wedgeWait is how long its servers may take to report their state.
	wedgeWait = time.Second
)

// Wedged returns ErrWedged once the log has taken nothing for twice Config.Limit,
// although its servers said that they are well.
func (r *Replica) Wedged() error {
	if r.view.wedged.Load() {
		return ErrWedged
	}
	return nil
}

// watchLog checks whether the log is wedged while the term lasts.
func (t *Term) watchLog() {
	tick := time.NewTicker(wedgeLook)
	defer tick.Stop()
	var since time.Duration // since when it says that it is well although it takes nothing; 0: that is not so
	for {
		select {
		case <-tick.C:
		case <-t.lost:
			return
		}
		if t.r.leading.Load() != t {
			return
		}
		switch {
		case !errors.Is(t.writer.Stuck(), writer.ErrLogSilent) || !t.wellByItself():
			since = 0
		case since == 0:
			since = t.clock()
		}
		wedged := since > 0 && t.clock()-since >= t.r.cfg.Limit
		if before := t.wedged.Swap(wedged); wedged && !before {
			t.r.cfg.Logger.Error("the log is wedged", "error", ErrWedged)
		} else if before && !wedged {
			t.r.cfg.Logger.Info("the log accepts commits again")
		}
	}
}

// wellByItself reports whether the log's servers say that most of them are there,
// and that one leads.
func (t *Term) wellByItself() bool {
	ctx, cancel := context.WithTimeout(t.r.ctx, wedgeWait)
	defer cancel()
	peers, err := t.r.cfg.Log.Peers(ctx)
	return err == nil && quorate(peers)
}

func quorate(peers jetstream.Peers) bool {
	if peers.Leader == "" {
		return false
	}
	there := 1
	for _, p := range peers.Others {
		if p.Current && !p.Offline {
			there++
		}
	}
	return 2*there > len(peers.Others)+1
}
