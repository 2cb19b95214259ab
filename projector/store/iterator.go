package store

import (
	"github.com/cockroachdb/pebble/v2"
)

// Iterator goes through keys. What it cannot read condemns the store, and Finish returns it. Until
// then it keeps the store open.
type Iterator struct {
	it *pebble.Iterator
	of *Store
}

// Iterate opens an iterator over the keys from lower (inclusive) to upper (exclusive). The caller
// calls Finish.
func (s *Store) Iterate(lower, upper []byte) (found *Iterator, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer func() {
		if found == nil {
			s.users.leave()
		}
	}()
	defer s.recovered(&err)
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, s.Broke(err)
	}
	return &Iterator{it, s}, nil
}

// moved notes why a move came to nothing: the iterator forgets its error with the next move to a key.
func (c *Iterator) moved(ok *bool) {
	if reason := recover(); reason != nil {
		*ok = false
		c.of.Condemn(panicked(reason))
	} else if !*ok {
		if err := c.it.Error(); err != nil {
			c.of.Condemn(err)
		}
	}
}

// First goes to the first key, and reports whether there is one.
func (c *Iterator) First() (ok bool) { defer c.moved(&ok); return c.it.First() }

// Last goes to the last key.
func (c *Iterator) Last() (ok bool) { defer c.moved(&ok); return c.it.Last() }

// Next goes to the next key.
func (c *Iterator) Next() (ok bool) { defer c.moved(&ok); return c.it.Next() }

// Prev goes to the key before.
func (c *Iterator) Prev() (ok bool) { defer c.moved(&ok); return c.it.Prev() }

// SeekGE goes to the first key that is not below one.
func (c *Iterator) SeekGE(key []byte) (ok bool) { defer c.moved(&ok); return c.it.SeekGE(key) }

// SeekLT goes to the last key that is below one.
func (c *Iterator) SeekLT(key []byte) (ok bool) { defer c.moved(&ok); return c.it.SeekLT(key) }

// Key returns the present key, until the next move.
func (c *Iterator) Key() []byte { return c.it.Key() }

// Value returns nil at the end, and if the value cannot be read: Finish returns
// the error.
func (c *Iterator) Value() []byte {
	value, err := c.it.ValueAndErr()
	if err != nil {
		c.of.Condemn(err)
		return nil
	}
	return value
}

func (c *Iterator) close() (err error) {
	defer c.of.users.leave()
	defer func() {
		if reason := recover(); reason != nil {
			err = panicked(reason)
		}
	}()
	return c.it.Close()
}

// Finish closes the iterator and returns the first error, which may be err. What was read counts
// only if the store was good to the end.
func (c *Iterator) Finish(err error) error {
	if closing := c.close(); closing != nil {
		c.of.Condemn(closing)
	}
	return c.of.Judged(err)
}
