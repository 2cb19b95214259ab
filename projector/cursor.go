package projector

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// cursor is an iterator over read models. An error in it condemns them, and
// finish returns it. An open cursor keeps the read models open.
type cursor struct {
	it *pebble.Iterator
	m  *models
}

// cursor opens an iterator over the keys from lower (inclusive) to upper
// (exclusive).
func (m *models) cursor(lower, upper []byte) (c *cursor, err error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer func() {
		if c == nil {
			m.users.leave()
		}
	}()
	defer m.recovered(&err)
	it, err := m.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, m.broke(err)
	}
	return &cursor{it: it, m: m}, nil
}

// get reads the value of one key.
func (m *models) get(key []byte, read func(value []byte) error) (found bool, err error) {
	if err := m.enter(); err != nil {
		return false, err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	value, closer, err := m.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, m.fault()
	}
	if err != nil {
		return false, m.broke(err)
	}
	err = read(value)
	if closing := closer.Close(); err == nil && closing != nil {
		err = m.broke(closing)
	}
	return true, m.judged(err)
}

// judged returns the error for a reader. Nothing that was read counts if the read
// models turned out to be damaged meanwhile, or by this very reading.
func (m *models) judged(err error) error {
	if errors.Is(err, ErrDamaged) {
		m.condemn(err)
	}
	if fault := m.fault(); fault != nil {
		return fault
	}
	return err
}

// moved notes why a move came to nothing: the iterator forgets its error with the next move to a key.
func (c *cursor) moved(ok *bool) {
	if reason := recover(); reason != nil {
		*ok = false
		c.m.condemn(panicked(reason))
	} else if !*ok {
		if err := c.it.Error(); err != nil {
			c.m.condemn(err)
		}
	}
}

func panicked(reason any) error { return fmt.Errorf("pebble: panic: %v", reason) }

// The moves of a cursor are those of a pebble.Iterator.

func (c *cursor) First() (ok bool)            { defer c.moved(&ok); return c.it.First() }
func (c *cursor) Last() (ok bool)             { defer c.moved(&ok); return c.it.Last() }
func (c *cursor) Next() (ok bool)             { defer c.moved(&ok); return c.it.Next() }
func (c *cursor) Prev() (ok bool)             { defer c.moved(&ok); return c.it.Prev() }
func (c *cursor) SeekGE(key []byte) (ok bool) { defer c.moved(&ok); return c.it.SeekGE(key) }
func (c *cursor) SeekLT(key []byte) (ok bool) { defer c.moved(&ok); return c.it.SeekLT(key) }
func (c *cursor) Key() []byte                 { return c.it.Key() }

// Value returns nil at the end, and if the value cannot be read: finish returns
// the error.
func (c *cursor) Value() []byte {
	value, err := c.it.ValueAndErr()
	if err != nil {
		c.m.condemn(err)
		return nil
	}
	return value
}

// close closes the iterator.
func (c *cursor) close() (err error) {
	defer c.m.users.leave()
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
	}()
	return c.it.Close()
}

// finish closes a cursor and returns its first error. What was read counts only
// if the read models were good to the end.
func finish(c *cursor, err error) error {
	if closing := c.close(); closing != nil {
		c.m.condemn(closing)
	}
	return c.m.judged(err)
}
