package claims

import "slices"

// shares keeps what waits, by client, and gives it out to clients in turn: who sends
// much, or what is costly to search, delays only itself.
type shares[T any] struct {
	of    map[string][]T // what waits, by client; none is empty
	turns []string       // clients for which something waits, in turn
	size  int            // how much waits
}

const (
	// maxWaiting is how many claims may wait to be searched, of one client as of all.
	maxWaiting = 8192
	// shareWaiting is how many of a client may wait although maxWaiting do, up to
	// maxWaitingAll in all.
	shareWaiting  = 64
	maxWaitingAll = 2 * maxWaiting
)

// add has something wait. It reports false if too much waits already.
func (s *shares[T]) add(client string, one T) bool {
	mine := s.of[client]
	if s.size >= maxWaitingAll || s.size >= maxWaiting && len(mine) >= shareWaiting {
		return false
	}
	if s.of == nil {
		s.of = make(map[string][]T)
	}
	if len(mine) == 0 {
		s.turns = append(s.turns, client)
	}
	s.of[client] = append(mine, one)
	s.size++
	return true
}

// next takes what the client whose turn it is has sent first; false: nothing waits.
func (s *shares[T]) next() (one T, ok bool) {
	if s.size == 0 {
		return one, false
	}
	client := s.turns[0]
	mine := s.of[client]
	one = mine[0]
	var none T
	mine[0] = none // it is not kept in memory
	s.turns = slices.Delete(s.turns, 0, 1)
	if len(mine) == 1 {
		delete(s.of, client)
	} else {
		s.of[client] = mine[1:]
		s.turns = append(s.turns, client)
	}
	s.size--
	return one, true
}
