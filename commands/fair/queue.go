package fair

import "slices"

// Queue holds what waits, by client, and gives it out to clients in turn: a client that
// sends much, or asks for what takes long, delays only itself. A client's own come in
// the order in which it sent them. It is for one goroutine at a time.
type Queue[T any] struct {
	// Most is how many may wait. While fewer than half of them do, they may be of one
	// client. Beyond that a client may have Share of them.
	Most, Share int

	of    map[string][]T // by client; none is empty
	turns []string       // clients for which something waits, in turn
	size  int
}

// Len returns how many wait.
func (q *Queue[T]) Len() int { return q.size }

// Add has something wait. It reports false if too much waits already.
func (q *Queue[T]) Add(client string, one T) bool {
	mine := q.of[client]
	if q.size >= q.Most || q.size >= q.Most/2 && len(mine) >= q.Share {
		return false
	}
	q.put(client, one)
	return true
}

// put has something wait that was taken in before.
func (q *Queue[T]) put(client string, one T) {
	if q.of == nil {
		q.of = make(map[string][]T)
	}
	if len(q.of[client]) == 0 {
		q.turns = append(q.turns, client)
	}
	q.of[client] = append(q.of[client], one)
	q.size++
}

// Next takes what has waited longest of the next client that may have it; a nil may
// lets every client.
func (q *Queue[T]) Next(may func(client string) bool) (client string, one T, ok bool) {
	for i, client := range q.turns {
		if may != nil && !may(client) {
			continue
		}
		mine := q.of[client]
		one = mine[0]
		var none T
		mine[0] = none // it is not kept in memory
		q.of[client] = mine[1:]
		q.turns = slices.Delete(q.turns, i, i+1)
		if len(mine) > 1 {
			q.turns = append(q.turns, client)
		} else {
			delete(q.of, client)
		}
		q.size--
		return client, one, true
	}
	return "", one, false
}

// Remove takes one that waits out, and reports whether it was there.
func (q *Queue[T]) Remove(client string, is func(T) bool) bool {
	mine := q.of[client]
	i := slices.IndexFunc(mine, is)
	if i < 0 {
		return false
	}
	q.size--
	if q.of[client] = slices.Delete(mine, i, i+1); len(mine) > 1 {
		return true
	}
	delete(q.of, client)
	q.turns = slices.DeleteFunc(q.turns, func(c string) bool { return c == client })
	return true
}

// Ring shares a store that drops its oldest entries among clients. A client may push
// out its own; it pushes out those of others only while it has less than its share, as
// many clients as have some. It is for one goroutine at a time.
type Ring struct {
	Size int // in bytes

	entries []ringEntry // the oldest first
	held    map[string]int
	total   int
}

type ringEntry struct {
	client string
	bytes  int
}

// Add reports whether a client's entry may be stored, and counts it if so.
func (r *Ring) Add(client string, bytes int) bool {
	if r.held == nil {
		r.held = make(map[string]int)
	}
	clients := len(r.held)
	if r.held[client] == 0 {
		clients++
	}
	out, room := 0, r.Size-r.total
	for ; room < bytes && out < len(r.entries); out++ {
		oldest := r.entries[out]
		if oldest.client != client && r.held[client]+bytes > r.Size/clients {
			return false
		}
		room += oldest.bytes
	}
	for _, oldest := range r.entries[:out] {
		r.total -= oldest.bytes
		if r.held[oldest.client] -= oldest.bytes; r.held[oldest.client] == 0 {
			delete(r.held, oldest.client)
		}
	}
	r.entries = append(r.entries[out:], ringEntry{client, bytes})
	r.held[client] += bytes
	r.total += bytes
	return true
}
