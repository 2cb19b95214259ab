// Package fair shares out what clients may take of a server: how many requests they
// have under way, places for work, memory, bytes of the log and of the record of
// rejected commands. Each client has one account, and clients take turns, so a client
// that asks for much delays only itself. Whatever may wait for a lock takes its place
// first, and waiting for a place ends with the request.
package fair

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// Bounds of requests under way. Further ones are refused at once.
const (
	// MaxRequests are those of all clients, and MaxRequestsEach those of one.
	MaxRequests     = 4096
	MaxRequestsEach = 512
)

// Bounds of memory, in estimated bytes.
const (
	// MaxWeight is what one request may take, and all requests of one client together: a
	// reshape of 10,000 consumers takes 40 MiB.
	MaxWeight = 48 << 20
	// MaxTotal is what all requests under way may take together.
	MaxTotal = MaxWeight + 16<<20
	// small is what a request may take although others have taken everything, until all
	// of that has taken smallTotal more.
	small      = 64 << 10
	smallTotal = 32 << 20
)

// ErrBusy means that this client, or all clients together, have too much under way.
var ErrBusy = errors.New("too many requests are under way; try again")

// Pool is what a server has for its clients.
type Pool struct {
	short, long *places

	mu       sync.Mutex
	accounts map[string]*account // of clients that have something; guarded by mu
	requests int                 // of all; guarded by mu
	memory   int64               // of all; guarded by mu
}

// account is what one client has taken. It is guarded by the pool's mu.
type account struct {
	requests int
	memory   int64
}

// NewPool returns a pool with places for the processors that there are: some are left
// to what takes none.
func NewPool() *Pool {
	half := runtime.GOMAXPROCS(0) / 2
	return NewPoolOf(max(half, 2), max(half, 1))
}

// NewPoolOf returns a pool with so many places for work that pauses or takes
// milliseconds, and for work that may take seconds.
func NewPoolOf(short, long int) *Pool {
	return &Pool{short: newPlaces(short), long: newPlaces(long), accounts: make(map[string]*account)}
}

// orOwn returns a pool for one request alone where there is none.
func (p *Pool) orOwn() *Pool {
	if p == nil {
		return NewPool()
	}
	return p
}

// Enter counts a request of a client until leave is called. It never waits.
func (p *Pool) Enter(client string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.requests >= MaxRequests || p.of(client).requests >= MaxRequestsEach {
		p.forget(client)
		return nil, ErrBusy
	}
	p.change(client, 1, 0)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.change(client, -1, 0)
	}, nil
}

// Requests returns how many requests are under way.
func (p *Pool) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// Begin begins a piece of work of a client, which calls Pause now and then. It needs no
// place at first. The caller ends it.
func (p *Pool) Begin(client string) *Work { return p.orOwn().short.begin(client) }

// Short waits for a place for work that takes milliseconds, or calls Pause now and then.
// The caller ends it.
func (p *Pool) Short(ctx context.Context, client string) (*Work, error) {
	return p.orOwn().short.place(ctx, client)
}

// Long waits for a place for work that reads much, or the past. The caller ends it.
func (p *Pool) Long(ctx context.Context, client string) (*Work, error) {
	return p.orOwn().long.place(ctx, client)
}

// Lease is the memory that one request has taken. It is for one goroutine at a time.
type Lease struct {
	pool   *Pool
	client string
	held   int64
}

// Lease returns a lease of a client that has nothing yet. The caller ends it.
func (p *Pool) Lease(client string) *Lease { return &Lease{pool: p.orOwn(), client: client} }

// Short is Pool.Short for the client of the lease.
func (l *Lease) Short(ctx context.Context) (*Work, error) { return l.pool.Short(ctx, l.client) }

// Grow raises the lease to a weight. It fails with ErrBusy. Without a lease all is granted.
func (l *Lease) Grow(weight int64) error {
	if l == nil {
		return nil
	}
	more := weight - l.held
	if more <= 0 {
		return nil
	}
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	total, each := int64(MaxTotal), int64(MaxWeight)
	if weight <= small {
		total, each = total+smallTotal, each+smallTotal/2
	}
	if p.memory+more > total || p.of(l.client).memory+more > each {
		p.forget(l.client)
		return ErrBusy
	}
	p.change(l.client, 0, more)
	l.held = weight
	return nil
}

// End returns what was taken.
func (l *Lease) End() {
	if l == nil || l.held == 0 {
		return
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.change(l.client, 0, -l.held)
	l.held = 0
}

// Memory returns how much is taken, in bytes.
func (p *Pool) Memory() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
}

// of returns the account of a client; mu is held.
func (p *Pool) of(client string) *account {
	one := p.accounts[client]
	if one == nil {
		one = &account{}
		p.accounts[client] = one
	}
	return one
}

// change books what a client takes or returns; mu is held.
func (p *Pool) change(client string, requests int, memory int64) {
	one := p.of(client)
	one.requests, one.memory = one.requests+requests, one.memory+memory
	p.requests, p.memory = p.requests+requests, p.memory+memory
	p.forget(client)
}

// forget forgets an account with nothing in it; mu is held.
func (p *Pool) forget(client string) {
	if one := p.accounts[client]; one != nil && *one == (account{}) {
		delete(p.accounts, client)
	}
}
