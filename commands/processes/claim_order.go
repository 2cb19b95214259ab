package processes

import (
	"cmp"
	"container/heap"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/projector"
)

// inOrder tries claims in their order, as shares have them stand.
func inOrder(shares *shares, claims []*waitingClaim, grant func(*waitingClaim) (commands.Outcome, error)) error {
	line := &line{shares: shares}
	for _, one := range claims {
		line.list = append(line.list, inLine{one, shares.of(one)})
	}
	heap.Init(line)
	hopeless := make(map[string]bool)
	for line.Len() > 0 {
		first := heap.Pop(line).(inLine)
		if share := shares.of(first.waitingClaim); share > first.share { // its project was given something
			heap.Push(line, inLine{first.waitingClaim, share})
			continue
		}
		if first.shape != "" && hopeless[first.shape] {
			first.forRoom = !first.placed
			continue
		}
		outcome, err := grant(first.waitingClaim)
		if err != nil {
			return err
		}
		first.forRoom = false
		switch {
		case outcome.Rejection != nil && outcome.Rejection.Code == commands.CodeNoCandidates:
			hopeless[first.shape], first.forRoom = true, !first.placed
		case commands.Claimed(outcome.Events):
			shares.add(first.waitingClaim)
		}
	}
	return nil
}

// shares are what projects hold that have claims in line.
type shares struct {
	held   map[string]map[string]int64 // by project and class
	totals map[string]int64            // of all of these projects together, by class, when the round began
}

func sharesOf(view projector.View, claims []*waitingClaim) (*shares, error) {
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	s := &shares{held: make(map[string]map[string]int64), totals: make(map[string]int64)}
	for _, one := range claims {
		if s.held[one.Project] != nil {
			continue
		}
		held := make(map[string]int64)
		s.held[one.Project] = held
		usages, err := view.Usages(one.Project, "")
		if err != nil {
			return nil, err
		}
		for _, u := range usages {
			for _, a := range u.Amounts {
				name := classes.Name(a.Class)
				held[name] += a.Amount
				s.totals[name] += a.Amount
			}
		}
	}
	return s, nil
}

// of is how much the project holds of what a claim asks for: of each class its part of
// what all of these projects hold together, and of these the largest.
func (s *shares) of(one *waitingClaim) (share float64) {
	for class := range one.asks {
		share = max(share, float64(s.held[one.Project][class])/float64(max(1, s.totals[class])))
	}
	return share
}

func (s *shares) add(one *waitingClaim) {
	for class, amount := range one.asks {
		s.held[one.Project][class] += amount
	}
}

// line is a heap: the first is that which is tried next.
type line struct {
	shares *shares
	list   []inLine
}

type inLine struct {
	*waitingClaim
	share float64
}

func (l *line) Len() int { return len(l.list) }

func (l *line) Less(i, j int) bool {
	a, b := l.list[i], l.list[j]
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.share, b.share), cmp.Compare(a.Sequence, b.Sequence),
		a.UUID.Compare(b.UUID),
	) < 0
}

func (l *line) Swap(i, j int) { l.list[i], l.list[j] = l.list[j], l.list[i] }

func (l *line) Push(one any) { l.list = append(l.list, one.(inLine)) }

func (l *line) Pop() any {
	last := l.list[len(l.list)-1]
	l.list = l.list[:len(l.list)-1]
	return last
}
