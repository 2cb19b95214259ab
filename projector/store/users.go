package store

import (
	"math"
	"sync"
	"sync/atomic"
)

// users counts the readers and writers of read models, so that these are not
// closed while they are in use.
type users struct {
	n    atomic.Int64 // negative: no user may enter any more
	gone chan struct{}
	once sync.Once
}

const leaving = math.MinInt64

func newUsers() *users { return &users{gone: make(chan struct{})} }

// enter reports whether the read models can still be used. After true the caller
// must leave.
func (u *users) enter() bool {
	if u.n.Add(1) > 0 {
		return true
	}
	u.leave()
	return false
}

func (u *users) leave() {
	if u.n.Add(-1) == leaving {
		u.once.Do(func() { close(u.gone) })
	}
}

// close lets no user enter any more. It returns a channel that is closed when all have
// left.
func (u *users) close() <-chan struct{} {
	if u.n.Load() >= 0 && u.n.Add(leaving) == leaving {
		u.once.Do(func() { close(u.gone) })
	}
	return u.gone
}
