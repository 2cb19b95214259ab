package archive

import (
	"context"
	"errors"
	"fmt"
)

// Rewritten is what a Rewrite has found and done.
type Rewritten struct {
	Good    int    // parts that are as they should be
	Written []Name // parts that were damaged, and written again beside the damaged ones
}

// Rewrite reads all parts of an archive, and writes each one that has no good copy
// again, with commits from the log. Nothing that is there is touched. Parts that
// are missing are no matter for it: Backup writes them.
func Rewrite(ctx context.Context, a *Archive, cfg Config) (*Rewritten, error) {
	if err := a.Belongs(ctx, cfg.Ledger, false); err != nil {
		return nil, err
	}
	if err := a.Refresh(ctx); err != nil {
		return nil, err
	}
	done, c := &Rewritten{}, &uploader{archive: a, cfg: cfg}
	names, _ := a.walk(0)
	at := Beginning()
	for _, name := range names {
		after, err := c.rewrite(ctx, at, name, done)
		if err != nil {
			return done, err
		}
		at = after
	}
	return done, nil
}

// rewrite reads a part, and writes it again if it must. It returns where the log
// stands after it.
func (c *uploader) rewrite(ctx context.Context, at Position, name Name, done *Rewritten) (Position, error) {
	file, err := scratch(c.cfg.Folder)
	if err != nil {
		return at, err
	}
	defer func() { _ = file.Close() }() // it is not read any more
	for _, same := range c.archive.copies(name) {
		header, trailer, err := c.archive.get(ctx, same, file)
		if errors.Is(err, ErrPart) {
			continue
		}
		if err != nil {
			return at, err
		}
		if header.Prev != at.Digest {
			return at, fmt.Errorf("%w: %s/%s does not follow the part before it", ErrFork, c.archive, same)
		}
		done.Good++
		return Position{trailer.Head, trailer.Tree}, nil
	}
	c.cfg.Bounds = Bounds{Records: 1 << 62, Bytes: 1 << 62, Age: 1 << 62} // it ends where the damaged one does
	c.packer = &packer{cfg: c.cfg, pace: paceOf(c.cfg.Rate)}
	defer c.packer.close()
	part, err := c.packer.next(ctx, at, name.Last.Sequence+1)
	switch {
	case err != nil:
		return at, err
	case part == nil || part.Last != name.Last:
		return at, fmt.Errorf("%w: %s/%s is damaged, and the log does not have its commits with that digest", ErrFork, c.archive, name)
	}
	if err := c.put(ctx, part); err != nil {
		return at, err
	}
	done.Written = append(done.Written, name)
	return part.after, nil
}
