package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// Following says which entity a follower follows.
type Following struct {
	Of   string // a subject of histories, such as wire.OfProvider
	Name string // uuid of the entity, or id of a project or user
	// After is the last record that the follower has handled, perhaps before a
	// restart. Zero: only records from now on.
	After ledger.Address
}

// pendingNotices is how many notices may wait for a busy follower. Further
// notices are dropped, and read from the history later.
const pendingNotices = 64 << 10

// Follow calls deliver for every record that touches the followed entity: each
// record once, in the order of the log, without a gap, whatever happens to the
// connection or the server meanwhile. It returns when the context ends, or with
// the first error of deliver. To continue later without a gap or a duplicate,
// keep the address of the last notice.
func (c *Client) Follow(ctx context.Context, what Following, deliver func(wire.Notice) error) error {
	f := &follower{c: c, what: what, last: what.After, deliver: deliver}
	messages := make(chan *nats.Msg, pendingNotices)
	for _, subject := range []string{wire.NoticeSubject(what.Of, what.Name), wire.HeartbeatSubject} {
		sub, err := c.nc.ChanSubscribe(subject, messages)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
		f.subs = append(f.subs, sub)
	}
	if err := f.begin(ctx); err != nil {
		return err
	}
	reconnected := c.nc.StatusChanged(nats.CONNECTED)
	defer c.nc.RemoveStatusListener(reconnected)
	for {
		var err error
		select {
		case msg := <-messages:
			err = f.take(ctx, msg)
		case <-reconnected:
			err = f.catchUp(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

type follower struct {
	c       *Client
	what    Following
	deliver func(wire.Notice) error
	subs    []*nats.Subscription
	last    ledger.Address // the last record delivered

	// The state when the history was last read. If it has changed, notices may
	// have been missed.
	mark       string
	reconnects uint64
	dropped    int
}

// begin reads the records since the follower was away.
func (f *follower) begin(ctx context.Context) error {
	// The subscriptions must exist before the history is read.
	if err := f.flush(ctx); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if f.last != (ledger.Address{}) {
		return f.catchUp(ctx)
	}
	answer, err := f.c.History(ctx, wire.HistoryQuery{Of: f.what.Of, Name: f.what.Name, Limit: 1, Brief: true})
	if err != nil {
		return err
	}
	f.last = ledger.Address{Sequence: answer.Sequence, Index: math.MaxInt32}
	return nil
}

// flushPause is the pause between tries while the connection is made again.
const flushPause = 10 * time.Millisecond

// flush waits until the server knows the subscriptions.
func (f *follower) flush(ctx context.Context) error {
	for {
		limited, cancel := context.WithTimeout(ctx, f.c.opts.TryTimeout)
		err := f.c.nc.FlushWithContext(limited)
		cancel()
		// nats.go reports a connection as closed if it was lost during the flush,
		// although nats.go makes it again, which may take longer than one try.
		lost := errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, context.DeadlineExceeded)
		if !lost || f.c.nc.IsClosed() {
			return err
		}
		select {
		case <-time.After(flushPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *follower) take(ctx context.Context, msg *nats.Msg) error {
	mark := msg.Header.Get(wire.HeaderNoticeMark)
	var entry wire.HistoryEntry
	if msg.Subject == wire.HeartbeatSubject {
		var beat wire.Heartbeat
		if err := json.Unmarshal(msg.Data, &beat); err != nil {
			return fmt.Errorf("client: a heartbeat that cannot be read: %w", err)
		}
		mark = beat.Mark
	} else if err := json.Unmarshal(msg.Data, &entry); err != nil {
		return fmt.Errorf("client: a notice that cannot be read: %w", err)
	}
	if f.missed(mark) {
		if err := f.catchUp(ctx); err != nil {
			return err
		}
		f.mark = mark
	}
	if entry.Address == "" {
		return nil
	}
	return f.pass(entry)
}

// missed reports whether notices may have been lost since the last look.
func (f *follower) missed(mark string) bool {
	dropped := 0
	for _, sub := range f.subs {
		if n, err := sub.Dropped(); err == nil {
			dropped += n
		}
	}
	reconnects := f.c.nc.Stats().Reconnects
	missed := mark != f.mark || reconnects != f.reconnects || dropped != f.dropped
	f.reconnects, f.dropped = reconnects, dropped
	return missed
}

// catchUp delivers from the history the records that were not delivered yet.
func (f *follower) catchUp(ctx context.Context) error {
	for {
		answer, err := f.c.History(ctx, wire.HistoryQuery{
			Of: f.what.Of, Name: f.what.Name, After: f.last.String(), Limit: catchUpPage, Brief: true,
		})
		if err != nil {
			return err
		}
		for _, entry := range answer.Result.Entries {
			if err := f.pass(entry); err != nil {
				return err
			}
		}
		if answer.Result.Next == "" {
			return nil
		}
	}
}

const catchUpPage = 500

// ErrDelivery is in every error of the function that gets notices.
var ErrDelivery = errors.New("client: the notice was not accepted")

// pass delivers an entry unless it was delivered before.
func (f *follower) pass(entry wire.HistoryEntry) error {
	address, err := ledger.ParseAddress(entry.Address)
	if err != nil {
		return fmt.Errorf("client: a notice that cannot be read: %w", err)
	}
	if address.Sequence < f.last.Sequence || address.Sequence == f.last.Sequence && address.Index <= f.last.Index {
		return nil
	}
	if err := f.deliver(wire.Notice{Address: address, HistoryEntry: entry}); err != nil {
		return fmt.Errorf("%w: %w", ErrDelivery, err)
	}
	f.last = address
	return nil
}
