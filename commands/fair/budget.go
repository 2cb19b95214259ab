package fair

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What one client may add to the log, in bytes. A service of a large cloud adds some
// 300 KB in a second.
const (
	LogPerSecond = 2 << 20
	LogAtOnce    = 32 << 20
	LogPerDay    = 16 << 30
)

// ErrBudget means that a client has added as much to the log as it may.
var ErrBudget = errors.New("this client has written as much to the log as it may in a while; try again later, or have it load in bulk")

// Budget is what clients may add to the log, which keeps it for ever. It is known only
// afterwards how much a command adds, so a client may go beyond it by what it has under
// way, and waits longer for that.
type Budget struct {
	mu     sync.Mutex
	of     map[string]*spending // guarded by mu
	pruned time.Time            // when clients were last forgotten; guarded by mu
}

// spending is what one client has left.
type spending struct{ second, day *rate.Limiter }

const day = 24 * time.Hour

// isWhole reports whether the client has spent nothing, or has it back.
func (s *spending) isWhole(now time.Time) bool {
	return s.second.TokensAt(now) >= LogAtOnce && s.day.TokensAt(now) >= LogPerDay
}

// May reports whether a client may add more to the log now.
func (b *Budget) May(client string, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.of[client]; s != nil && (s.second.TokensAt(now) <= 0 || s.day.TokensAt(now) <= 0) {
		return ErrBudget
	}
	return nil
}

// Spend books what a client has added to the log.
func (b *Budget) Spend(client string, bytes int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(now)
	s := b.of[client]
	if s == nil {
		s = &spending{
			second: rate.NewLimiter(LogPerSecond, LogAtOnce),
			day:    rate.NewLimiter(rate.Limit(LogPerDay/day.Seconds()), LogPerDay),
		}
		b.of[client] = s
	}
	s.second.ReserveN(now, min(bytes, LogAtOnce))
	s.day.ReserveN(now, min(bytes, LogPerDay))
}

// forget forgets clients that have their whole budget, now and then; mu is held.
func (b *Budget) forget(now time.Time) {
	if b.of == nil {
		b.of = make(map[string]*spending)
	}
	if now.Sub(b.pruned) < time.Minute {
		return
	}
	b.pruned = now
	for client, s := range b.of {
		if s.isWhole(now) {
			delete(b.of, client)
		}
	}
}

const (
	// linesAtOnce and linesEvery bound what clients have a server write to its log: so
	// many lines at once, and one more each time.
	linesAtOnce = 20
	linesEvery  = time.Second
	// longestLine is how many bytes of such a line are written. Subjects are in it.
	longestLine = 512
)

// FewLines keeps clients from filling a log with what they do wrong. The zero value is
// not useful.
type FewLines struct {
	pace *rate.Limiter
	left atomic.Int64
}

// NewFewLines returns FewLines of which none were used.
func NewFewLines() *FewLines {
	return &FewLines{pace: rate.NewLimiter(rate.Every(linesEvery), linesAtOnce)}
}

// Next reports whether a line may be written now, and how many were left out before it.
func (f *FewLines) Next() (leftOut int64, may bool) {
	if !f.pace.Allow() {
		f.left.Add(1)
		return 0, false
	}
	return f.left.Swap(0), true
}

// Shortened returns so much of a line about a client as is written.
func Shortened(line string) string {
	if len(line) <= longestLine {
		return line
	}
	return line[:longestLine] + "..."
}
