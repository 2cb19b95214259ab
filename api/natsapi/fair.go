package natsapi

import (
	"slices"
	"sync"
)

// Bounds of waiting requests, in bytes of memory: their bodies and headers, and
// what a request takes besides.
const (
	// clientQueue and clientBytes bound the waiting requests of one client, in
	// number and in bytes.
	clientQueue = 4096
	clientBytes = 16 << 20
	// doorQueue and doorBytes bound the waiting requests of all clients together.
	doorQueue = 16 << 10
	doorBytes = 32 << 20
)

// Bounds of the requests under way, in bytes of memory. Light requests do not
// wait for heavy ones. The largest possible heavy request fits.
const (
	lightWeight   = 64 << 10
	lightUnderWay = 16 << 20
	heavyUnderWay = 32 << 20
	// slowUnderWay is lightUnderWay of requests that may take long.
	slowUnderWay = 8 << 20
)

// fairQueue holds requests that wait until one more may be under way. Clients
// take turns, so a client that floods the queue delays only itself.
type fairQueue struct {
	lightMost int // bound of light
	mu        sync.Mutex
	free      int            // how many more may be under way; guarded by mu
	begun     sync.WaitGroup // of the requests under way
	light     int            // weight of the requests under way; guarded by mu
	heavy     int            // weight of the heavy ones among them; guarded by mu
	// first is the client whose heavy request waits for room and begins before
	// any other heavy request. Guarded by mu.
	first string
	// share is how many requests of one client may be under way, and lightShare and
	// heavyShare what light and heavy ones may weigh together; 0: as many and as much as
	// of all. busy counts them; guarded by mu.
	share      int
	lightShare int
	heavyShare int
	busy       map[string]load
	// idle are the waiting workers, each with a channel of its own. The last one
	// to come is woken first, so that a few workers do most of the work, and
	// their stacks stay grown and in the caches. Guarded by mu.
	idle    []chan struct{}
	clients map[string]*waiting // guarded by mu
	turns   []*waiting          // clients with waiting requests, in turn; guarded by mu
	next    int                 // the client whose turn it is; guarded by mu
	count   int                 // of all requests; guarded by mu
	bytes   int                 // of all requests; guarded by mu
	closed  bool                // guarded by mu
	// heavily is called when the requests that wait and those under way together
	// take more than muchHeld, and when no longer; it may be nil. isMuch is the
	// last value that it was called with; guarded by mu.
	heavily func(bool)
	isMuch  bool
}

// muchHeld is an amount of memory, in bytes, that ordinary requests do not reach.
const muchHeld = 6 << 20

// weighed reports whether much memory is held, if that has changed; mu is held.
func (q *fairQueue) weighed() {
	if isMuch := q.light+q.heavy+q.bytes > muchHeld; isMuch != q.isMuch && q.heavily != nil {
		q.isMuch = isMuch
		q.heavily(isMuch)
	}
}

// waiting are one client's requests.
type waiting struct {
	client string
	queue  []job
	bytes  int
}

// job is a request with its handler. Once begun, it is under way until release.
type job struct {
	do     func()
	from   *request // nil: of nobody
	size   int      // weight while it waits
	weight int      // weight while it is under way
}

// load is what a client has under way.
type load struct {
	requests int
	light    int // weight of the light ones
	heavy    int // weight of the others
}

func newFairQueue(underWay int) *fairQueue {
	return &fairQueue{
		free: underWay, lightMost: lightUnderWay, clients: make(map[string]*waiting), busy: make(map[string]load),
	}
}

// newSlowQueue returns a queue in which a client has three quarters of all places and
// room at most, so that others find some, however long its requests take.
func newSlowQueue(underWay int) *fairQueue {
	q := newFairQueue(underWay)
	q.lightMost = slowUnderWay
	q.share, q.lightShare, q.heavyShare = underWay*3/4, slowUnderWay*3/4, heavyUnderWay*3/4
	return q
}

// pass lets a request begin at once if no request waits.
func (q *fairQueue) pass(client string, weight int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.count > 0 || !q.mayBegin(client, weight) {
		return false
	}
	q.begin(client, weight)
	return true
}

// mayBegin reports whether one more request has room; mu is held.
func (q *fairQueue) mayBegin(client string, weight int) bool {
	switch {
	case q.free == 0 || q.share > 0 && q.busy[client].requests >= q.share:
		return false
	case weight <= lightWeight:
		return q.light+weight <= q.lightMost && (q.lightShare == 0 || q.busy[client].light+weight <= q.lightShare)
	case q.heavyShare > 0 && q.busy[client].heavy > 0 && q.busy[client].heavy+weight > q.heavyShare:
		return false // it does not hold up those of others, as who is first does
	}
	if q.first == "" {
		q.first = client
	}
	return q.first == client && (q.heavy == 0 || q.heavy+weight <= heavyUnderWay)
}

// begin counts a request as under way; mu is held.
func (q *fairQueue) begin(client string, weight int) {
	q.free--
	q.begun.Add(1)
	q.counts(client, 1, weight)
	defer q.weighed()
	if weight <= lightWeight {
		q.light += weight
		return
	}
	q.heavy += weight
	q.first = ""
}

// counts counts a request that a client has begun (1) or ended (-1), if clients have
// shares; mu is held.
func (q *fairQueue) counts(client string, by, weight int) {
	if q.share == 0 {
		return
	}
	has := q.busy[client]
	has.requests += by
	if weight <= lightWeight {
		has.light += by * weight
	} else {
		has.heavy += by * weight
	}
	if q.busy[client] = has; has.requests == 0 {
		delete(q.busy, client)
	}
}

// release ends a request of a client that was under way.
func (q *fairQueue) release(client string, weight int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.begun.Done()
	if weight <= lightWeight {
		q.light -= weight
	} else {
		q.heavy -= weight
	}
	q.weighed()
	q.counts(client, -1, weight)
	if q.count > 0 {
		q.wake()
	}
}

// push adds a client's request, unless too many wait already.
func (q *fairQueue) push(client string, j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := q.clients[client]
	if w == nil {
		w = &waiting{client: client}
	}
	if q.closed || len(w.queue) >= clientQueue || w.bytes+j.size > clientBytes || q.count >= doorQueue ||
		q.bytes+j.size > doorBytes {
		return false
	}
	if len(w.queue) == 0 {
		q.clients[client] = w
		q.turns = append(q.turns, w)
	}
	w.queue = append(w.queue, j)
	w.bytes += j.size
	q.count++
	q.bytes += j.size
	q.weighed()
	if q.free > 0 {
		q.wake()
	}
	return true
}

// wake makes a worker look at the queue; mu is held.
func (q *fairQueue) wake() {
	if last := len(q.idle) - 1; last >= 0 {
		q.idle[last] <- struct{}{}
		q.idle = q.idle[:last]
	}
}

// wakeAll makes all workers look at the queue; mu is held.
func (q *fairQueue) wakeAll() {
	for len(q.idle) > 0 {
		q.wake()
	}
}

// pop waits for the request whose turn it is; the request is then under way. It
// returns false when the queue is closed and empty. The worker's channel has
// capacity 1.
func (q *fairQueue) pop(worker chan struct{}) (job, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn := q.choose()
	for turn < 0 {
		if q.closed && q.count == 0 {
			return job{}, false
		}
		q.idle = append(q.idle, worker)
		q.mu.Unlock()
		<-worker
		q.mu.Lock()
		turn = q.choose()
	}
	j := q.take(turn)
	switch {
	case q.closed && q.count == 0:
		q.wakeAll()
	case q.count > 0 && q.free > 0:
		q.wake() // more than one request may have room now
	}
	return j, true
}

// choose finds the client whose turn it is among those whose next request has
// room; -1: none. mu is held.
func (q *fairQueue) choose() int {
	if q.free == 0 {
		return -1
	}
	for i := range q.turns {
		turn := (q.next + i) % len(q.turns)
		if w := q.turns[turn]; q.mayBegin(w.client, w.queue[0].weight) {
			return turn
		}
	}
	return -1
}

// take takes the next request of the client whose turn it is; mu is held.
func (q *fairQueue) take(turn int) job {
	w := q.turns[turn]
	j := w.queue[0]
	q.begin(w.client, j.weight)
	w.queue[0] = job{}
	w.queue = w.queue[1:]
	w.bytes -= j.size
	q.count--
	q.bytes -= j.size
	if len(w.queue) > 0 {
		q.next = turn + 1
		return j
	}
	// The last client moves to the place of the one that has no more requests.
	last := len(q.turns) - 1
	q.turns[turn] = q.turns[last]
	q.turns[last] = nil
	q.turns = q.turns[:last]
	q.next = turn
	delete(q.clients, w.client)
	return j
}

// forget takes out the requests that wait of those clients that are meant.
func (q *fairQueue) forget(isMeant func(client string) bool) (found []job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns = slices.DeleteFunc(q.turns, func(w *waiting) bool {
		if !isMeant(w.client) {
			return false
		}
		found = append(found, w.queue...)
		q.count -= len(w.queue)
		q.bytes -= w.bytes
		delete(q.clients, w.client)
		if q.first == w.client {
			q.first = ""
		}
		return true
	})
	q.next = 0
	q.weighed()
	if q.count > 0 || q.closed {
		q.wakeAll() // another client's request may have room now
	}
	return found
}

// close refuses further requests. Waiting requests are still taken.
func (q *fairQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeAll()
}
