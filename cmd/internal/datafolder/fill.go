package datafolder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// ReadLog reads the commits from..to of a log.
type ReadLog func(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error

// Fill copies commits from sequence 1 on into a store, or goes on where it was interrupted. When it returns
// without an error all commits are durable. No server opens the store until the caller ends the import.
func Fill(ctx context.Context, files blocks.Folder, job blocks.Import, read ReadLog, title string) error {
	if err := MayFill(ctx, files); err != nil {
		return err
	}
	if err := files.BeginImport(job); err != nil {
		return err
	}
	err := publish(ctx, files, job, read, title)
	if errors.Is(err, blocks.ErrDamaged) { // a power cut has left a part of what was not synced
		if err = files.DiscardImport(); err == nil {
			err = publish(ctx, files, job, read, title)
		}
	}
	if err != nil {
		return err
	}
	// One sync at the end makes everything durable. Without it nothing counts.
	if err := durable.SyncTree(files.Store); err != nil {
		return err
	}
	return isFilled(ctx, files, job)
}

// MayFill refuses a store with a log that is no unfinished import.
func MayFill(ctx context.Context, files blocks.Folder) error {
	verdict, err := files.Judge(ctx, blocks.JudgeOptions{})
	switch {
	case errors.Is(err, blocks.ErrUnfinished):
		return nil
	case err != nil:
		return err
	case verdict.Report != nil && verdict.Commits > 0:
		return fmt.Errorf("the log in %s is not empty, and only an empty one can take an import: name another folder",
			files.Store)
	}
	return nil
}

// publish appends the commits that are missing through a NATS server, which syncs
// nothing before the end. What an interrupted import has left must be of the same log.
func publish(ctx context.Context, files blocks.Folder, job blocks.Import, read ReadLog, title string) error {
	ns, err := embedded.Start(ctx, embedded.Config{
		StoreDir: files.Store, LazySync: true, Import: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer ns.Shutdown()
	nc, err := ns.Connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	target, err := ns.OpenLog(ctx, nc, jetstream.Config{MayCreate: true})
	if err != nil {
		return err
	}
	last, err := target.Last(ctx)
	if err != nil {
		return err
	}
	if err := SameCommit(ctx, target, read, last); err != nil {
		return err
	}
	return Copy(ctx, read, last+1, job.Last.Sequence, target, title)
}

// isFilled reads everything back.
func isFilled(ctx context.Context, files blocks.Folder, job blocks.Import) error {
	verdict, err := files.JudgeImport(ctx, blocks.JudgeOptions{})
	if err != nil {
		return err
	}
	if verdict.Last != job.Last {
		return fmt.Errorf("the copy ends with sequence %d and the digest %.8s, and should with %d and %.8s", verdict.Last.Sequence,
			verdict.Last.Digest, job.Last.Sequence, job.Last.Digest)
	}
	return files.Settle(verdict.Report)
}

const (
	// bytesUnderWay bounds the bytes that a copy has on their way to the log, and commitWeight is what a commit
	// counts for besides its own, so that at most some thousands are under way.
	bytesUnderWay = 64 << 20
	commitWeight  = 32 << 10
	// showEvery is how many commits are copied between two steps of a progress bar.
	showEvery = 1000
)

// Copy appends every commit under its own sequence.
func Copy(ctx context.Context, read ReadLog, from, to uint64, target ledger.Log, title string) error {
	show, end := cli.ProgressBar(title)
	defer end()
	var failed sync.Once
	var failure error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := semaphore.NewWeighted(bytesUnderWay)
	err := read(ctx, from, to, func(e ledger.Entry) error {
		if len(e.Data) > target.MaxCommitBytes() {
			return fmt.Errorf("sequence %d: %w: the commit has %d bytes", e.Sequence, ledger.ErrTooLarge, len(e.Data))
		}
		weight := int64(len(e.Data)) + commitWeight
		if err := room.Acquire(ctx, weight); err != nil {
			return err
		}
		target.Append(e.Sequence, e.Data, func(err error) {
			if err != nil {
				failed.Do(func() { failure = err; cancel() })
			}
			room.Release(weight)
		})
		if e.Sequence%showEvery == 0 {
			show(e.Sequence, to)
		}
		return nil
	})
	if waited := room.Acquire(context.WithoutCancel(ctx), bytesUnderWay); waited != nil {
		return waited
	}
	if failure != nil {
		return failure
	}
	return err
}

// SameCommit checks that an interrupted import left commits of the same log.
func SameCommit(ctx context.Context, target ledger.Log, read ReadLog, sequence uint64) error {
	if sequence == 0 {
		return nil
	}
	var digests []ledger.Digest
	keep := func(e ledger.Entry) error {
		digests = append(digests, ledger.DigestOf(e.Data))
		return nil
	}
	if err := errors.Join(target.Read(ctx, sequence, sequence, keep), read(ctx, sequence, sequence, keep)); err != nil {
		return err
	}
	if len(digests) != 2 || digests[0] != digests[1] {
		return fmt.Errorf("an unfinished import left commits of another log, up to sequence %d: name an empty folder", sequence)
	}
	return nil
}
