package projector

import (
	"math"
	"sync"
	"sync/atomic"
)

// users counts those who are reading or writing read models, so that these are
// closed under nobody.
type users struct {
	n    atomic.Int64 // negative: nobody else may come
	gone chan struct{}
	once sync.Once
}

const leaving = math.MinInt64

func newUsers() *users { return &users{gone: make(chan struct{})} }

// enter reports whether there is still something to use. Whoever enters must
// leave.
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

// close lets nobody in any more. What it returns is closed when all have left.
func (u *users) close() <-chan struct{} {
	if u.n.Load() >= 0 && u.n.Add(leaving) == leaving {
		u.once.Do(func() { close(u.gone) })
	}
	return u.gone
}
