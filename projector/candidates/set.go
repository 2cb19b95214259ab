package candidates

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// set is a set of providers that is described by others. To ask it about a few providers costs
// the same however many there are. It is made when it was asked as much as that costs.
type set struct {
	world *World
	// Members are in one of each of these lists,
	within [][]*roaring.Bitmap
	// or their roots are, with one of each of these,
	spanned [][]*roaring.Bitmap
	// and in none of these.
	without []*roaring.Bitmap

	parts int // how many bitmaps there are
	asked int
	made  *roaring.Bitmap // nil: not yet
}

// A set is made when its parts were asked so often, and once more for so many providers each:
// it then has cost as much as is saved.
const partsAsked, providersPerPart = 256, 128

// and leaves the members that are in one of some bitmaps.
func (s *set) and(anyOf ...*roaring.Bitmap) *set {
	s.within, s.parts, s.made = append(s.within, anyOf), s.parts+len(anyOf), nil
	return s
}

// andSpanned leaves the members that are in one of some bitmaps, or whose roots are.
func (s *set) andSpanned(anyOf ...*roaring.Bitmap) *set {
	if !s.world.Nested() {
		return s.and(anyOf...)
	}
	s.spanned, s.parts, s.made = append(s.spanned, anyOf), s.parts+2*len(anyOf), nil
	return s
}

// andNot leaves the members that are not in a bitmap.
func (s *set) andNot(bits *roaring.Bitmap) *set {
	if !bits.IsEmpty() {
		s.without, s.parts, s.made = append(s.without, bits), s.parts+1, nil
	}
	return s
}

// andSet leaves the members that are in another set, too.
func (s *set) andSet(other *set) {
	s.within = append(s.within, other.within...)
	s.spanned = append(s.spanned, other.spanned...)
	s.without = append(s.without, other.without...)
	s.parts, s.made = s.parts+other.parts, nil
}

// note counts what the set is asked, and makes it if that was much.
func (s *set) note() {
	if s.asked += s.parts; s.asked > partsAsked+int(s.world.all.GetCardinality())/providersPerPart {
		s.bits()
	}
}

func (s *set) contains(number uint32) bool {
	if s.made != nil {
		return s.made.Contains(number)
	}
	s.note()
	return s.describes(number, s.within)
}

// describes reports whether a provider is in one of each of some lists, and is what the set is
// described by beside them.
func (s *set) describes(number uint32, within [][]*roaring.Bitmap) bool {
	for _, anyOf := range within {
		if !inAny(anyOf, number) {
			return false
		}
	}
	for _, bits := range s.without {
		if bits.Contains(number) {
			return false
		}
	}
	for _, anyOf := range s.spanned {
		if !inAny(anyOf, number) && !inAny(anyOf, s.world.entries.get(number).root) {
			return false
		}
	}
	return true
}

func inAny(sets []*roaring.Bitmap, number uint32) bool {
	return slices.ContainsFunc(sets, func(bits *roaring.Bitmap) bool { return bits.Contains(number) })
}

// bits makes the set. The caller must not change it.
func (s *set) bits() *roaring.Bitmap {
	if s.made != nil {
		return s.made
	}
	made := s.world.all
	if len(s.within) > 0 {
		made = union(s.within[0])
	}
	made = made.Clone()
	for _, anyOf := range s.within[min(1, len(s.within)):] {
		made.And(union(anyOf))
	}
	for _, anyOf := range s.spanned {
		made.And(s.world.spanned(union(anyOf)))
	}
	for _, bits := range s.without {
		made.AndNot(bits)
	}
	s.made = made
	return made
}

func (s *set) most() uint64 {
	most := s.world.all.GetCardinality()
	for _, anyOf := range s.within {
		sum := uint64(0)
		for _, bits := range anyOf {
			sum += bits.GetCardinality()
		}
		most = min(most, sum)
	}
	return most
}

func union(sets []*roaring.Bitmap) *roaring.Bitmap {
	if len(sets) == 1 {
		return sets[0]
	}
	return roaring.FastOr(sets...)
}

// cursor goes over the members of a set, ascending.
type cursor struct {
	set  *set
	made bool // it goes over the set that is made
	at   [][]roaring.IntPeekable
}

// cursor begins in front of all members.
func (s *set) cursor() *cursor {
	c := &cursor{set: s}
	c.begin()
	return c
}

func (c *cursor) begin() {
	lists := c.set.within
	switch c.made = c.set.made != nil; {
	case c.made:
		lists = [][]*roaring.Bitmap{{c.set.made}}
	case len(lists) == 0:
		lists = [][]*roaring.Bitmap{{c.set.world.all}}
	}
	c.at = make([][]roaring.IntPeekable, len(lists))
	for i, anyOf := range lists {
		for _, bits := range anyOf {
			c.at[i] = append(c.at[i], bits.Iterator())
		}
	}
}

// next finds the first member from a number on, which must not become smaller; false: none.
func (c *cursor) next(from uint32) (uint32, bool) {
	for {
		if !c.made {
			if c.set.note(); c.set.made != nil {
				c.begin()
			}
		}
		number, more := c.agreed(from)
		if !more || c.made || c.set.describes(number, nil) {
			return number, more
		}
		from = number + 1
	}
}

// agreed finds the first number from one on that is in one of each list.
func (c *cursor) agreed(number uint32) (uint32, bool) {
	for agree := 0; agree < len(c.at); {
		for _, anyOf := range c.at {
			first, found := uint32(0), false
			for _, it := range anyOf {
				if it.AdvanceIfNeeded(number); it.HasNext() && (!found || it.PeekNext() < first) {
					first, found = it.PeekNext(), true
				}
			}
			if !found {
				return 0, false
			}
			if first > number {
				number, agree = first, 0
			}
			if agree++; agree == len(c.at) {
				break
			}
		}
	}
	return number, true
}
