package embedded

import "sync"

// errorLine keeps the last error that NATS logged, for messages about a failed
// start.
type errorLine struct {
	mu  sync.Mutex
	err error
}

func (e *errorLine) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.err = err
}

func (e *errorLine) get() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
