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
	entries [][]byte // after those that were dropped; guarded by mu
	dropped uint64   // entries; guarded by mu
	sealed  []uint64 // the last sequence of each sealed piece; guarded by mu

	// Decide, if set, chooses the outcome of each append, under the log's lock.
	Decide func(sequence uint64) Fault
	// Gate, if set, holds each append back until it returns.
	Gate func()
	// MaxBytes is the size of the largest commit; 0: 1 MiB.
	MaxBytes int
}

var _ ledger.Log = (*Log)(nil)

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
func (l *Log) Last(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last(), nil
}

// last returns the last sequence. The caller holds mu.
func (l *Log) last() uint64 { return l.dropped + uint64(len(l.entries)) }

// First returns the first sequence that was not dropped.
func (l *Log) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped + 1
}

// Roll seals what the log holds since it was last sealed.
func (l *Log) Roll(_ context.Context, known ledger.Head) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.sealed); known.Sequence > l.last() || n > 0 && l.sealed[n-1] >= known.Sequence {
		return fmt.Errorf("memlog: commit %d cannot be sealed", known.Sequence)
	}
	l.sealed = append(l.sealed, l.last())
	return nil
}

// Sealed returns the last sequence of each sealed piece that was not dropped.
func (l *Log) Sealed() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sealed)
}

// Drop drops the oldest sealed piece.
func (l *Log) Drop(_ context.Context, last uint64) error {
	l.mu.Lock()
	if len(l.sealed) == 0 || l.sealed[0] != last {
		l.mu.Unlock()
		return fmt.Errorf("memlog: no oldest piece ends with sequence %d", last)
	}
	l.sealed = l.sealed[1:]
	l.mu.Unlock()
	l.Forget(last + 1)
	return nil
}

// Forget drops the entries before a sequence, as if they had left for an archive.
func (l *Log) Forget(before uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.dropped+1 < before && len(l.entries) > 0 {
		l.entries = l.entries[1:]
		l.dropped++
	}
}

// Read implements ledger.Log.
func (l *Log) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
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
	switch {
	case sequence <= l.dropped:
		return nil, fmt.Errorf("%w: sequence %d was dropped", ledger.ErrLogGap, sequence)
	case sequence > l.last():
		return nil, fmt.Errorf("%w: no sequence %d", ledger.ErrLogBehind, sequence)
	}
	return l.entries[sequence-l.dropped-1], nil
}

// Edit lets a test damage the stored entries.
func (l *Log) Edit(edit func(entries [][]byte) [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = edit(l.entries)
}
