package candidates

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// pruning is what a selection knows of the members under the present anchor. Choices are
// given up that can only lead to candidates which are not among the best, and with
// Preference.Once those that differ from earlier ones only in which of like providers
// serves which of like groups.
type pruning struct {
	root  *ledger.Provider
	from  distance
	value [][]float64     // per weight and member: the free share; NaN: none
	worth [][]bool        // per soft preference and member: whether it has it
	alike []uint32        // per member: the same number for like ones
	seen  map[string]bool // choices, by what they leave
	// What left needs: members, what is known of them, and the key.
	marked []int
	marks  []byte
	parts  [][]byte
	key    []byte
}

// begin looks at the members of an anchor, when the first choices of it are made.
func (s *selection) begin() {
	members := s.search.gather()
	p := &pruning{root: s.search.root, seen: make(map[string]bool)}
	if len(s.plan.guests) == 0 { // otherwise a candidate may be of another tree
		p.from = distanceOf(s.pref, s.point, p.root.UUID)
	}
	for _, w := range s.pref.Weights {
		var list []float64
		for i := range members {
			share := math.NaN()
			if inv, has := members[i].p.Inventory(w.Class); has {
				share = freeShare(inv)
			}
			list = append(list, share)
		}
		p.value = append(p.value, list)
	}
	s.eachSoft(func(_ float64, has func(*ledger.Provider) bool) {
		var list []bool
		for i := range members {
			list = append(list, has(members[i].p))
		}
		p.worth = append(p.worth, list)
	})
	s.pruning = p
	known := make(map[string]uint32)
	for i := range members {
		key := s.likeness(&members[i], i)
		number, is := known[key]
		if !is {
			number = uint32(len(known))
			known[key] = number
		}
		p.alike = append(p.alike, number)
	}
}

// eachSoft calls yield for what is preferred beside free shares, in the order in which
// scores are summed.
func (s *selection) eachSoft(yield func(weight float64, has func(*ledger.Provider) bool)) {
	for _, t := range s.pref.Traits {
		yield(t.Weight, func(p *ledger.Provider) bool { return p.HasTrait(t.Trait) })
	}
	for _, a := range s.pref.Aggregates {
		yield(a.Weight, func(p *ledger.Provider) bool { return slices.Contains(p.Aggregates, a.Aggregate) })
	}
	for i, set := range s.near {
		weight := 0.0
		if s.pref.Near[i].Rule == PreferNear {
			weight = s.pref.Near[i].Weight
		}
		yield(weight, func(p *ledger.Provider) bool { return set != nil && s.anyOf(set, []*ledger.Provider{p}) })
	}
}

// likeness is everything that may make a difference between members.
func (s *selection) likeness(m *member, i int) string {
	p := s.pruning
	key := binary.BigEndian.AppendUint64(nil, m.serves)
	for _, room := range m.room {
		key = binary.BigEndian.AppendUint64(key, uint64(room))
	}
	for w := range p.value {
		key = binary.BigEndian.AppendUint64(key, math.Float64bits(p.value[w][i]))
	}
	for _, list := range p.worth {
		key = appendBool(key, list[i])
	}
	for _, anyOf := range s.plan.required {
		key = appendBool(key, hasAny(m.p, anyOf))
	}
	parent := slices.ContainsFunc(s.search.members, func(other member) bool {
		return other.p.Parent == m.p.UUID && len(s.req.SameSubtree) > 0
	})
	itself := parent || m.p.Root != p.root.UUID || s.pref.Accept != nil && s.pref.Apart
	if key = appendBool(key, itself); itself {
		return string(append(key, m.p.UUID[:]...))
	}
	if len(s.req.SameSubtree) > 0 || len(m.p.Draws) > 0 {
		key = append(key, m.p.Parent[:]...)
	}
	for _, d := range m.p.Draws {
		key = fmt.Appendf(key, "%d %q %d %q", d.Class, d.Counter, d.Amount, d.Mode)
	}
	if s.pref.Accept != nil || s.pref.Fits != nil {
		key = appendBool(key, m.p.HasTrait(SharingTrait))
		for _, id := range m.p.Aggregates {
			key = append(key, id[:]...)
		}
	}
	return string(key)
}

func appendBool(key []byte, is bool) []byte {
	if is {
		return append(key, 1)
	}
	return append(key, 0)
}

// hopes reports whether it is not worth it to look for what is unwanted before the first
// choices under an anchor have come to something, or to nothing: one candidate is enough.
func (s *selection) hopes(chosen int) bool { return s.k == 1 && (len(s.found) == 0 || chosen > 1) }

// unwanted reports whether no candidate that begins with the present choices is wanted.
// If some may be, it returns a key that is the same for all choices that leave the same.
func (s *selection) unwanted() (key string, unwanted bool, err error) {
	full := len(s.found) == s.k
	if !s.pref.Once && !full {
		return "", false, nil
	}
	if s.pruning == nil {
		s.begin()
	}
	if err := s.work(1 + len(s.search.members)/4); err != nil {
		return "", false, err
	}
	if full {
		last := &s.found[s.k-1]
		if !precedes(s.atMost(), s.pruning.from, last.Score, last.From) {
			return "", true, nil
		}
	}
	left := s.left()
	if s.pruning.seen[string(left)] {
		return "", true, nil
	}
	return string(left), false, nil
}

// explored notes that all candidates are known that begin with some choices. What leaves
// the same leads to nothing better.
func (s *selection) explored(key string, kept bool) {
	if key != "" && (s.pref.Once || !kept) {
		s.pruning.seen[key] = true
	}
}

// left tells apart what choices leave: how much of which members, where like ones count for
// the same, and where the groups are that same_subtree and required traits tie together.
func (s *selection) left() []byte {
	p, size := s.pruning, 4+1+8+8*len(s.plan.classes)
	p.marks, p.parts = p.marks[:0], p.parts[:0]
	for j, src := range s.search.chosen {
		at := s.search.at[src.number]
		i := slices.Index(p.marked[:len(p.parts)], at)
		if i < 0 {
			i = len(p.parts)
			p.marked = append(p.marked[:i], at)
			p.marks = append(p.marks, make([]byte, size)...)
			p.parts = append(p.parts, nil)
			binary.BigEndian.PutUint32(p.marks[i*size:], p.alike[at])
		}
		s.mark(p.marks[i*size:(i+1)*size], s.plan.slots[j].kind)
	}
	for i := range p.parts {
		p.parts[i] = p.marks[i*size : (i+1)*size]
	}
	slices.SortFunc(p.parts, bytes.Compare)
	key := append(p.key[:0], byte(len(s.search.chosen)))
	if len(s.plan.guests) > 0 { // a candidate is of the tree that its first provider is in
		key = append(key, s.search.chosen[0].p.Root[:]...)
	}
	for _, part := range p.parts {
		key = append(key, part...)
	}
	p.key = key
	return key
}

// mark adds a group of a kind to what is known of a member that serves it.
func (s *selection) mark(mark []byte, kind int) {
	k := &s.plan.kinds[kind]
	if k.alone {
		mark[4] |= 1
	}
	if k.spread {
		mark[4] |= 2
	}
	for set, is := range k.subtrees {
		if is {
			mark[5+set/8] |= 1 << (set % 8)
		}
	}
	for r, amount := range k.amounts {
		at := mark[13+8*r:]
		binary.BigEndian.PutUint64(at, binary.BigEndian.Uint64(at)+uint64(amount))
	}
}

// atMost is at least the score of each candidate that begins with the present choices.
func (s *selection) atMost() float64 {
	left := uint64(0)
	for _, slot := range s.plan.slots[len(s.search.chosen):] {
		left |= 1 << slot.kind
	}
	var is, may []int
	for i, m := range s.search.members {
		if slices.ContainsFunc(s.search.chosen, func(src source) bool { return src.number == m.number }) {
			is = append(is, i)
		} else if m.serves&left != 0 {
			may = append(may, i)
		}
	}
	score := 0.0
	for w, weight := range s.pref.Weights {
		score += weight.Weight * s.bestMean(w, is, may)
	}
	bonus, soft, named := 0.0, 0, len(s.pref.Traits)+len(s.pref.Aggregates)
	s.eachSoft(func(weight float64, has func(*ledger.Provider) bool) {
		list := s.pruning.worth[soft]
		counts := slices.ContainsFunc(is, func(i int) bool { return list[i] })
		if len(s.plan.guests) > 0 {
			counts = counts || weight > 0 // it may be of the root of another tree
		} else if soft < named {
			counts = counts || has(s.pruning.root)
		}
		counts = counts || weight > 0 && slices.ContainsFunc(may, func(i int) bool { return list[i] })
		if soft == named {
			score, bonus = score+bonus, 0
		}
		switch {
		case counts && soft < named:
			bonus += weight
		case counts:
			score += weight
		}
		soft++
	})
	return score + bonus
}

// bestMean is the best mean free share for a weight that members have together of which
// some are chosen, and others may be, one for each slot that is left.
func (s *selection) bestMean(w int, is, may []int) float64 {
	sign := 1.0
	if s.pref.Weights[w].Weight < 0 {
		sign = -1
	}
	value := s.pruning.value[w]
	sum, n, best := 0.0, 0, math.Inf(-1)
	for _, i := range is {
		if v := sign * value[i]; !math.IsNaN(v) {
			sum, n, best = sum+v, n+1, max(best, v)
		}
	}
	var others []float64
	for _, i := range may {
		if v := sign * value[i]; !math.IsNaN(v) {
			others = append(others, v)
		}
	}
	slices.Sort(others)
	chosen := n
	for left := len(s.plan.slots) - len(s.search.chosen); left > 0 && len(others) > 0; left-- {
		v := others[len(others)-1]
		if n > 0 && sum/float64(n) >= v {
			break
		}
		sum, n, best, others = sum+v, n+1, max(best, v), others[:len(others)-1]
	}
	if n == 0 {
		return 0
	}
	mean := min(sum/float64(n)+boundSlack, best)
	if chosen == 0 && !slices.Contains(s.plan.classes, s.pref.Weights[w].Class) {
		mean = max(mean, 0) // the slots that are left may all be filled by others
	}
	return sign * mean
}
