package embedded

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/commands/fair"
)

// Bounds of the throttle.
const (
	// loginWait is how long a login may wait for its comparison.
	loginWait = 4 * time.Second
	// longestPassword is how many bytes of a password bcrypt reads.
	longestPassword = 72
	// longestName is the length of the longest user name, in bytes.
	longestName = 256
)

// passwordThrottle compares passwords with their hashes, each of which takes a tenth of
// a second of a processor, on purpose. Half of the processors do so at most, for one user
// name at one address after the other. All unknown names are one. So a client that
// guesses delays only the user whose password it guesses, from where it guesses. A
// password that was right before is recognized at once.
type passwordThrottle struct {
	places  *fair.Pool
	ctx     context.Context // ends with the server
	stop    context.CancelFunc
	key     [32]byte // key of the digests of passwords that were right
	unknown []byte   // a hash for unknown names, which no password has
	hash    func(hash, password []byte) error

	mu    sync.Mutex
	known map[string][32]byte // by user: the digest of the last right password; guarded by mu
}

func newPasswordThrottle() *passwordThrottle {
	places := max(runtime.GOMAXPROCS(0)/2, 1)
	t := &passwordThrottle{
		places: fair.NewPoolOf(places, 1), known: make(map[string][32]byte), hash: bcrypt.CompareHashAndPassword,
	}
	_, _ = rand.Read(t.key[:]) // it never fails
	// A comparison with random text takes as long as with the hash of a password, which
	// would have to be computed at each start.
	const saltAndHash = 22 + 31
	text := (rand.Text() + rand.Text() + rand.Text())[:saltAndHash]
	t.unknown = fmt.Appendf(nil, "$2a$%02d$%s", bcrypt.DefaultCost, text)
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// pass reports whether a password belongs to a hash; empty: no user has the name. It
// returns false if it would take too long to find out.
func (t *passwordThrottle) pass(place, user, hash, password string) bool {
	if len(password) > longestPassword || len(user) > longestName {
		return false
	}
	if t.remembers(user, hash, password) {
		return true
	}
	ctx, cancel := context.WithTimeout(t.ctx, loginWait)
	defer cancel()
	client := place
	if hash != "" {
		client += " " + user
	}
	work, err := t.places.Short(ctx, client)
	if err != nil {
		return false
	}
	defer work.End()
	switch {
	case t.remembers(user, hash, password): // the login before may have had the same password
		return true
	case hash == "":
		_ = t.hash(t.unknown, []byte(password)) // it takes as long as a wrong password
		return false
	case t.hash([]byte(hash), []byte(password)) != nil:
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[user] = t.digest(user, hash, password)
	return true
}

func (t *passwordThrottle) digest(user, hash, password string) (sum [32]byte) {
	mac := hmac.New(sha256.New, t.key[:])
	for _, part := range []string{user, hash, password} {
		mac.Write([]byte(part))
		mac.Write([]byte{0}) // neither bcrypt's passwords nor NATS's names contain one
	}
	mac.Sum(sum[:0])
	return sum
}

func (t *passwordThrottle) remembers(user, hash, password string) bool {
	sum := t.digest(user, hash, password)
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[user]
	return ok && hash != "" && hmac.Equal(known[:], sum[:])
}
