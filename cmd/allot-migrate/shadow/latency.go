package shadow

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Latency is how long both sides took for one kind of request.
type Latency struct {
	Request   string `json:"request"` // method and route
	Placement Times  `json:"placement"`
	Allot     Times  `json:"allot"`
}

// Times are those of one side's answers, in milliseconds, a fifth too high at most.
type Times struct {
	Answers uint64  `json:"answers"`
	Median  float64 `json:"median_ms"`
	P99     float64 `json:"p99_ms"`
}

// latencies count answers by the time that they took: each step of times is a fifth longer
// than the one before.
type latencies struct {
	steps [96]uint64
	total uint64
}

const (
	firstStep  = 20 * time.Microsecond
	stepFactor = 1.2
)

func (l *latencies) add(took time.Duration) {
	step := 0
	if took > firstStep {
		step = int(math.Ceil(math.Log(float64(took)/float64(firstStep)) / math.Log(stepFactor)))
	}
	l.steps[min(step, len(l.steps)-1)]++
	l.total++
}

// quantile returns the end of the step in which a share of the answers has come.
func (l *latencies) quantile(share float64) float64 {
	if l.total == 0 {
		return 0
	}
	left := uint64(math.Ceil(share * float64(l.total)))
	for step, answers := range l.steps {
		if answers >= left {
			ms := float64(firstStep) / float64(time.Millisecond) * math.Pow(stepFactor, float64(step))
			return math.Round(ms*1000) / 1000
		}
		left -= answers
	}
	return 0
}

func (l *latencies) times() Times { return Times{l.total, l.quantile(0.5), l.quantile(0.99)} }

// took notes how long a side took for a kind of request.
func (w *watch) took(of Side, request string, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latencies == nil {
		w.latencies = make(map[string]*[2]latencies)
	}
	both := w.latencies[request]
	if both == nil {
		if len(w.latencies) >= mostKept {
			return // methods are the client's, and may be any
		}
		both = new([2]latencies)
		w.latencies[request] = both
	}
	both[of].add(took)
}

func latenciesOf(all map[string]*[2]latencies) []Latency {
	list := make([]Latency, 0, len(all))
	for request, both := range all {
		list = append(list, Latency{request, both[Placement].times(), both[Allot].times()})
	}
	slices.SortFunc(list, func(a, b Latency) int { return strings.Compare(a.Request, b.Request) })
	return list
}
