package fair

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
