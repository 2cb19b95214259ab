package natsapi

import "sync"

// Bounds of what waits at the door, in bytes of memory: bodies, and headers with
// what a request takes besides.
const (
	// clientQueue and clientBytes are how many requests of one client wait at most.
	clientQueue = 4096
	clientBytes = 16 << 20
	// doorQueue and doorBytes bound those of all clients together.
	doorQueue = 16 << 10
	doorBytes = 32 << 20
)

// Bounds of what is under way, in bytes of memory. Light requests do not wait
// for heavy ones, of which the largest possible one has room.
const (
	lightWeight   = 64 << 10
	lightUnderWay = 16 << 20
	heavyUnderWay = 32 << 20
)

// fairQueue holds requests that wait until one more may be under way. Clients
// take turns, so that one that floods the door waits for itself and not others
// for it.
type fairQueue struct {
	mu    sync.Mutex
	free  int            // how many more may be under way; guarded by mu
	begun sync.WaitGroup // of those that are
	light int            // weight of those that are; guarded by mu
	heavy int            // the same of heavy ones; guarded by mu
	// first is the client whose heavy request begins before any other heavy one:
	// it waits for room. Guarded by mu.
	first string
	// share is how many of one client may be under way; 0: any number. busy
	// counts them; guarded by mu.
	share int
	busy  map[string]int
	// idle are the workers that wait, each by its own channel. The one that
	// came last is woken first: few workers do most of the work, and their
	// stacks stay grown and in the caches. Guarded by mu.
	idle    []chan struct{}
	clients map[string]*waiting // guarded by mu
	turns   []*waiting          // clients with requests, in turn; guarded by mu
	next    int                 // whose turn it is; guarded by mu
	count   int                 // of all requests; guarded by mu
	bytes   int                 // of all requests; guarded by mu
	closed  bool                // guarded by mu
	// heavily is told when the requests that wait and those under way take more
	// than muchHeld, and when no longer; nil: nobody is. isMuch is what it was
	// told last; guarded by mu.
	heavily func(bool)
	isMuch  bool
}

// muchHeld is what a door takes that ordinary requests do not bring about.
const muchHeld = 6 << 20

// weighed tells whoever wants to know that much is held, or no longer; mu is held.
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

// job is a request with what is to be done about it. Once it has begun, the
// request is under way until release.
type job struct {
	do     func()
	size   int // while it waits
	weight int // when it is under way
}

func newFairQueue(underWay int) *fairQueue {
	return &fairQueue{free: underWay, clients: make(map[string]*waiting), busy: make(map[string]int)}
}

// pass lets a request begin at once if none waits.
func (q *fairQueue) pass(client string, weight int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.count > 0 || !q.mayBegin(client, weight) {
		return false
	}
	q.begin(client, weight)
	return true
}

// mayBegin reports whether there is room for one more; mu is held.
func (q *fairQueue) mayBegin(client string, weight int) bool {
	switch {
	case q.free == 0 || q.share > 0 && q.busy[client] >= q.share:
		return false
	case weight <= lightWeight:
		return q.light+weight <= lightUnderWay
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
	if q.share > 0 {
		q.busy[client]++
	}
	defer q.weighed()
	if weight <= lightWeight {
		q.light += weight
		return
	}
	q.heavy += weight
	q.first = ""
}

// release says that a client's request is no longer under way.
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
	if q.share > 0 {
		if q.busy[client]--; q.busy[client] == 0 {
			delete(q.busy, client)
		}
	}
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

// wake lets a worker look at the queue; mu is held.
func (q *fairQueue) wake() {
	if last := len(q.idle) - 1; last >= 0 {
		q.idle[last] <- struct{}{}
		q.idle = q.idle[:last]
	}
}

// wakeAll lets all workers look at the queue; mu is held.
func (q *fairQueue) wakeAll() {
	for len(q.idle) > 0 {
		q.wake()
	}
}

// pop waits for the request whose turn it is, which then is under way. It
// returns false when the queue is closed and empty. The worker's channel has
// room for one.
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
		q.wake() // there may be room for more than one
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
	// The last one takes the place of the one that has nothing left.
	last := len(q.turns) - 1
	q.turns[turn] = q.turns[last]
	q.turns[last] = nil
	q.turns = q.turns[:last]
	q.next = turn
	delete(q.clients, w.client)
	return j
}

// close lets what waits be taken and nothing be added.
func (q *fairQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeAll()
}
