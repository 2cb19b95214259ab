package datafolder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
)

// ReadLog reads the commits from..to of a log.
type ReadLog func(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error

// Fill copies commits from sequence 1 on into a store, or goes on where it was
// interrupted. When it returns without an error all commits are durable. No
// server opens the store until the caller ends the import.
func Fill(ctx context.Context, files blocks.Folder, job blocks.Import, read ReadLog, title string) error {
	if err := MayFill(ctx, files); err != nil {
		return err
	}
	if err := files.BeginImport(job); err != nil {
		return err
	}
	ns, err := embedded.Start(ctx, embedded.Config{
		// One sync at the end makes everything durable. Without it nothing
		// counts.
		StoreDir: files.Store, LazySync: true, Import: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	err = beginFill(ctx, ns, read)
	ns.Shutdown()
	if err != nil {
		return err
	}
	if err := fillFiles(ctx, files, job, read, title); err != nil {
		return err
	}
	return durable.SyncTree(files.Store)
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
		return fmt.Errorf("the log in %s has %d commits, but only an empty log can take an import: name another folder", files.Store, verdict.Commits)
	}
	return nil
}

// beginFill makes the stream, or checks that an interrupted copy was of the same
// log.
func beginFill(ctx context.Context, ns *embedded.Server, read ReadLog) error {
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
	return SameCommit(ctx, target, read, last)
}

// fillFiles appends the commits that are missing to the log's files, because a
// server takes many times as long. Then it reads everything back.
func fillFiles(ctx context.Context, files blocks.Folder, job blocks.Import, read ReadLog, title string) error {
	verdict, err := files.JudgeImport(ctx, blocks.JudgeOptions{})
	if err != nil {
		return err
	}
	filler, err := files.Fill(verdict.Report)
	if err != nil {
		return err
	}
	show, end := cli.ProgressBar(title)
	err = read(ctx, filler.Last()+1, job.Last.Sequence, func(e ledger.Entry) error {
		if len(e.Data) > embedded.MaxPayload {
			return fmt.Errorf("sequence %d: %w: the commit has %d bytes", e.Sequence, ledger.ErrTooLarge, len(e.Data))
		}
		if e.Sequence%showEvery == 0 {
			show(e.Sequence, job.Last.Sequence)
		}
		return filler.Append(e)
	})
	end()
	if err := errors.Join(err, filler.Close()); err != nil {
		return err
	}
	if verdict, err = files.JudgeImport(ctx, blocks.JudgeOptions{}); err != nil {
		return err
	}
	if verdict.Last != job.Last {
		return fmt.Errorf("the copy ends with sequence %d and the digest %.8s, and should with %d and %.8s", verdict.Last.Sequence,
			verdict.Last.Digest, job.Last.Sequence, job.Last.Digest)
	}
	return files.Settle(verdict.Report)
}

// showEvery is how many commits are copied between two steps of a progress bar.
const showEvery = 1000

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
		return fmt.Errorf(
			"an unfinished import left commits of another log, up to sequence %d: name an empty folder", sequence,
		)
	}
	return nil
}
