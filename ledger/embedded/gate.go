package embedded

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Comparing a password with its hash takes a tenth of a second of a processor, on
// purpose. The gate keeps clients that guess passwords from taking that time from
// everybody else. One comparison is under way at a time. After a wrong password
// there is a pause as long as the comparison took, and its user waits, in the
// place where it came from, for longer with every further wrong one. Passwords
// that were right before are recognised at once.

// Bounds of the gate.
const (
	// gateWait is how long a login may wait for its turn.
	gateWait = 4 * time.Second
	// gatePlaces is how many places may wait, or be made to wait, at a time.
	gatePlaces = 1024
	// firstPenalty is how long a place waits after a wrong password, and
	// lastPenalty the longest such wait.
	firstPenalty = 100 * time.Millisecond
	lastPenalty  = 2 * time.Second
	// longestPassword is how many bytes of a password bcrypt reads.
	longestPassword = 72
	// longestName is the length of the longest user name, in bytes.
	longestName = 256
)

type gate struct {
	compare chan struct{} // a token: its holder may compare
	quit    chan struct{}
	once    sync.Once
	key     [32]byte // key of the digests of passwords that were right
	nobody  []byte   // a hash for unknown names, which no password has
	hash    func(hash, password []byte) error

	mu     sync.Mutex
	known  map[string][32]byte // by user: the digest of the last right password; guarded by mu
	places map[string]*queue   // guarded by mu
}

// queue holds the waiting logins of one place.
type queue struct {
	turn    chan struct{} // a token: its holder may go to the gate
	users   int           // number of logins that wait, or have their turn; guarded by the gate's mu
	wrong   int           // wrong passwords in a row; guarded by the gate's mu
	blocked time.Time     // nobody from there gets a turn until then; guarded by the gate's mu
}

func newGate() (*gate, error) {
	g := &gate{
		compare: make(chan struct{}, 1),
		quit:    make(chan struct{}), known: make(map[string][32]byte), places: make(map[string]*queue),
		hash: bcrypt.CompareHashAndPassword,
	}
	if _, err := rand.Read(g.key[:]); err != nil {
		return nil, err
	}
	// A comparison with random text takes as long as with the hash of a password, which
	// would have to be computed at each start.
	const saltAndHash = 22 + 31
	g.nobody = fmt.Appendf(nil, "$2a$%02d$%s", bcrypt.DefaultCost, (rand.Text() + rand.Text() + rand.Text())[:saltAndHash])
	return g, nil
}

func (g *gate) stop() { g.once.Do(func() { close(g.quit) }) }

// pass reports whether a password belongs to a hash. It returns false if it would
// take too long to find out.
func (g *gate) pass(place, user, hash, password string) bool {
	if len(password) > longestPassword || len(user) > longestName {
		return false
	}
	if g.remembers(user, hash, password) {
		return true
	}
	if hash != "" {
		// A client that guesses one user's password delays only that user's
		// logins from the same place. All unknown names count as one user.
		place += " " + user
	}
	q := g.enter(place)
	if q == nil {
		return false
	}
	defer g.leave(place, q)
	timeout := time.NewTimer(gateWait)
	defer timeout.Stop()
	if !take(q.turn, timeout.C, g.quit) {
		return false
	}
	defer func() { <-q.turn }()
	// The login before, from the same place, may have had the same password.
	if g.remembers(user, hash, password) {
		return true
	}
	if !g.sleep(g.penalty(q), timeout.C) || !take(g.compare, timeout.C, g.quit) {
		return false
	}
	begun := time.Now()
	right := g.right(hash, password)
	if right {
		<-g.compare
	} else {
		time.AfterFunc(time.Since(begun), func() { <-g.compare })
	}
	g.learn(q, user, hash, password, right)
	return right
}

func (g *gate) right(hash, password string) bool {
	if hash == "" {
		_ = g.hash(g.nobody, []byte(password)) // the pause equals the time of the comparison
		return false
	}
	return g.hash([]byte(hash), []byte(password)) == nil
}

// take waits for a token, until it is too late.
func take(token chan struct{}, late <-chan time.Time, quit chan struct{}) bool {
	select {
	case token <- struct{}{}:
		return true
	case <-late:
	case <-quit:
	}
	return false
}

// sleep waits for a while, unless it would be too late then.
func (g *gate) sleep(d time.Duration, late <-chan time.Time) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-late:
	case <-g.quit:
	}
	return false
}

func (g *gate) digest(user, hash, password string) (sum [32]byte) {
	mac := hmac.New(sha256.New, g.key[:])
	for _, part := range []string{user, hash, password} {
		mac.Write([]byte(part))
		mac.Write([]byte{0}) // neither bcrypt's passwords nor NATS's names contain one
	}
	mac.Sum(sum[:0])
	return sum
}

func (g *gate) remembers(user, hash, password string) bool {
	sum := g.digest(user, hash, password)
	g.mu.Lock()
	defer g.mu.Unlock()
	known, ok := g.known[user]
	return ok && hash != "" && hmac.Equal(known[:], sum[:])
}

// learn notes the result of a comparison.
func (g *gate) learn(q *queue, user, hash, password string, right bool) {
	sum := g.digest(user, hash, password)
	g.mu.Lock()
	defer g.mu.Unlock()
	if right {
		g.known[user] = sum
		q.wrong, q.blocked = 0, time.Time{}
		return
	}
	q.blocked = time.Now().Add(min(firstPenalty<<min(q.wrong, 10), lastPenalty))
	q.wrong++
}

func (g *gate) penalty(q *queue) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(q.blocked)
}

// enter finds the queue of a place; nil: too many places wait.
func (g *gate) enter(place string) *queue {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.places[place]
	if q == nil {
		if len(g.places) >= gatePlaces {
			g.forget()
		}
		if len(g.places) >= gatePlaces {
			return nil
		}
		q = &queue{turn: make(chan struct{}, 1)}
		g.places[place] = q
	}
	q.users++
	return q
}

// forget drops places that need not wait any more; mu is held.
func (g *gate) forget() {
	for place, q := range g.places {
		if q.users == 0 && time.Now().After(q.blocked) {
			delete(g.places, place)
		}
	}
}

// leave ends what enter began. A place without wrong passwords is forgotten.
func (g *gate) leave(place string, q *queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q.users--; q.users == 0 && q.wrong == 0 {
		delete(g.places, place)
	}
}
