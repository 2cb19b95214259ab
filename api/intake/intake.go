// Package intake bounds what the bodies of requests may take in memory, all of
// those under way together. A body is weighed while it arrives, by what it
// will take once it is decoded and not by its bytes: 16 MiB of "[1,1,..." are
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
	// MaxWeight is what one request may take: a reshape of 10,000 consumers
	// takes 40 MiB. It is also what one owner's requests may take together,
	// so that nobody can take all there is.
	MaxWeight = 48 << 20
	// MaxTotal is what all requests under way may take.
	MaxTotal = MaxWeight + 16<<20
	// smallWeight is let in whatever else is under way.
	smallWeight = 64 << 10
)

// Errors of Read.
var (
	// ErrTooLarge: the body has more bytes, or would take more memory, than
	// one request may.
	ErrTooLarge = errors.New("the body is too large")
	// ErrBusy: others, or the client itself, have too much under way.
	ErrBusy = errors.New("too many large requests are under way; try again")
)

// prices are what the parts of a JSON document take once decoded: a value is an
// interface, a number or string, and its place in a list or map, of which there
// may be two while the document is validated. A byte is in the body, and in the
// strings that are copied out of it.
var prices = document.Prices{Byte: 3, Object: 448, Array: 96, Element: 256, Pair: 256, Most: MaxWeight}

// Pool is what all requests under way may take. The zero Pool is ready.
type Pool struct {
	// Heavy is told when much is taken, and when no longer; nil: nobody is.
	Heavy func(bool)

	mu    sync.Mutex
	total int64            // guarded by mu
	owned map[string]int64 // by owner; guarded by mu
}

// Lease is what one request has taken. It is for one goroutine.
type Lease struct {
	pool  *Pool
	owner string
	held  int64
}

// New is a lease for an owner, to be ended by the caller. Without a pool it
// has one of its own.
func (p *Pool) New(owner string) *Lease {
	if p == nil {
		p = new(Pool)
	}
	return &Lease{pool: p, owner: owner}
}

// Grow takes as much as is missing to a weight.
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

// heavyTotal is what much is.
const heavyTotal = 2 << 20

// change books what an owner takes or gives back; mu is held.
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

// End gives back what was taken, if anything was.
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
// announced a length, which is -1 if it is not known.
//
// There is room for what has arrived and was weighed, and never for what was
// only announced: room for large bodies that are refused at their first bytes
// is garbage of many times what the lease says.
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

// weigh takes room for the next piece of a body.
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
