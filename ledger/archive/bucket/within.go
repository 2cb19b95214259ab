package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// A network file system that has lost its server answers no call, not even Stat, and no call
// can be taken back. So each one is made by a goroutine of its own, and its caller waits no
// longer than its context. At most stuckCalls of a folder are left behind like that.
const stuckCalls = 8

// within makes a call to a folder's file system. It makes none, and so touches nothing that an
// earlier call may still use, once the context has ended.
func within[T any](ctx context.Context, f *folder, call func() (T, error)) (result T, err error) {
	late := func() error { return fmt.Errorf("%w: %s does not answer: %w", ErrUnavailable, f, ctx.Err()) }
	if ctx.Err() != nil {
		return result, late()
	}
	select {
	case f.calls <- struct{}{}:
	case <-ctx.Done():
		return result, late()
	}
	type answer struct {
		result T
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		defer func() { <-f.calls }()
		result, err := call()
		answers <- answer{result, err}
	}()
	select {
	case a := <-answers:
		return a.result, a.err
	case <-ctx.Done():
		go func() {
			if file, is := any((<-answers).result).(io.Closer); is {
				_ = file.Close() // it was opened too late
			}
		}()
		return result, late()
	}
}

type reading struct {
	ctx  context.Context
	of   *folder
	file *os.File
	left []byte // was read and not handed out
	own  []byte // what a call reads into, which may come back late
}

// readingBytes is how much one call reads.
const readingBytes = 256 << 10

func (r *reading) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		n, err := within(r.ctx, r.of, func() (int, error) { return r.file.Read(r.own) })
		if r.left = r.own[:n]; n == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				err = folderError(err)
			}
			return 0, err
		}
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// Close implements io.Closer. It waits for no disk: a file that was only read has nothing to
// report at its end.
func (r *reading) Close() error {
	go func() { _ = r.file.Close() }()
	return nil
}
