package embedded

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Why the other servers of a cluster reject this one. NATS only logs that, and
// tries again for ever.
var (
	// ErrSecret means that the others have another secret.
	ErrSecret = errors.New("embedded: the other servers have another secret")
	// ErrSameName means that another server has this server's name.
	ErrSameName = errors.New("embedded: another server has this name")
)

// refusedFor is how long every server that this one reaches must have refused the
// secret. A server that is just being given a new one may be the exception.
const refusedFor = 5 * time.Second

// joinRefused is what NATS has logged about that.
type joinRefused struct {
	member string // this server's name; empty: a single server

	mu       sync.Mutex
	refused  time.Time // since when servers refuse the secret; guarded by mu
	by       string    // the server that refused last; guarded by mu
	sameName bool      // guarded by mu
}

// note reads lines about it. If this server refused a stranger, that says
// nothing; it believes only servers that it has called, because --cluster names
// these.
func (u *joinRefused) note(text string) {
	if u.member == "" {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case strings.Contains(text, "Route Error") && strings.Contains(text, "Authorization Violation"),
		strings.Contains(text, "TLS route handshake error: "+errCalled.Error()):
		if u.refused.IsZero() {
			u.refused = time.Now()
		}
		u.by, _, _ = strings.Cut(strings.TrimSpace(text), " ")
	case strings.Contains(text, fmt.Sprintf("Remote server has a duplicate name: %q", u.member)):
		u.sameName = true
	}
}

// JoinRefused returns why the other servers of the cluster do not accept this one,
// or nil. The error wraps ErrSecret or ErrSameName.
func (s *Server) JoinRefused() error {
	u := &s.lines.joinRefused
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
