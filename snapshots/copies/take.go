package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/store"
	"github.com/allot-project/allot/snapshots"
)

// atOnce is how many files come at a time.
const atOnce = 4

// arriving is a copy on its way into a folder, wherever it comes from.
type arriving struct {
	*JoinConfig
	found
	into  *os.Root
	total int64
	done  atomic.Int64
}

// take brings the files of a copy that stands in the log, and makes sure of each
// of them and of the whole.
func (a *arriving) take(ctx context.Context, m *manifest) (got *Copy, err error) {
	if err := a.inLog(ctx, m); err != nil {
		return nil, err
	}
	if a.into, err = a.Folder.begin(); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	defer func() { err = errors.Join(err, a.into.Close()) }()
	if err := a.takeAll(ctx, m); err != nil {
		return nil, err
	}
	return a.put(m)
}

// inLog compares where the copy stands with the log, which is what counts.
func (a *arriving) inLog(ctx context.Context, m *manifest) error {
	for _, head := range []ledger.Head{m.State, m.Models.Head} {
		err := a.Log.Read(ctx, head.Sequence, head.Sequence, func(e ledger.Entry) error {
			if got := ledger.DigestOf(e.Data); got != head.Digest {
				return fmt.Errorf("%w: it is of a log whose commit %d has digest %.8s, and in ours it has %.8s",
					errBad, head.Sequence, head.Digest, got)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeAll brings all files, the largest first, some at a time. What several of them
// hold comes once.
func (a *arriving) takeAll(ctx context.Context, m *manifest) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	files := slices.Clone(m.Files)
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Sum.String(), b.Sum.String()))
	})
	for i, one := range files {
		if i > 0 && files[i-1].Sum == one.Sum {
			a.came(one.Size)
			continue
		}
		group.Go(func() error { return a.takeFile(ctx, one) })
	}
	return group.Wait()
}

func (a *arriving) came(n int64) {
	if done := a.done.Add(n); a.Tell != nil {
		a.Tell(Progress{From: a.String(), Bytes: done, Of: a.total})
	}
}

// Write implements io.Writer for what only counts what comes.
func (a *arriving) Write(p []byte) (int, error) {
	a.came(int64(len(p)))
	return len(p), nil
}

// takeFile brings a file, unless it has come before, and makes sure that it is
// good and on the disk.
func (a *arriving) takeFile(ctx context.Context, one file) error {
	path := partPath(one.Sum)
	if a.isHere(ctx, one, path) {
		a.came(one.Size)
		return nil
	}
	part := path + ".part"
	if err := a.fetch(ctx, one, part); err != nil {
		return errors.Join(err, a.into.RemoveAll(part))
	}
	return a.into.Rename(part, path)
}

// isHere reports whether a file has come before, also to a former process.
func (a *arriving) isHere(ctx context.Context, one file, path string) bool {
	if info, err := a.into.Lstat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	in, err := a.into.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = in.Close() }() // nothing was written
	return compareCopy(ctx, io.Discard, in, one) == nil
}

func (a *arriving) fetch(ctx context.Context, one file, part string) error {
	if err := a.into.RemoveAll(part); err != nil {
		return err
	}
	body, err := a.open(ctx, one.Sum)
	if err != nil {
		return err
	}
	out, err := a.into.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return errors.Join(err, body.Close())
	}
	err = compareCopy(ctx, io.MultiWriter(out, a), body, one)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close(), body.Close())
	if err == nil && one.isTable() {
		err = store.CheckTable(ctx, filepath.Join(a.into.Name(), part))
	}
	return err
}

// put checks all that has come as a whole, and makes it the copy that counts.
func (a *arriving) put(m *manifest) (*Copy, error) {
	if err := assemble(a.into, m); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	at, err := projector.Inspected(a.Folder.path(makingName, modelsName))
	if err != nil {
		return nil, err
	}
	if at != m.Models {
		return nil, fmt.Errorf("%w: its read models are at %d (%.8s), and not at %d (%.8s)",
			errBad, at.Head.Sequence, at.Head.Digest, m.Models.Head.Sequence, m.Models.Head.Digest)
	}
	state, err := snapshots.Read(a.Folder.path(makingName, snapshots.Name(m.State.Sequence)))
	if errors.Is(err, snapshots.ErrDamaged) {
		return nil, fmt.Errorf("%w: %w", errBad, err)
	}
	if err != nil {
		return nil, err
	}
	if state.Head() != m.State {
		return nil, fmt.Errorf("%w: its State is at %d, and not at %d", errBad, state.Head().Sequence, m.State.Sequence)
	}
	if err := a.Folder.decide(); err != nil {
		return nil, err
	}
	return &Copy{State: state, Models: at, From: a.String(), Bytes: a.total}, nil
}
