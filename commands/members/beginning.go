package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
)

// A server that is told to begin a ledger (allot init) has no log, as has one that lost
// it: init may have been run on a new disk of a server that is known. So it begins with
// JetStream off, too, can neither vote nor hold a replica, and asks all other servers of
// the cluster, not most of them, what they know. It begins a ledger only when each has
// said that it knows of none, or has lost its log and knows no commit that the ledger does
// not begin with (allot cluster heal), and was not told to begin one itself; and it is refused
// when one of them has another. A server that does not answer may be the one that knows.

// knownSubject is where servers ask each other for what they know of the ledger.
const knownSubject = "allot.cluster.known"

// Known is what a server knows of the ledger.
type Known struct {
	Name string `json:"name"`
	// Ledger is the id; nil: it does not know it.
	Ledger ledger.UUID `json:"ledger"`
	// Commits: it has some, or has seen some.
	Commits bool `json:"commits,omitempty"`
	// Lost: it had a log, and has none now. Sequence is the newest commit that it has seen.
	Lost     bool   `json:"lost,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
	// Begins is the ledger that it was told to begin; nil: it was not.
	Begins ledger.UUID `json:"begins"`
	// With is the last commit that the ledger begins with; 0: it begins with none.
	With uint64 `json:"with,omitempty"`
	// Part: it has a part of the log, which may be empty.
	Part bool `json:"part,omitempty"`
}

// Why a ledger does not begin.
var (
	// ErrOtherLedger: the other servers have one.
	ErrOtherLedger = errors.New("the other servers have a ledger already")
	// ErrTwoBegin: another server was told to begin one, too.
	ErrTwoBegin = errors.New("another server was told to begin a ledger, too")
)

// TellKnown tells the other servers what this one knows, until stop is called.
func TellKnown(nc *nats.Conn, now func() Known) (stop func(), err error) {
	return tell(nc, knownSubject, func() any { return now() })
}

// Waiting tells why a server waits, and finds out whether that is in vain.
type Waiting struct {
	// Check says why it is in vain, or nil.
	Check func() error
	// Tell is told what is waited for, each time.
	Tell func(why string)
}

// AwaitBeginning returns when a server may begin the ledger that it was told to,
// because none of so many others knows of one. It reports whether that ledger
// has begun already, or may have and this server has its part of it. The connection
// is over a NATS server without JetStream.
func AwaitBeginning(ctx context.Context, nc *nats.Conn, own Known, others int, w Waiting) (begun bool, err error) {
	for {
		begun, why, err := mayBegin(ctx, nc, own, others)
		if err != nil || why == "" {
			return begun, err
		}
		if err := w.Check(); err != nil {
			return false, err
		}
		w.Tell(why)
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return false, fmt.Errorf("told to stop while asking the other servers for their ledger: %w", ctx.Err())
		}
	}
}

// mayBegin asks all others once; why not, if it may be otherwise later.
func mayBegin(ctx context.Context, nc *nats.Conn, own Known, others int) (begun bool, why string, err error) {
	answers, err := askKnown(ctx, nc, own.Name, others)
	if err != nil {
		return false, "", err
	}
	var names, unsure []string
	for name, known := range answers {
		names = append(names, name)
		switch {
		case known.Ledger == own.Begins:
			return true, "", nil
		case !known.Ledger.IsNil():
			return false, "", fmt.Errorf("%w: %s has the ledger %s", ErrOtherLedger, name, known.Ledger)
		case !known.Begins.IsNil():
			return false, "", fmt.Errorf("%w: %s the ledger %s", ErrTwoBegin, name, known.Begins)
		case known.Commits && (!known.Lost || known.Sequence > own.With):
			if own.Part {
				return true, "", nil // it takes both for a leader, who knows
			}
			unsure = append(unsure, name)
		}
	}
	slices.Sort(names)
	slices.Sort(unsure)
	switch {
	case len(unsure) > 0:
		why = fmt.Sprintf("%s has commits, and does not know yet of which ledger; this one begins with %d commits",
			strings.Join(unsure, " and "), own.With)
	case len(answers) < others:
		why = fmt.Sprintf("%d of %d other servers answer: %s", len(answers), others, strings.Join(names, ", "))
	}
	return false, why, nil
}

// askKnown is what other servers answer, by name.
func askKnown(ctx context.Context, nc *nats.Conn, own string, others int) (map[string]Known, error) {
	answers := make(map[string]Known)
	if others == 0 {
		return answers, nil
	}
	err := hear(ctx, nc, knownSubject, func(k Known) bool {
		if k.Name != "" && k.Name != own {
			answers[k.Name] = k
		}
		return len(answers) == others
	})
	return answers, err
}
