package fair

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

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
