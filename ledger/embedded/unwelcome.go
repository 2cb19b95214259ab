package embedded

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Why the other servers of a cluster have nothing to do with this one. NATS
// says so in its log only, and tries again for ever.
var (
	// ErrSecret: they have another secret.
	ErrSecret = errors.New("embedded: the other servers have another secret")
	// ErrSameName: one of them has this server's name.
	ErrSameName = errors.New("embedded: another server has this name")
)

// refusedFor is how long every server that is reached must have refused the
// secret: one that is being given a new one may be the exception.
const refusedFor = 5 * time.Second

// unwelcome is what NATS's log has said about that.
type unwelcome struct {
	member string // this server's name; empty: there is no cluster

	mu       sync.Mutex
	refused  time.Time // since when servers refuse the secret; guarded by mu
	by       string    // the one that did last; guarded by mu
	sameName bool      // guarded by mu
}

// note takes note of lines that say so. That a stranger was refused here says
// nothing: only a server that this one has called on, because --cluster names
// it, is believed.
func (u *unwelcome) note(text string) {
	if u.member == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case strings.Contains(text, "Route Error") && strings.Contains(text, "Authorization Violation"):
		if u.refused.IsZero() {
			u.refused = time.Now()
		}
		u.by, _, _ = strings.Cut(strings.TrimSpace(text), " ")
	case strings.Contains(text, fmt.Sprintf("Remote server has a duplicate name: %q", u.member)):
		u.sameName = true
	}
}

// Unwelcome says why the other servers of the cluster do not take this one as
// one of them, or nil. The error wraps ErrSecret or ErrSameName.
func (s *Server) Unwelcome() error {
	u := &s.lines.unwelcome
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sameName {
		return fmt.Errorf("%w: %s", ErrSameName, u.member)
	}
	if s.Peers() > 0 || u.refused.IsZero() || time.Since(u.refused) < refusedFor {
		return nil
	}
	return fmt.Errorf("%w: %s refuses this one's", ErrSecret, u.by)
}
