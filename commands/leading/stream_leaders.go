package leading

import (
	"context"
	"time"

	"github.com/allot-project/allot/ledger/jetstream"
)

// The loss of a server costs most if it leads a stream, because a stream that
// loses its leader takes nothing for 4 to 9 s. So the leaders of the two streams
// are placed on purpose. The writer's server leads the log's stream: then the
// loss of any other server costs nothing. Another server leads the bucket's
// stream: then the successor of a lost leader waits for one election before it
// takes the lease, not for the later of two. While the bucket has no leader, the
// lease is renewed in the log.

const (
	// placeFirst is how long after the beginning of a term streams are first
	// moved, and arrangeEvery how often they are checked. A move costs writes a
	// tenth of a second.
	placeFirst = time.Second
	placeEvery = 5 * time.Second
	// placeWait is how long each question may take.
	placeWait = 2 * time.Second
)

// BeginHandover announces that this term is about to end: streams stay where they are.
func (t *Term) BeginHandover() { t.yields.Store(true) }

// watchStreamLeaders keeps the streams where they belong while the term lasts.
func (t *Term) watchStreamLeaders() {
	if t.r.cfg.Near == nil {
		return // servers that are not Allot's lead the streams
	}
	wait := time.NewTimer(placeFirst)
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
		if err := t.placeStreamLeaders(); err != nil {
			t.r.cfg.Logger.Debug("streams are led where they were", "error", err)
		}
		wait.Reset(placeEvery)
	}
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
