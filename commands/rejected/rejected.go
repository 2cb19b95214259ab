// Package rejected keeps rejected commands, with the facts that the decisions
// rest on, within the bounds of their stream. They are not part of the log, so
// losing some changes nothing.
package rejected

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
)

// Entry is one rejected command as it is stored.
type Entry struct {
	Version   int             `json:"version"`
	Time      time.Time       `json:"time"`
	Actor     string          `json:"actor"`
	Command   string          `json:"command"`
	CommandID ledger.UUID     `json:"command_id"`
	RequestID string          `json:"request_id,omitempty"`
	Project   string          `json:"project,omitempty"` // the project that the client is bound to
	Body      json.RawMessage `json:"body"`              // the command itself
	// Place is the address that its record would have had. The command was
	// decided against everything before that address.
	Place     ledger.Address    `json:"place"`
	Rejection *demand.Rejection `json:"rejection"`
}

const entryVersion = 1

// Store keeps messages in order. It may drop the oldest.
type Store interface {
	Append(ctx context.Context, data []byte) error
	Newest(ctx context.Context, yield func([]byte) (more bool, err error)) error
}

// Bounds of the keeper.
const (
	// queueLength is how many rejections may wait to be stored. A rejection
	// counts once, and once more for each consumer in it. Further ones are
	// dropped and counted: a flood must cost the writer nothing, and little
	// memory.
	queueLength = 4096
	// pause is how long rejections are collected into one message, which has at
	// most maxEntries and maxBytes.
	pause         = 50 * time.Millisecond
	maxEntries    = 256
	maxBytes      = 512 << 10
	appendTimeout = 10 * time.Second
)

// Keeper puts rejected commands into the store.
type Keeper struct {
	store   Store
	ring    fair.Ring
	logger  *slog.Logger
	queue   chan commands.Rejected
	ending  context.Context // ends when the keeper is to stop
	end     context.CancelFunc
	idle    sync.WaitGroup
	waiting atomic.Int64 // by weight
	dropped atomic.Uint64
}

// Start starts a keeper for a store of so many bytes. It shares them out among clients, so
// that none pushes out what others were refused.
func Start(store Store, bytes int64, logger *slog.Logger) *Keeper {
	k := &Keeper{
		store: store, logger: logger, queue: make(chan commands.Rejected, queueLength),
		ring: fair.Ring{Size: int(bytes / 4 * 3)}, // the rest is what the store needs besides
	}
	k.ending, k.end = context.WithCancel(context.Background())
	k.idle.Go(k.run)
	return k
}

// Stop stores what waits, and stops.
func (k *Keeper) Stop() {
	k.end()
	k.idle.Wait()
}

// Keep takes a rejected command. It never blocks.
func (k *Keeper) Keep(r commands.Rejected) {
	weight := weightOf(r)
	if before := k.waiting.Add(weight) - weight; before > 0 && before+weight > queueLength {
		k.waiting.Add(-weight)
		k.dropped.Add(1)
		return
	}
	k.queue <- r // The queue has a place for it, because each entry there weighs 1 or more.
}

func weightOf(r commands.Rejected) int64 { return 1 + int64(len(commands.Consumers(r.Command))) }

// Dropped returns how many rejected commands were not stored.
func (k *Keeper) Dropped() uint64 { return k.dropped.Load() }

func (k *Keeper) run() {
	if err := k.recall(); err != nil && k.ending.Err() == nil {
		k.logger.Warn("what is kept of rejected commands cannot be read; clients' shares of it are counted anew", "error", err)
	}
	for {
		select {
		case r := <-k.queue:
			select {
			case <-time.After(pause):
			case <-k.ending.Done():
			}
			k.append(r)
		case <-k.ending.Done():
			for len(k.queue) > 0 {
				k.append(<-k.queue)
			}
			return
		}
	}
}

// recall counts what is kept already.
func (k *Keeper) recall() error {
	type entry struct {
		client string
		size   int
	}
	var kept []entry // the newest first
	ctx, cancel := context.WithTimeout(k.ending, appendTimeout)
	defer cancel()
	err := k.store.Newest(ctx, func(data []byte) (bool, error) {
		entries, err := decode(data)
		for _, one := range slices.Backward(entries) {
			kept = append(kept, entry{one.client(), one.size()})
		}
		return true, err
	})
	for _, one := range slices.Backward(kept) {
		k.ring.Add(one.client, one.size)
	}
	return err
}

// client is whose share of the store an entry takes.
func (e *Entry) client() string { return e.Actor + " of project " + e.Project }

// size is what an entry takes in the store, roughly.
func (e *Entry) size() int { return len(e.Body) + 512 }

// append stores a rejection and those that have come since, in one message.
func (k *Keeper) append(r commands.Rejected) {
	var entries []Entry
	size := 0
	for {
		entry, err := entryOf(r)
		k.waiting.Add(-weightOf(r))
		if err != nil {
			k.logger.Error("a rejected command could not be kept", "command", commands.NameOf(r.Command), "error", err)
			k.dropped.Add(1)
		} else if !k.ring.Add(entry.client(), entry.size()) {
			k.dropped.Add(1)
		} else {
			entries, size = append(entries, entry), size+len(entry.Body)
		}
		if len(entries) == maxEntries || size > maxBytes || len(k.queue) == 0 {
			break
		}
		r = <-k.queue
	}
	if len(entries) == 0 {
		return
	}
	data, err := ledger.PlainJSON(entries)
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), appendTimeout)
		err = k.store.Append(ctx, data)
		cancel()
	}
	if err != nil {
		k.logger.Warn("rejected commands could not be kept", "commands", len(entries), "error", err)
		k.dropped.Add(uint64(len(entries)))
	}
}

func entryOf(r commands.Rejected) (Entry, error) {
	masked, err := commands.Masked(r.Command)
	if err != nil {
		return Entry{}, err
	}
	body, err := ledger.PlainJSON(masked)
	return Entry{
		Version: entryVersion, Time: time.Unix(0, r.Time).UTC(), Actor: r.Actor, Command: commands.NameOf(r.Command),
		CommandID: r.ID,
		RequestID: r.RequestID, Project: r.Project, Body: body, Place: r.Place, Rejection: r.Rejection,
	}, err
}

// Filter selects entries. Empty fields do not filter.
type Filter struct {
	CommandID      ledger.UUID
	Actor, Command string
	Code           demand.Code
	Before         time.Time
	Since, Until   time.Time // inclusive
	// Project is the project that the client was bound to, or that the command is
	// about: it names the project as an owner, or a consumer that belonged to the
	// project at the command's place, as OwnerOf says.
	Project            string
	OwnerOf            func(consumer ledger.UUID, place ledger.Address) (project string, err error)
	Consumer, Provider ledger.UUID // named by the command or its rejection
}

func (f *Filter) picks(e *Entry) bool {
	return (f.CommandID.IsNil() || e.CommandID == f.CommandID) && (f.Actor == "" || e.Actor == f.Actor) &&
		(f.Command == "" || e.Command == f.Command) && (f.Code == "" || e.Rejection.Code == f.Code) &&
		(f.Before.IsZero() || e.Time.Before(f.Before)) &&
		(f.Since.IsZero() || !e.Time.Before(f.Since)) && (f.Until.IsZero() || !e.Time.After(f.Until))
}

// isAbout selects entries by the names in their commands.
func (f *Filter) isAbout(e *Entry) (bool, error) {
	if f.Project == "" && f.Consumer.IsNil() && f.Provider.IsNil() {
		return true, nil
	}
	names, err := namesIn(e)
	if err != nil {
		return false, err
	}
	if !f.Consumer.IsNil() && !slices.Contains(names.consumers, f.Consumer) ||
		!f.Provider.IsNil() && !slices.Contains(names.providers, f.Provider) {
		return false, nil
	}
	if f.Project == "" || e.Project == f.Project || slices.Contains(names.projects, f.Project) {
		return true, nil
	}
	for _, id := range names.consumers {
		if f.OwnerOf == nil {
			break
		}
		if owner, err := f.OwnerOf(id, e.Place); err != nil || owner == f.Project {
			return err == nil, err
		}
	}
	return false, nil
}

// names are the names in a command, in any of its parts.
type names struct {
	projects             []string
	consumers, providers []ledger.UUID
}

func namesIn(e *Entry) (*names, error) {
	var body any
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	n := &names{}
	n.add("", body)
	facts := &e.Rejection.Facts
	for _, id := range []*ledger.UUID{facts.Consumer, facts.Allocation} {
		if id != nil {
			n.consumers = append(n.consumers, *id)
		}
	}
	for _, id := range []*ledger.UUID{facts.Provider, facts.Node} {
		if id != nil {
			n.providers = append(n.providers, *id)
		}
	}
	return n, nil
}

func (n *names) add(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			n.add(name, one)
		}
	case []any:
		for _, one := range v {
			n.add(key, one)
		}
	case string:
		n.name(key, v)
	}
}

func (n *names) name(key, text string) {
	id, err := ledger.ParseUUID(text)
	switch {
	case key == "project" || key == "owner":
		n.projects = append(n.projects, text)
	case err != nil:
	case key == "consumer" || key == "allocation":
		n.consumers = append(n.consumers, id)
	case key == "provider" || key == "node" || key == "parent" || key == "candidate_nodes":
		n.providers = append(n.providers, id)
	}
}

// ErrDamaged means that a stored message cannot be read.
var ErrDamaged = errors.New("rejected: a kept message is damaged")

// List returns the entries that a filter selects, newest first, at most limit.
func List(ctx context.Context, store Store, f Filter, limit int) ([]Entry, error) {
	list := []Entry{}
	err := store.Newest(ctx, func(data []byte) (bool, error) {
		entries, err := decode(data)
		if err != nil {
			return false, err
		}
		for i := len(entries) - 1; i >= 0 && len(list) < limit; i-- {
			if !f.picks(&entries[i]) {
				continue
			}
			about, err := f.isAbout(&entries[i])
			if err != nil {
				return false, err
			}
			if about {
				list = append(list, entries[i])
			}
		}
		older := len(entries) > 0 && entries[len(entries)-1].Time.Before(f.Since)
		return len(list) < limit && !older, nil
	})
	return list, err
}

func decode(data []byte) ([]Entry, error) {
	var entries []Entry
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for i := range entries {
		if entries[i].Version != entryVersion || entries[i].Rejection == nil {
			return nil, fmt.Errorf("%w: version %d", ErrDamaged, entries[i].Version)
		}
	}
	return entries, nil
}
