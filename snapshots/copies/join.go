package copies

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/projector"
)

const (
	// tries is how often a copy is asked for whose way breaks off: a network may fail for
	// a moment.
	tries = 3
	// tryPause lies before it is asked for again.
	tryPause = time.Second
)

// Progress is how far a copy has come.
type Progress struct {
	From  string `json:"from"`
	Bytes int64  `json:"bytes"`
	Of    int64  `json:"of"`
}

// JoinConfig is what a server needs that gets a copy.
type JoinConfig struct {
	// Peers are the other replicas that may give one; nil: none.
	Peers  func(context.Context) []Peer
	TLS    *tls.Config // of the replicas
	Secret string      // of the replicas
	// Stores have copies, too.
	Stores []bucket.Store
	// Unsign returns the text of a manifest that was signed for a store; nil:
	// signatures are not checked.
	Unsign func(signed []byte) (text []byte, err error)

	Log    ledger.Log // which copies are compared with
	Folder Folder
	// From is the sequence that State and read models are at.
	From uint64
	// UpTo is the last sequence of the log: copies in stores that are newer are of no use.
	UpTo uint64
	// Needed makes a copy wanted even if a replay takes less.
	Needed bool
	// Room is how many bytes there is room for; nil: it is not known.
	Room func() int64
	// Tell, if set, is called now and then with the progress, by several goroutines
	// at a time.
	Tell   func(Progress)
	Logger *slog.Logger

	pause time.Duration // tryPause if 0
}

// Copy is what has come, and is ready to be put in its place by Folder.Finish.
type Copy struct {
	State  *ledger.State
	Models projector.Position
	From   string
	Bytes  int64
}

// found is a copy that a source has, or can make.
type found interface {
	// String says where it is.
	String() string
	// offer is what it would be.
	offer(ctx context.Context) (offer, error)
	// manifest is what it consists of. It is made, if need be.
	manifest(ctx context.Context) (*manifest, error)
	// open reads one of its files.
	open(ctx context.Context, sum ledger.Digest) (io.ReadCloser, error)
}

// Join gets the newest copy of another replica or else of an archive. Without one the
// error says why, and nothing has changed.
func Join(ctx context.Context, cfg JoinConfig) (*Copy, error) {
	var reasons []error
	for _, source := range []func(context.Context) ([]found, error){cfg.ofPeers, cfg.ofStores} {
		list, err := source(ctx)
		if err != nil {
			reasons = append(reasons, err)
		}
		for _, one := range list {
			got, err := cfg.tell(ctx, one)
			if err == nil || ctx.Err() != nil {
				return got, err
			}
			reasons = append(reasons, fmt.Errorf("%s: %w", one, err))
		}
	}
	if len(reasons) == 0 {
		return nil, ErrNone
	}
	return nil, errors.Join(reasons...)
}

// ofPeers lists the copies of other replicas: first of those that follow, and of these who has come farthest.
func (c *JoinConfig) ofPeers(ctx context.Context) (list []found, err error) {
	if c.Peers == nil {
		return nil, nil
	}
	peers := c.Peers(ctx)
	slices.SortFunc(peers, inOrder)
	for _, peer := range peers {
		list = append(list, newPeerCopy(peer, c.Secret, c.TLS))
	}
	return list, nil
}

func inOrder(a, b Peer) int {
	if a.Leads != b.Leads {
		if a.Leads {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(a.Name, b.Name))
}

// ofStores lists the copies in archives that are of use, and says why others are not.
func (c *JoinConfig) ofStores(ctx context.Context) (list []found, err error) {
	for _, store := range c.Stores {
		names, failed := listStored(ctx, store)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", store, failed))
		}
		for _, name := range names {
			if name.models.Sequence > c.UpTo {
				err = errors.Join(err, fmt.Errorf("%s: the copy of sequence %d is newer than the log, which ends at %d", store,
					name.models.Sequence, c.UpTo))
				continue
			}
			list = append(list, &storedCopy{store: store, name: name, unsign: c.Unsign})
		}
	}
	return list, err
}

// tell gets a copy, and logs what has become of it.
func (c *JoinConfig) tell(ctx context.Context, one found) (*Copy, error) {
	began := time.Now()
	got, err := c.try(ctx, one)
	switch {
	case err == nil:
		c.Logger.Info("State and read models have come", "from", one, "bytes", got.Bytes,
			"state", got.State.Head().Sequence, "sequence", got.Models.Head.Sequence, "took", time.Since(began))
	case ctx.Err() != nil:
		err = fmt.Errorf("copies: %w", ctx.Err())
	case !errors.Is(err, ErrNotWorth):
		c.Logger.Warn("a copy of State and read models did not come", "from", one, "because", err)
	}
	return got, err
}

// try gets a copy, again if the way to it breaks off.
func (c *JoinConfig) try(ctx context.Context, one found) (got *Copy, err error) {
	for try := range tries {
		if try > 0 {
			select {
			case <-time.After(cmp.Or(c.pause, tryPause)):
			case <-ctx.Done():
			}
		}
		if got, err = c.take(ctx, one); !errors.Is(err, errGone) {
			break
		}
	}
	return got, err
}

// take gets a copy, if it is wanted.
func (c *JoinConfig) take(ctx context.Context, one found) (*Copy, error) {
	o, err := one.offer(ctx)
	if err == nil {
		err = c.wants(o)
	}
	if err != nil {
		return nil, err
	}
	m, err := one.manifest(ctx)
	if err == nil {
		err = c.wants(m.offer())
	}
	if err != nil {
		return nil, err
	}
	a := &arriving{JoinConfig: c, found: one, total: m.bytes()}
	return a.take(ctx, m)
}

// wants says why a copy is not wanted; nil: it is.
func (c *JoinConfig) wants(o offer) error {
	switch at := o.Models.Head.Sequence; {
	case o.Form != ownForm():
		return fmt.Errorf("%w: it stores %+v, and this release %+v", ErrOtherForm, o.Form, ownForm())
	case at <= c.From || !c.Needed && !copyBeatsReplay(c.From, o):
		return fmt.Errorf("%w: of %d commits %d are here", ErrNotWorth, at, c.From)
	case c.Room != nil && c.Room() < o.Bytes:
		return fmt.Errorf("there is room for %d bytes, and it takes %d", c.Room(), o.Bytes)
	}
	return nil
}

// When a copy is fetched. It costs what all of the history weighs, and a replay
// what is missing of it. So who lacks little replays. The figures are of the
// ten million records of docs/cluster.md, three replicas on a machine of two
// cores; only their ratio decides, and it is much the same elsewhere, since
// both are bound by the same processors and disks. They are rounded in favour
// of the replay, which asks nothing of another replica.
const (
	// replayRate is how many records a second a replay folds.
	replayRate = 60_000
	// copyRate is how many bytes of a copy a second are fetched and checked.
	copyRate = 60 << 20
	// copyFixed is what a copy takes however small it is: it has to be asked
	// for and made.
	copyFixed = 2 * time.Second
)

// copyBeatsReplay reports whether to fetch what is offered is faster than to replay the
// log from a sequence on.
func copyBeatsReplay(from uint64, o offer) bool {
	if o.Models.Head.Sequence <= from {
		return false
	}
	return missing(from, o.Models)/replayRate > copyFixed.Seconds()+float64(o.Bytes)/copyRate
}

// MayBeatReplay reports whether to ask for a copy can be of use: a replica that is
// at a position, and lacks some commits, may be about to catch up in no time.
func MayBeatReplay(at projector.Position, from, last uint64) bool {
	if last <= from {
		return false
	}
	if at.Head.Sequence == 0 {
		return true // it cannot tell
	}
	lacks := float64(at.Records) * float64(last-from) / float64(at.Head.Sequence)
	return lacks/replayRate > copyFixed.Seconds()
}
