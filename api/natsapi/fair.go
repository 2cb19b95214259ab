package natsapi

import "sync"

// Bounds of what waits at the door.
const (
	// clientQueue is how many requests of one client wait at most.
	clientQueue = 4096
	// doorQueue and doorBytes bound those of all clients together.
	doorQueue = 64 << 10
	doorBytes = 256 << 20
)

// fairQueue holds requests that wait until one more may be under way. Clients
// take turns, so that one that floods the door waits for itself and not others
// for it.
type fairQueue struct {
	mu    sync.Mutex
	free  int            // how many more may be under way; guarded by mu
	begun sync.WaitGroup // of those that are
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
}

// waiting are one client's requests.
type waiting struct {
	client string
	queue  []job
}

// job is a request with what is to be done about it. Once it has begun, the
// request is under way until release.
type job struct {
	do   func()
	size int
}

func newFairQueue(underWay int) *fairQueue {
	return &fairQueue{free: underWay, clients: make(map[string]*waiting)}
}

// pass lets a request begin at once if none waits.
func (q *fairQueue) pass() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.count > 0 || q.free == 0 {
		return false
	}
	q.begin()
	return true
}

// begin counts a request as under way; mu is held.
func (q *fairQueue) begin() {
	q.free--
	q.begun.Add(1)
}

// release says that a request is no longer under way.
func (q *fairQueue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free++
	q.begun.Done()
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
	if q.closed || len(w.queue) >= clientQueue || q.count >= doorQueue || q.bytes+j.size > doorBytes {
		return false
	}
	if len(w.queue) == 0 {
		q.clients[client] = w
		q.turns = append(q.turns, w)
	}
	w.queue = append(w.queue, j)
	q.count++
	q.bytes += j.size
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
	for q.count == 0 || q.free == 0 {
		if q.closed && q.count == 0 {
			return job{}, false
		}
		q.idle = append(q.idle, worker)
		q.mu.Unlock()
		<-worker
		q.mu.Lock()
	}
	if q.next >= len(q.turns) {
		q.next = 0
	}
	w := q.turns[q.next]
	q.begin()
	j := w.queue[0]
	w.queue[0] = job{}
	w.queue = w.queue[1:]
	q.count--
	q.bytes -= j.size
	if q.closed && q.count == 0 {
		q.wakeAll()
	}
	if len(w.queue) > 0 {
		q.next++
		return j, true
	}
	// The last one takes the place of the one that has nothing left.
	last := len(q.turns) - 1
	q.turns[q.next] = q.turns[last]
	q.turns[last] = nil
	q.turns = q.turns[:last]
	delete(q.clients, w.client)
	return j, true
}

// close lets what waits be taken and nothing be added.
func (q *fairQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeAll()
}
