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

// every calls a function every so often while the term lasts.
func (t *Term) every(pause time.Duration, do func()) {
	t.r.ended.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-t.lost:
				return
			}
			if t.r.leading.Load() != t {
				return
			}
			do()
		}
	})
}

// watchLog checks whether the log is wedged.
func (t *Term) watchLog() {
	var since time.Duration // since when it says that it is well although it takes nothing; 0: that is not so
	t.every(wedgeLook, func() {
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
	})
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

// unfitLook is how often a leader looks whether it should give way. It does if it
// should not have led for two looks.
const unfitLook = 2 * time.Second

// notEligible returns why another replica should lead if one can.
func (r *Replica) notEligible() error {
	if r.cfg.Unfit == nil {
		return nil
	}
	return r.cfg.Unfit()
}

// watchFitness asks the term to end when another replica should lead and one can, such as
// when this one's disk is full. A leader that no replica can replace goes on: it answers
// reads.
func (t *Term) watchFitness() {
	before := false
	t.every(unfitLook, func() {
		problem := t.r.notEligible()
		if problem != nil && before {
			t.resignFor(problem)
		}
		before = problem != nil
	})
}

// resignFor asks the term to end if another replica can lead.
func (t *Term) resignFor(problem error) {
	ctx, cancel := context.WithTimeout(t.r.ctx, t.length)
	defer cancel()
	successor := t.r.group.Successor(ctx)
	if successor == "" {
		return
	}
	select {
	case t.resign <- successor:
		t.r.cfg.Logger.Warn("this replica lets another one lead", "because", problem, "successor", successor)
	default: // it was asked to already
	}
}

// The loss of a server costs most if it leads a stream, because a stream that
// loses its leader takes nothing for 4 to 9 s. So the leaders of the two streams
// are placed on purpose. The writer's server leads the log's stream: then the
// loss of any other server costs nothing. Another server leads the bucket's
// stream: then the successor of a lost leader waits for one election before it
// takes the lease, not for the later of two. While the bucket has no leader, the
// lease is renewed in the log.

const (
	// placeFirst is how long after the beginning of a term streams are first
	// moved, and placeEvery how often they are checked. A move costs writes a
	// tenth of a second.
	placeFirst = time.Second
	placeEvery = 5 * time.Second
	// placeWait is how long each question may take.
	placeWait = 2 * time.Second
)

// BeginHandover announces that this term is about to end: streams stay where they are.
func (t *Term) BeginHandover() { t.yields.Store(true) }

// watchStreamLeaders keeps the streams where they belong.
func (t *Term) watchStreamLeaders() {
	if t.r.cfg.Near == nil {
		return // servers that are not Allot's lead the streams
	}
	var due time.Duration
	t.every(placeFirst, func() {
		if t.yields.Load() || t.clock() < due {
			return
		}
		if err := t.placeStreamLeaders(); err != nil {
			t.r.cfg.Logger.Debug("streams are led where they were", "error", err)
		}
		due = t.clock() + placeEvery
	})
}

func (t *Term) placeStreamLeaders() error {
	ctx, cancel := context.WithTimeout(t.r.ctx, placeWait)
	defer cancel()
	own := t.r.cfg.Name
	if !t.r.cfg.Near() {
		peers, err := t.r.cfg.Log.Peers(ctx)
		if err != nil || peers.Leader == "" || peers.Leader == own || !upToDate(peers, own) {
			return err
		}
		return t.r.cfg.Log.MoveLeader(ctx, own)
	}
	peers, err := t.r.cfg.Values.Peers(ctx)
	if err != nil || peers.Leader != own {
		return err
	}
	for _, p := range peers.Others {
		if upToDate(peers, p.Name) {
			return t.r.cfg.Values.MoveLeader(ctx, p.Name)
		}
	}
	return nil
}

// upToDate reports whether a server that does not lead a stream holds all of it.
func upToDate(peers jetstream.Peers, name string) bool {
	for _, p := range peers.Others {
		if p.Name == name {
			return p.Current && !p.Offline && p.Lag == 0
		}
	}
	return false
}
