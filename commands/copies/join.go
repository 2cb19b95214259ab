package copies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Why there is no copy.
var (
	// ErrNobody: no replica could give one.
	ErrNobody = errors.New("copies: no replica gives a copy")
	// ErrNotWorth: to replay what is missing takes less.
	ErrNotWorth = errors.New("copies: a replay takes less than a copy")
	// ErrOtherForm: it is of a release that stores things otherwise.
	ErrOtherForm = errors.New("copies: another release stores things otherwise")

	// errBad: what was sent is not what it should be. Another replica is asked.
	errBad = errors.New("the copy is not good")
	// errBusy: the replica gives a copy to another one.
	errBusy = errors.New(busy)
)

const (
	// offerWait is how long offers are waited for.
	offerWait = 500 * time.Millisecond
	// askWait is how long one answer may take: behind one that the pace holds up.
	askWait = 5 * time.Second
	// askTimes is how often a question is put before the replica counts as gone.
	askTimes = 3
	// lookEvery lies between looks whether a copy is ready.
	lookEvery = 50 * time.Millisecond
	// roundPause lies before all are asked again.
	roundPause = time.Second
	// rounds is how often all are asked, unless they are busy: a network may pass.
	rounds = 3
	// busyWait is how long one waits for a replica that is busy.
	busyWait = 2 * time.Minute
	// atOnce is how many files are fetched at a time, with a part of each on its way.
	atOnce = 4
	// maxManifest bounds what is read as a manifest.
	maxManifest = 64 << 20
)

// Progress is how far a copy has come.
type Progress struct {
	From  string `json:"from"`
	Bytes int64  `json:"bytes"`
	Of    int64  `json:"of"`
}

// JoinConfig is what a replica needs that fetches a copy.
type JoinConfig struct {
	Conn   *nats.Conn
	Log    ledger.Log // that of the cluster, which copies are compared with
	Folder Folder
	// From is the sequence that State and read models are at.
	From uint64
	// Room is how many bytes there is room for; nil: nobody knows.
	Room func() int64
	// Tell, if set, is called now and then with the progress, by several goroutines
	// at a time.
	Tell   func(Progress)
	Logger *slog.Logger

	always bool          // whatever it is worth
	wait   time.Duration // for offers; offerWait if 0
}

// Copy is what was fetched, and is ready to be put in its place by
// Folder.Finish.
type Copy struct {
	State  *ledger.State
	Models projector.Position
	From   string
	Bytes  int64
}

// joiner is one call of Join.
type joiner struct {
	JoinConfig
	id  ledger.UUID
	bad map[ledger.UUID]bool // whose copies were not good
}

// Join fetches a copy from whichever replica can give one. Without one the error
// says why, and nothing has changed.
func Join(ctx context.Context, cfg JoinConfig) (*Copy, error) {
	j := &joiner{JoinConfig: cfg, id: commands.NewID(), bad: make(map[ledger.UUID]bool)}
	var reasons []error
	for began, round := time.Now(), 0; round < rounds; {
		offers, err := j.offers(ctx)
		if err != nil {
			return nil, err
		}
		got, err := j.round(ctx, offers)
		switch {
		case err == nil:
			return got, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("copies: %w", ctx.Err())
		case errors.Is(err, errBusy) && time.Since(began) < busyWait:
		default:
			reasons = append(reasons, err)
			round++
		}
		select {
		case <-time.After(roundPause):
		case <-ctx.Done():
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrNobody, errors.Join(reasons...))
}

// offers are what other replicas could give, the best first. It fails if there
// is none, or none that is worth it.
func (j *joiner) offers(ctx context.Context) ([]offer, error) {
	heard, err := j.hear(ctx)
	if err != nil {
		return nil, err
	}
	var refused error
	heard = slices.DeleteFunc(heard, func(o offer) bool {
		switch {
		case o.Form != ownForm():
			refused = fmt.Errorf("%w: %s stores %+v, and this release %+v", ErrOtherForm, o.Name, o.Form, ownForm())
		case !j.always && !worth(j.From, o):
			refused = fmt.Errorf("%w: of %d commits %d are here", ErrNotWorth, o.Sequence, j.From)
		case j.Room != nil && j.Room() < o.Bytes:
			refused = fmt.Errorf("copies: there is room for %d bytes, and a copy takes %d", j.Room(), o.Bytes)
		case j.bad[o.Instance]:
			refused = cmp.Or(refused, fmt.Errorf("%w: that of %s was not good", ErrNobody, o.Name))
		default:
			return false
		}
		return true
	})
	if len(heard) == 0 {
		return nil, cmp.Or(refused, ErrNobody)
	}
	slices.SortFunc(heard, func(a, b offer) int {
		return cmp.Or(order(a.Busy, b.Busy), order(a.Leads, b.Leads),
			cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(a.Name, b.Name))
	})
	return heard, nil
}

// order puts those last of whom something is so.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// hear asks all replicas.
func (j *joiner) hear(ctx context.Context) (found []offer, err error) {
	inbox := j.Conn.NewRespInbox()
	sub, err := j.Conn.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := j.Conn.PublishRequest(offerSubject, inbox, nil); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, cmp.Or(j.wait, offerWait))
	defer cancel()
	for {
		msg, err := sub.NextMsgWithContext(wait)
		if err != nil {
			return found, ctx.Err()
		}
		var o offer
		if json.Unmarshal(msg.Data, &o) == nil && o.Sequence > 0 {
			found = append(found, o)
		}
	}
}

// round asks one replica after the other.
func (j *joiner) round(ctx context.Context, offers []offer) (*Copy, error) {
	var reasons []error
	for _, o := range offers {
		began := time.Now()
		got, err := j.from(ctx, o)
		if err == nil {
			j.Logger.Info("State and read models have come from another replica", "from", o.Name, "bytes", got.Bytes,
				"sequence", got.Models.Head.Sequence, "took", time.Since(began))
			return got, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, errBad) || errors.Is(err, ErrOtherForm) || errors.Is(err, projector.ErrDamaged) {
			j.bad[o.Instance] = true
		}
		if !errors.Is(err, errBusy) {
			j.Logger.Warn("a copy of State and read models did not come", "from", o.Name, "because", err)
		}
		reasons = append(reasons, fmt.Errorf("%s: %w", o.Name, err))
	}
	return nil, errors.Join(reasons...)
}
