package candidates

import (
	"encoding/binary"
	"math"
	"slices"
)

// kindOfGroup is request groups that ask the same.
type kindOfGroup struct {
	amounts []int64 // per class of resources
	alone   bool    // a provider serves at most one group of all kinds that are alone
	count   int
}

// likeProviders are providers that are equal for what is asked.
type likeProviders struct {
	room   []int64 // per class of resources
	serves uint64  // the kinds that each may serve, as bits
	taken  bool    // each serves a group already that is alone
	count  int
}

// maxKinds is how many kinds there may be: those of a likeProviders are bits.
const maxKinds = 64

// canServe reports whether like providers can serve all groups of some kinds, each group
// by one provider. It enumerates neither groups nor providers, but counts both: what
// cannot be served shows mostly in a matching of kinds to providers, which is also exact
// where each provider could only serve groups with the same amounts, or one group. Only
// if it is not exact, groups are placed one after the other, the most constrained first.
func canServe(kinds []kindOfGroup, likes []likeProviders, m *meter) (bool, error) {
	s := serving{meter: m}
	return s.serve(kinds, likes)
}

type serving struct {
	*meter
	failed map[string]bool // what cannot be served, by its key
}

func (s *serving) serve(kinds []kindOfGroup, likes []likeProviders) (bool, error) {
	if err := s.work(1 + len(kinds)*len(likes)); err != nil {
		return false, err
	}
	f := flow{kinds: kinds, likes: likes}
	if !sumsFit(kinds, likes) || !f.saturates() {
		return false, nil
	}
	if f.exact {
		return true, nil
	}
	key := keyOf(kinds, likes)
	if s.failed[key] {
		return false, nil
	}
	k := f.tightest()
	for l := range likes {
		if f.unitsOf(k, l) == 0 || likes[l].count == 0 {
			continue
		}
		fewer := slices.Clone(kinds)
		fewer[k].count--
		if served, err := s.serve(fewer, placed(likes, l, &kinds[k])); served || err != nil {
			return served, err
		}
	}
	if s.failed == nil {
		s.failed = make(map[string]bool)
	}
	s.failed[key] = true
	return false, nil
}

// placed is what is left once one of some like providers serves a group.
func placed(likes []likeProviders, l int, kind *kindOfGroup) []likeProviders {
	one := likes[l]
	one.count, one.room, one.taken = 1, slices.Clone(one.room), one.taken || kind.alone
	for r, amount := range kind.amounts {
		one.room[r] -= amount
	}
	out := slices.Clone(likes)
	out[l].count--
	return join(out, &one)
}

func join(likes []likeProviders, more *likeProviders) []likeProviders {
	for l := range likes {
		one := &likes[l]
		if one.serves == more.serves && one.taken == more.taken && slices.Equal(one.room, more.room) {
			one.count += more.count
			return likes
		}
	}
	return append(likes, *more)
}

// keyOf tells what is to be served, and by what, apart.
func keyOf(kinds []kindOfGroup, likes []likeProviders) string {
	var key []byte
	for k := range kinds {
		key = binary.AppendUvarint(key, uint64(kinds[k].count))
	}
	var parts []string
	for l := range likes {
		if one := &likes[l]; one.count > 0 {
			part := appendBool(binary.BigEndian.AppendUint64(nil, one.serves), one.taken)
			for _, room := range one.room {
				part = binary.BigEndian.AppendUint64(part, uint64(room))
			}
			parts = append(parts, string(binary.BigEndian.AppendUint32(part, uint32(one.count))))
		}
	}
	slices.Sort(parts)
	for _, part := range parts {
		key = append(key, part...)
	}
	return string(key)
}

// sumsFit compares what is asked of each class with what there is.
func sumsFit(kinds []kindOfGroup, likes []likeProviders) bool {
	for r := range kinds[0].amounts {
		asked, by, room := 0.0, uint64(0), 0.0
		for k := range kinds {
			if kinds[k].amounts[r] > 0 && kinds[k].count > 0 {
				asked, by = asked+float64(kinds[k].amounts[r])*float64(kinds[k].count), by|1<<k
			}
		}
		for l := range likes {
			if likes[l].serves&by != 0 {
				room += float64(likes[l].room[r]) * float64(likes[l].count)
			}
		}
		if asked > room {
			return false
		}
	}
	return true
}

// flow sends groups to providers: as many as there may be, if it is exact, otherwise at
// least as many.
type flow struct {
	kinds []kindOfGroup
	likes []likeProviders
	exact bool
	sent  []int // per kind and like
	edges []int // the most that can be sent there
	spare []int // per like
	seen  []bool
}

// unitsOf is how many groups of a kind one of some like providers can serve.
func (f *flow) unitsOf(k, l int) int {
	kind, like := &f.kinds[k], &f.likes[l]
	if kind.count == 0 || like.serves>>k&1 == 0 || kind.alone && like.taken {
		return 0
	}
	units := kind.count
	for r, amount := range kind.amounts {
		if amount > 0 {
			units = int(min(int64(units), like.room[r]/amount))
		}
	}
	if kind.alone {
		units = min(units, 1)
	}
	return max(units, 0)
}

// saturates reports whether all groups can be sent.
func (f *flow) saturates() bool {
	n := len(f.likes)
	f.sent, f.edges, f.spare = make([]int, len(f.kinds)*n), make([]int, len(f.kinds)*n), make([]int, n)
	f.seen, f.exact = make([]bool, n), true
	for l := range f.likes {
		f.spare[l] = f.capacity(l) * f.likes[l].count
	}
	for k := range f.kinds {
		for left := f.kinds[k].count; left > 0; {
			clear(f.seen)
			n := f.send(k, left)
			if n == 0 {
				return false
			}
			left -= n
		}
	}
	return true
}

// capacity is how many groups one of some like providers can serve at most. It is not
// exact if groups of different amounts compete for it.
func (f *flow) capacity(l int) int {
	alone, together, shared := 0, 0, -1 // shared: the kind whose amounts all have so far
	for k := range f.kinds {
		units := f.unitsOf(k, l)
		f.edges[k*len(f.likes)+l] = units * f.likes[l].count
		switch {
		case units == 0:
		case f.kinds[k].alone:
			alone = 1
		default:
			if shared >= 0 && !slices.Equal(f.kinds[shared].amounts, f.kinds[k].amounts) {
				f.exact = false
			}
			shared, together = k, together+units
		}
	}
	if alone > 0 && together > 0 {
		f.exact = false
	}
	return min(alone+together, f.byRoom(l))
}

// byRoom is how many groups a provider has room for if all are as small as the smallest.
func (f *flow) byRoom(l int) int {
	most := math.MaxInt32
	for r := range f.likes[l].room {
		smallest := int64(math.MaxInt64)
		for k := range f.kinds {
			if f.edges[k*len(f.likes)+l] > 0 {
				smallest = min(smallest, f.kinds[k].amounts[r])
			}
		}
		if smallest > 0 {
			most = int(min(int64(most), f.likes[l].room[r]/smallest))
		}
	}
	return most
}

// send sends up to so many groups of a kind, if need be to where others make way, and
// returns how many.
func (f *flow) send(k, want int) int {
	n := len(f.likes)
	for l := range f.likes {
		most := min(want, f.edges[k*n+l]-f.sent[k*n+l])
		if most <= 0 || f.seen[l] {
			continue
		}
		f.seen[l] = true
		done := min(most, f.spare[l])
		f.spare[l] -= done
		for other := 0; done == 0 && other < len(f.kinds); other++ {
			if has := f.sent[other*n+l]; other != k && has > 0 {
				done = f.send(other, min(most, has))
				f.sent[other*n+l] -= done
			}
		}
		if done > 0 {
			f.sent[k*n+l] += done
			return done
		}
	}
	return 0
}

// tightest is the kind with the least to choose from.
func (f *flow) tightest() (tightest int) {
	least := math.MaxInt
	for k := range f.kinds {
		if f.kinds[k].count == 0 {
			continue
		}
		choice := -f.kinds[k].count
		for l := range f.likes {
			choice += f.edges[k*len(f.likes)+l]
		}
		if choice < least {
			tightest, least = k, choice
		}
	}
	return tightest
}
