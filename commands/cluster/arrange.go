package cluster

import (
	"context"
	"time"

	"github.com/allot-project/allot/ledger/jetstream"
)

// Which servers lead the two streams decides what the loss of one costs, since
// a stream that loses its leader takes nothing for 4 to 9 s. The log's belongs
// with the writer: the loss of any other server then costs nothing. The
// bucket's belongs elsewhere: who takes the lease of a leader that is lost
// waits for one election then, not for the later one of two; and while the
// bucket has no leader, the lease is renewed in the log.

const (
	// arrangeFirst is how long after a term has begun streams are moved first, and
	// arrangeEvery how often they are looked at. A move costs writes a tenth of a
	// second.
	arrangeFirst = time.Second
	arrangeEvery = 5 * time.Second
	// arrangeWait is how long each question may take.
	arrangeWait = 2 * time.Second
)

// Yield says that this term is about to end: streams are left where they are.
func (t *Term) Yield() { t.yields.Store(true) }

// arranging keeps the streams where they belong while the term lasts.
func (t *Term) arranging() {
	if t.r.cfg.Near == nil {
		return // the streams are led by servers that are not ours
	}
	wait := time.NewTimer(arrangeFirst)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-t.lost:
			return
		}
		if t.r.leading.Load() != t || t.yields.Load() {
			return
		}
		if err := t.arrange(); err != nil {
			t.r.cfg.Logger.Debug("streams are led where they were", "error", err)
		}
		wait.Reset(arrangeEvery)
	}
}

func (t *Term) arrange() error {
	ctx, cancel := context.WithTimeout(t.r.ctx, arrangeWait)
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

// upToDate reports whether a server that does not lead a stream has all of it.
func upToDate(peers jetstream.Peers, name string) bool {
	for _, p := range peers.Others {
		if p.Name == name {
			return p.Current && !p.Offline && p.Lag == 0
		}
	}
	return false
}
