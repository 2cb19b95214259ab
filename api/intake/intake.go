// Package intake bounds the memory that the bodies of all requests under way take
// together. A body's weight, the memory that it will take once decoded, is
// estimated while it arrives. Its length would not do: 16 MiB of "[1,1,..." are
// eight million values.
package intake

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/allot-project/allot/commands/document"
)

// Bounds, in estimated bytes of memory.
const (
	// MaxWeight is what one request may take: a reshape of 10,000 consumers takes
	// 40 MiB. It is also what the requests of one owner may take together, so
	// that nobody can take everything.
	MaxWeight = 48 << 20
	// MaxTotal is what all requests under way may take together.
	MaxTotal = MaxWeight + 16<<20
	// smallWeight is always let in, whatever else is under way.
	smallWeight = 64 << 10
)

// Errors of Read.
var (
	// ErrTooLarge means that the body has more bytes, or would take more memory,
	// than one request may.
	ErrTooLarge = errors.New("the body is too large")
	// ErrBusy means that others, or the client itself, have too much under way.
	ErrBusy = errors.New("too many large requests are under way; try again")
)

// prices are the costs of the parts of a decoded JSON document, in bytes. A value
// costs an interface, a number or string, and its place in a list or map, of
// which there may be two while the document is validated. A byte of the body
// costs itself, and its copy in a string.
var prices = document.Prices{Byte: 3, Object: 448, Array: 96, Element: 256, Pair: 256, Most: MaxWeight}

// Pool is the memory that all requests under way may take. The zero Pool is
// ready.
type Pool struct {
	// Heavy is called when much memory is taken, and when no longer; it may be
	// nil.
	Heavy func(bool)

	mu    sync.Mutex
	total int64            // guarded by mu
	owned map[string]int64 // by owner; guarded by mu
}

// Lease is the memory that one request has taken. It is for one goroutine.
type Lease struct {
	pool  *Pool
	owner string
	held  int64
}

// New returns a lease for an owner. The caller ends it. Without a pool the lease
// gets one of its own.
func (p *Pool) New(owner string) *Lease {
	if p == nil {
		p = new(Pool)
	}
	return &Lease{pool: p, owner: owner}
}

// Grow raises the lease to a weight.
func (l *Lease) Grow(weight int64) error {
	if weight <= l.held {
		return nil
	}
	if weight > MaxWeight {
		return fmt.Errorf("%w: it would take more than %d MiB of memory", ErrTooLarge, MaxWeight>>20)
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	more := weight - l.held
	if weight > smallWeight && (l.pool.total+more > MaxTotal || l.pool.owned[l.owner]+more > MaxWeight) {
		return ErrBusy
	}
	if l.pool.owned == nil {
		l.pool.owned = make(map[string]int64)
	}
	l.pool.change(l.owner, more)
	l.held = weight
	return nil
}

// heavyTotal is the amount from which on much memory is taken.
const heavyTotal = 2 << 20

// change books what an owner takes or returns; mu is held.
func (p *Pool) change(owner string, by int64) {
	wasHeavy := p.total > heavyTotal
	p.total += by
	if p.owned[owner] += by; p.owned[owner] <= 0 {
		delete(p.owned, owner)
	}
	if isHeavy := p.total > heavyTotal; isHeavy != wasHeavy && p.Heavy != nil {
		p.Heavy(isHeavy)
	}
}

// End returns what was taken.
func (l *Lease) End() {
	if l == nil || l.held == 0 {
		return
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.change(l.owner, -l.held)
	l.held = 0
}

// Read reads a JSON body of at most limit bytes within a lease. The client
// announced a length, which is -1 if it is unknown.
//
// Memory is reserved for what has arrived and was weighed, never for what was
// only announced. Otherwise large bodies that are refused at their first bytes
// would leave garbage of many times the size of the lease.
func (l *Lease) Read(from io.Reader, announced, limit int64) ([]byte, error) {
	if announced > limit {
		return nil, tooLong(limit)
	}
	if err := l.Grow(announced * int64(prices.Byte)); err != nil {
		return nil, err
	}
	var arrived pieces
	defer arrived.free()
	scale := document.Scale{Prices: prices}
	for length := int64(0); ; {
		room := arrived.room(announced)
		n, err := from.Read(room)
		arrived.fill(n)
		if length += int64(n); length > limit {
			return nil, tooLong(limit)
		}
		if err := l.weigh(&scale, room[:n]); err != nil {
			return nil, err
		}
		if errors.Is(err, io.EOF) {
			return arrived.joined(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("the body could not be read: %w", err)
		}
	}
}

func tooLong(limit int64) error {
	return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)
}

// weigh reserves memory for the next piece of a body.
func (l *Lease) weigh(scale *document.Scale, piece []byte) error {
	weight, err := scale.Add(piece)
	switch {
	case errors.Is(err, document.ErrTooHeavy):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return err
	}
	return l.Grow(int64(weight))
}
