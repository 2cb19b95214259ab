// Package intake reads the bodies of requests with memory from the client's account. A
// body's weight, the memory that it will take once decoded, is estimated while it
// arrives. Its length would not do: 16 MiB of "[1,1,..." are eight million values.
package intake

import (
	"errors"
	"fmt"
	"io"

	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/commands/fair"
)

// ErrTooLarge means that the body has more bytes, or would take more memory, than one
// request may.
var ErrTooLarge = errors.New("the body is too large")

// prices are the costs of the parts of a decoded JSON document, in bytes. A value
// costs an interface, a number or string, and its place in a list or map, of
// which there may be two while the document is validated. A byte of the body
// costs itself, and its copy in a string.
var prices = document.Prices{Byte: 3, Object: 448, Array: 96, Element: 256, Pair: 256, Most: fair.MaxWeight}

// piece is how much of a body is read at a time, in bytes. Most bodies fit into one.
const piece = 64 << 10

// Read reads a JSON body of at most limit bytes within a lease. The client
// announced a length, which is -1 if it is unknown. It fails with ErrTooLarge, or with
// fair.ErrBusy.
//
// Memory is reserved for what has arrived and was weighed, never for what was
// only announced. Otherwise large bodies that are refused at their first bytes
// would leave garbage of many times the size of the lease. It is doubled up to what
// was announced: to grow by a quarter, as append does, would copy a body five times.
func Read(lease *fair.Lease, from io.Reader, announced, limit int64) ([]byte, error) {
	if announced > limit {
		return nil, tooLong(limit)
	}
	if err := lease.Grow(announced * int64(prices.Byte)); err != nil {
		return nil, err
	}
	first := int64(8 << 10)
	if announced >= 0 {
		first = min(announced+1, piece) // one byte in which to find the end
	}
	body := make([]byte, 0, first)
	scale := document.Scale{Prices: prices}
	for {
		if len(body) == cap(body) {
			more := int64(len(body))
			if announced >= more {
				more = min(more, announced+1-more)
			}
			body = append(make([]byte, 0, int64(len(body))+more), body...)
		}
		n, err := from.Read(body[len(body):min(cap(body), len(body)+piece)])
		came := body[len(body) : len(body)+n]
		if body = body[:len(body)+n]; int64(len(body)) > limit {
			return nil, tooLong(limit)
		}
		if err := weigh(lease, &scale, came); err != nil {
			return nil, err
		}
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the body could not be read: %w", err)
		}
	}
}

func tooLong(limit int64) error {
	return fmt.Errorf("%w: it has more than %d bytes", ErrTooLarge, limit)
}

// weigh reserves memory for the next piece of a body.
func weigh(lease *fair.Lease, scale *document.Scale, piece []byte) error {
	weight, err := scale.Add(piece)
	switch {
	case errors.Is(err, document.ErrTooHeavy):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return err
	}
	return lease.Grow(int64(weight))
}
