// Package memlog keeps a ledger.Log in memory and injects faults into it, for
// tests with a log that is slow, contended or uncertain.
package memlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/allot-project/allot/ledger"
)

// Fault is the outcome of one append.
type Fault int

// The outcomes of an append.
const (
	None       Fault = iota
	Conflict         // refused, as if another writer had been first
	LostAck          // stored, but the answer is lost
	LostAppend       // not stored, and the answer is lost
)

// Log is a ledger.Log in memory.
type Log struct {
	mu      sync.Mutex
	entries [][]byte // guarded by mu

	// Decide, if set, chooses the outcome of each append, under the log's lock.
	Decide func(sequence uint64) Fault
	// Gate, if set, holds each append back until it returns.
	Gate func()
	// Away, if set, says why the log cannot be read up to a sequence, or its end, as 0, not be known.
	Away func(ctx context.Context, to uint64) error
	// MaxBytes is the size of the largest commit; 0: 1 MiB.
	MaxBytes int
}

var _ ledger.Log = (*Log)(nil)

// Of is a log of entries, whatever they are.
func Of(entries [][]byte) *Log { return &Log{entries: slices.Clone(entries)} }

// ErrInjected is the cause of an injected unknown fate.
var ErrInjected = errors.New("memlog: injected fault")

// MaxCommitBytes implements ledger.Log.
func (l *Log) MaxCommitBytes() int {
	if l.MaxBytes == 0 {
		return 1 << 20
	}
	return l.MaxBytes
}

// Append implements ledger.Log. Appends are stored in the order of the calls.
func (l *Log) Append(sequence uint64, encoded []byte, done func(error)) {
	err := l.append(sequence, encoded)
	go func() {
		if l.Gate != nil {
			l.Gate()
		}
		done(err)
	}()
}

func (l *Log) append(sequence uint64, encoded []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(encoded) > l.MaxCommitBytes() {
		return ledger.ErrTooLarge
	}
	if sequence != l.last()+1 {
		return ledger.ErrConflict
	}
	fault := None
	if l.Decide != nil {
		fault = l.Decide(sequence)
	}
	switch fault {
	case Conflict:
		return ledger.ErrConflict
	case LostAppend:
		return fmt.Errorf("%w: %w", ledger.ErrUnknownFate, ErrInjected)
	}
	l.entries = append(l.entries, append([]byte(nil), encoded...))
	if fault == LostAck {
		return fmt.Errorf("%w: %w", ledger.ErrUnknownFate, ErrInjected)
	}
	return nil
}

// Last implements ledger.Log.
func (l *Log) Last(ctx context.Context) (uint64, error) {
	if err := l.away(ctx, 0); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last(), nil
}

func (l *Log) away(ctx context.Context, to uint64) error {
	if l.Away == nil {
		return nil
	}
	return l.Away(ctx, to)
}

// last returns the last sequence. The caller holds mu.
func (l *Log) last() uint64 { return uint64(len(l.entries)) }

// Read implements ledger.Log.
func (l *Log) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if err := l.away(ctx, to); err != nil {
		return err
	}
	for sequence := from; sequence <= to; sequence++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := l.entry(sequence)
		if err != nil {
			return err
		}
		if err := yield(ledger.Entry{Sequence: sequence, Data: data}); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) entry(sequence uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence == 0 || sequence > l.last() {
		return nil, fmt.Errorf("%w: no sequence %d", ledger.ErrLogBehind, sequence)
	}
	return l.entries[sequence-1], nil
}

// Edit lets a test damage the stored entries.
func (l *Log) Edit(edit func(entries [][]byte) [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = edit(l.entries)
}
