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
	"sync"
	"sync/atomic"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// arriving is a copy on its way into a folder, wherever it comes from.
type arriving struct {
	log    ledger.Log
	folder Folder
	from   string
	tell   func(Progress) // nil: nobody wants to know
	// fetch writes a file, whose place in the manifest is given from 1 on, and
	// compares it with its checksum. It calls came.
	fetch func(ctx context.Context, number int, one file, out io.Writer) error
	total int64
	done  atomic.Int64
}

// take brings the files of a copy that stands in the log, and makes sure of each
// of them and of the whole.
func (a *arriving) take(ctx context.Context, m *manifest) (*Copy, error) {
	if err := a.inLog(ctx, m); err != nil {
		return nil, err
	}
	if err := a.folder.begin(); err != nil {
		return nil, err
	}
	a.total = m.bytes()
	if err := a.fetchAll(ctx, m); err != nil {
		return nil, err
	}
	return a.put(m)
}

// inLog compares where the copy stands with the log, which is what counts.
func (a *arriving) inLog(ctx context.Context, m *manifest) error {
	for _, head := range []ledger.Head{m.State, m.Models.Head} {
		err := a.log.Read(ctx, head.Sequence, head.Sequence, func(e ledger.Entry) error {
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

// fetchAll fetches all files, the largest first, some at a time.
func (a *arriving) fetchAll(ctx context.Context, m *manifest) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	places := make([]int, len(m.Files))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(m.Files[b].Bytes, m.Files[a].Bytes) })
	queue := make(chan int, len(places))
	for _, place := range places {
		queue <- place
	}
	close(queue)
	var writing sync.Mutex // two files may be the same one
	coming := make(map[string]bool)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for place := range queue {
				one := m.Files[place]
				writing.Lock()
				twice := coming[one.Sum]
				coming[one.Sum] = true
				writing.Unlock()
				if twice {
					a.came(one.Bytes)
					continue
				}
				if err := a.fetchFile(ctx, place+1, one); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// came tells of bytes that have come.
func (a *arriving) came(n int64) {
	if done := a.done.Add(n); a.tell != nil {
		a.tell(Progress{From: a.from, Bytes: done, Of: a.total})
	}
}

// fetchFile fetches a file, unless it has come before, and makes sure that it is
// good and on the disk.
func (a *arriving) fetchFile(ctx context.Context, number int, one file) error {
	path := a.folder.partPath(one)
	if there, err := exists(path); err != nil || there {
		a.came(one.Bytes)
		return err
	}
	out, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	err = a.fetch(ctx, number, one, out)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil && filepath.Ext(one.Name) == ".sst" {
		table := path + ".sst"
		if err = os.Rename(out.Name(), table); err == nil {
			err = projector.CheckTable(ctx, table)
		}
		if err == nil {
			return os.Rename(table, path)
		}
		return errors.Join(err, os.Remove(table))
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return os.Rename(out.Name(), path)
}

// put checks all that has come as a whole, and makes it the copy that counts.
func (a *arriving) put(m *manifest) (*Copy, error) {
	if err := a.folder.assemble(m); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	at, err := projector.Inspected(a.folder.path(makingName, modelsName))
	if err != nil {
		return nil, err
	}
	if at != m.Models {
		return nil, fmt.Errorf("%w: its read models are at %d (%.8s), and not at %d (%.8s)",
			errBad, at.Head.Sequence, at.Head.Digest, m.Models.Head.Sequence, m.Models.Head.Digest)
	}
	state, err := snapshots.Read(a.folder.path(makingName, stateName))
	if errors.Is(err, snapshots.ErrDamaged) {
		return nil, fmt.Errorf("%w: %w", errBad, err)
	}
	if err != nil {
		return nil, err
	}
	if state.Head() != m.State {
		return nil, fmt.Errorf("%w: its State is at %d, and not at %d", errBad, state.Head().Sequence, m.State.Sequence)
	}
	if err := a.folder.decide(m.State.Sequence); err != nil {
		return nil, err
	}
	return &Copy{State: state, Models: at, From: a.from, Bytes: a.total}, nil
}
