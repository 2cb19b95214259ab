package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/commands/fair"
)

func startThrottle(t *testing.T) *passwordThrottle {
	t.Helper()
	throttle := newPasswordThrottle()
	t.Cleanup(throttle.stop)
	return throttle
}

// TestUnknownNamesCostAComparison: an unknown name costs a comparison of the full length, and no password is right.
func TestUnknownNamesCostAComparison(t *testing.T) {
	t.Parallel()
	for range 20 { // the text is random
		throttle := startThrottle(t)
		if cost, err := bcrypt.Cost(throttle.unknown); err != nil || cost != bcrypt.DefaultCost {
			t.Fatalf("%s: cost %d, %v", throttle.unknown, cost, err)
		}
	}
	throttle := startThrottle(t)
	hash, compared := throttle.hash, 0
	throttle.hash = func(stored, password []byte) error {
		compared++
		err := hash(stored, password)
		if !bytes.Equal(stored, throttle.unknown) || !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			t.Errorf("%q: compared with %q, %v", password, stored, err)
		}
		return err
	}
	passwords := []string{"", string(throttle.key[:]), string(throttle.unknown)[:longestPassword/2]}
	for _, password := range passwords {
		if throttle.pass("home", "eve", "", password) {
			t.Errorf("%q is right", password)
		}
	}
	if compared != len(passwords) {
		t.Errorf("%d comparisons of %d passwords", compared, len(passwords))
	}
}

// TestPasswordsAreComparedOneAtATime: comparisons leave processors to others, a password that was right is known, and
// a guesser delays no login from another place: the next free place is for that.
func TestPasswordsAreComparedOneAtATime(t *testing.T) {
	t.Parallel()
	throttle := startThrottle(t)
	throttle.places = fair.NewPoolOf(1, 1)
	begun, goOn := make(chan string), make(chan struct{})
	var at, most atomic.Int64
	throttle.hash = func(hash, password []byte) error {
		most.Store(max(most.Load(), at.Add(1)))
		defer at.Add(-1)
		begun <- string(password)
		<-goOn
		if string(hash) != string(password) {
			return bcrypt.ErrMismatchedHashAndPassword
		}
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() {
		if throttle.pass("elsewhere", "nova", "secret", "guess") {
			t.Error("a wrong password is right")
		}
	})
	<-begun // it has the place
	for i := range 20 {
		all.Go(func() { throttle.pass("elsewhere", "nova", "secret", fmt.Sprint("guess ", i)) })
	}
	all.Go(func() {
		if !throttle.pass("home", "nova", "secret", "secret") || !throttle.pass("elsewhere", "nova", "secret", "secret") {
			t.Error("the right password is wrong")
		}
	})
	var order []string
	for range 22 {
		goOn <- struct{}{}
		if len(order) < 21 {
			order = append(order, <-begun)
		}
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d passwords were compared at a time", most.Load())
	}
	for _, wrong := range []struct{ hash, password string }{
		{"secret", strings.Repeat("x", longestPassword+1)}, {"", "secret"},
	} {
		throttle.hash = func([]byte, []byte) error { return bcrypt.ErrMismatchedHashAndPassword }
		if throttle.pass("home", "nova", wrong.hash, wrong.password) {
			t.Errorf("%q is right", wrong.password)
		}
	}
}
