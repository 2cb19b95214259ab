package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// Following says what a follower wants to be told.
type Following struct {
	Of   string // a subject of histories, such as wire.OfProvider
	Name string // its uuid, or the id of a project or user
	// After is the last record that the follower has dealt with, perhaps in
	// an earlier life. Zero: only what happens from now on.
	After ledger.Address
}

// pendingNotices is how many notices wait for a follower that is busy. More
// are dropped, and then read from the history.
const pendingNotices = 64 << 10

// Follow calls deliver for every record that touches what is followed: each
// once, in the order of the log, without a gap, whatever happens to the
// connection or the server meanwhile. It returns when the context ends, or
// with the first error of deliver. To go on later without a gap or a
// duplicate, keep the address of the last notice.
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

// follower is one call of Follow.
type follower struct {
	c       *Client
	what    Following
	deliver func(wire.Notice) error
	subs    []*nats.Subscription
	last    ledger.Address // delivered last

	// What was so when the history was read last: if it is so no more,
	// something may have been missed.
	mark       string
	reconnects uint64
	dropped    int
}

// begin reads what happened since the follower was away.
func (f *follower) begin(ctx context.Context) error {
	// The subscriptions must be there before the history is read.
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

// flushPause lies between tries while the connection is made again.
const flushPause = 10 * time.Millisecond

// flush waits until the server knows the subscriptions.
func (f *follower) flush(ctx context.Context) error {
	for {
		limited, cancel := context.WithTimeout(ctx, f.c.opts.TryTimeout)
		err := f.c.nc.FlushWithContext(limited)
		cancel()
		// nats.go calls a connection closed that was lost while it waited, and that it makes again.
		if !errors.Is(err, nats.ErrConnectionClosed) || f.c.nc.IsClosed() {
			return err
		}
		select {
		case <-time.After(flushPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take deals with one message.
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

// missed reports whether something may have got lost since the last look.
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

// catchUp delivers from the history what was not delivered yet.
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

// ErrDelivery wraps an error of the function that notices are delivered to.
var ErrDelivery = errors.New("client: the notice was not taken")

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
