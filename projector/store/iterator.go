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

// The moves of an Iterator are those of a pebble.Iterator.

func (c *Iterator) First() (ok bool)            { defer c.moved(&ok); return c.it.First() }
func (c *Iterator) Last() (ok bool)             { defer c.moved(&ok); return c.it.Last() }
func (c *Iterator) Next() (ok bool)             { defer c.moved(&ok); return c.it.Next() }
func (c *Iterator) Prev() (ok bool)             { defer c.moved(&ok); return c.it.Prev() }
func (c *Iterator) SeekGE(key []byte) (ok bool) { defer c.moved(&ok); return c.it.SeekGE(key) }
func (c *Iterator) SeekLT(key []byte) (ok bool) { defer c.moved(&ok); return c.it.SeekLT(key) }
func (c *Iterator) Key() []byte                 { return c.it.Key() }

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

// close closes the iterator.
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
