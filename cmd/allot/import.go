package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/proof"
)

// importCommand is "allot import": it begins a new data folder with an archive,
// or with the contents of something else.
type importCommand struct {
	Archive   importArchiveCommand   `cmd:"" default:"withargs" help:"Begin a data folder with an exported log: allot import FILE --data DIR."`
	Placement importPlacementCommand `cmd:"" help:"Begin a data folder with the contents of a Placement."`
	Ironic    importIronicCommand    `cmd:"" help:"Begin a data folder with the nodes and node allocations of an Ironic, or add them to a ledger."`
	JSONL     importJSONLCommand     `cmd:"" name:"jsonl" help:"Begin a data folder with the contents of a file of JSON lines."`
}

// importArchiveCommand is "allot import FILE".
type importArchiveCommand struct {
	File string `arg:"" help:"File that allot export wrote, from sequence 1 on." type:"existingfile"`
	Data string `help:"Data folder, without a log or with an unfinished import of the same file." required:"" type:"path" placeholder:"DIR"`
}

// Run reads the whole file before it writes anything. Every commit keeps its
// sequence, so generations and addresses stay the same. Run refuses a log that
// has commits, unless they come from an earlier, unfinished run of this import.
func (c *importArchiveCommand) Run(ctx context.Context) (err error) {
	source, err := openArchive(c.File)
	if err != nil {
		return err
	}
	for _, signed := range source.trailer.Checkpoints {
		if _, err := unverified(signed); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
	}
	d, err := openDataFolder(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.neverServed(); err != nil {
		return err
	}
	from := filepath.Base(c.File)
	into := blocks.Import{From: from, Last: source.trailer.Head}
	if err := fillLog(ctx, d.files(), into, source.Read, "importing"); err != nil {
		return err
	}
	if err := c.keepCheckpoints(d, source); err != nil {
		return err
	}
	if err := d.files().EndImport(source.trailer.Head); err != nil {
		return err
	}
	fmt.Printf("%s holds %d commits; the last one's digest is %s\n", c.Data, source.last, source.trailer.Digest)
	return nil
}

// neverServed refuses a folder that a server has used.
func (d *dataFolder) neverServed() error {
	for _, remains := range []string{readModelFolder, snapshotsFolder} {
		if found, err := d.has(remains); err != nil || found {
			return errors.Join(err, fmt.Errorf("%s belonged to a server, because it has a folder %q: name an empty folder", d.dir, remains))
		}
	}
	return nil
}

// keepCheckpoints writes the signed checkpoints of the archive into the folder.
// allot verify checks who signed them.
func (c *importArchiveCommand) keepCheckpoints(d *dataFolder, source *archiveLog) error {
	if len(source.trailer.Checkpoints) == 0 {
		return nil
	}
	folder, err := proof.OpenFolder(d.path(checkpointsFolder))
	if err != nil {
		return err
	}
	for _, signed := range source.trailer.Checkpoints {
		checkpoint, err := unverified(signed)
		if err == nil {
			err = folder.Save(checkpoint.Sequence, signed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readLog reads the commits from..to of a log.
type readLog func(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error

// fillLog copies commits from sequence 1 on into a store, or goes on where it was
// interrupted. When it returns without an error all commits are durable. No
// server opens the store until the caller ends the import.
func fillLog(ctx context.Context, files blocks.Folder, job blocks.Import, read readLog, title string) error {
	if err := mayFill(ctx, files); err != nil {
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

// mayFill refuses a store with a log that is no unfinished import.
func mayFill(ctx context.Context, files blocks.Folder) error {
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
func beginFill(ctx context.Context, ns *embedded.Server, read readLog) error {
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
	return sameCommit(ctx, target, read, last)
}

// fillFiles appends the commits that are missing to the log's files, because a
// server takes many times as long. Then it reads everything back.
func fillFiles(ctx context.Context, files blocks.Folder, job blocks.Import, read readLog, title string) error {
	verdict, err := files.JudgeImport(ctx, blocks.JudgeOptions{})
	if err != nil {
		return err
	}
	filler, err := files.Fill(verdict.Report)
	if err != nil {
		return err
	}
	show, end := progressBar(title)
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

// sameCommit checks that an interrupted import left commits of the same log.
func sameCommit(ctx context.Context, target ledger.Log, read readLog, sequence uint64) error {
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

// bytesUnderWay bounds the bytes that a copy has on their way to the log.
const bytesUnderWay = 64 << 20

// copyLog appends every commit under its own sequence.
func copyLog(ctx context.Context, read readLog, from, to uint64, target ledger.Log, title string) error {
	show, end := progressBar(title)
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
		show(e.Sequence, to)
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

// commitWeight is what a commit under way counts for besides its bytes, so that
// at most some thousands are under way.
const commitWeight = 32 << 10
