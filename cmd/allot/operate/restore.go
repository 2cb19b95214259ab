package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/ledger/system"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots/copies"
)

// Restore is "allot restore": it begins a data folder with what archives hold of a log.
type Restore struct {
	archivesFlag  `embed:""`
	keyFlag       `embed:""`
	Data          string `help:"Data folder, without a log or with an unfinished restore of the same log. With --check: a folder for the drill, which is removed afterwards; default: one among the temporary files." type:"path" placeholder:"DIR"`
	At            string `help:"Restore the log as of this sequence or time (RFC 3339); default: all of it." placeholder:"SEQUENCE|TIME"`
	WithoutCopies bool   `help:"Leave copies of State and read models in the archives alone: the first start replays the log."`
	Check         bool   `help:"Only a drill: restore aside, replay everything, compare with the archive and its signatures, and remove it."`
}

// Run restores. Every commit keeps its sequence, and is verified before it is
// written. An interrupted run goes on where it was.
func (c *Restore) Run(ctx context.Context) (err error) {
	if c.Data == "" && !c.Check {
		return errors.New("--data names the folder to restore into; only a drill (--check) needs none")
	}
	keys, err := c.verifiers()
	if err != nil {
		return err
	}
	list, err := c.open(ctx)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "allot-restore-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	log := archive.NewLog(list, folder, cachedParts)
	head, err := c.end(ctx, log)
	if err != nil {
		return err
	}
	if c.Data == "" {
		c.Data = filepath.Join(folder, "drill")
	}
	if c.Check {
		if _, err := os.Stat(c.Data); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s exists, and a drill needs a folder that it may remove: name another one", c.Data)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.Data)) }()
	}
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err = c.fill(ctx, d, log, head); err == nil {
		err = c.keep(ctx, d, log, head)
	}
	took := time.Since(begun)
	if err == nil && !c.Check && !c.WithoutCopies {
		c.bringCopy(ctx, d, log, list, head.Sequence)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	fmt.Printf("%s holds the log up to sequence %d, durably; digest %s; %v\n", c.Data, head.Sequence, head.Digest,
		took.Round(time.Millisecond))
	if !c.Check && keys == nil {
		return nil
	}
	return c.compare(ctx, log, head, keys != nil)
}

func (c *Restore) end(ctx context.Context, log *archive.Log) (ledger.Head, error) {
	last, err := log.Last(ctx)
	if err != nil {
		return ledger.Head{}, err
	}
	to := last
	if n, err := strconv.ParseUint(c.At, 10, 64); err == nil {
		to = n
	} else if c.At != "" {
		at, err := time.Parse(time.RFC3339Nano, c.At)
		if err != nil {
			return ledger.Head{}, fmt.Errorf("--at %q is neither a sequence nor a time such as 2026-11-22T14:00:00Z", c.At)
		}
		if to, err = log.LastBefore(ctx, at.UnixNano()); err != nil {
			return ledger.Head{}, err
		}
	}
	if to < 1 || to > last {
		return ledger.Head{}, fmt.Errorf("--at %s: the archive holds the sequences 1 to %d; nothing was changed", c.At, last)
	}
	return chain.HeadBefore(ctx, log, to+1)
}

// fill copies the log, once the folder is known to be free for it.
func (c *Restore) fill(ctx context.Context, d *datafolder.Folder, log *archive.Log, head ledger.Head) error {
	if err := d.NeverServed(); err != nil {
		return err
	}
	into := blocks.Import{From: strings.Join(c.From, ", "), Last: head}
	if err := datafolder.Fill(ctx, d.Files(), into, log.Read, "restoring"); err != nil {
		return err
	}
	return d.Files().EndImport(head)
}

// keep writes the newest signed checkpoint of what was restored into the folder.
func (c *Restore) keep(ctx context.Context, d *datafolder.Folder, log *archive.Log, head ledger.Head) error {
	signed, err := log.Checkpoints(ctx)
	if err != nil {
		return err
	}
	return keepCheckpoints(d, signed, head.Sequence)
}

// compare reads what was restored back from the disk, replays it, and compares it with the archive.
func (c *Restore) compare(ctx context.Context, log *archive.Log, head ledger.Head, signed bool) (err error) {
	restored, closeLog, err := openData(ctx, c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	show, end := cli.ProgressBar("replaying what was restored")
	r, err := check.Replay(ctx, restored, head.Sequence, "", show, nil)
	end()
	if err != nil {
		return err
	}
	if r.State.Head() != head {
		return fmt.Errorf("what was restored ends with %v, and the archive with %v", r.State.Head(), head)
	}
	state, err := r.State.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("state        %s\ntree         %d records, root %s\n", state, r.Tree.Size(), r.Tree.Root())
	if !signed {
		fmt.Println(notChecked)
		return nil
	}
	return c.compareSigned(ctx, log, r)
}

// compareSigned compares with the newest signed checkpoint that is of the restored commits.
func (c *Restore) compareSigned(ctx context.Context, log *archive.Log, r *check.Replayed) error {
	keys, err := c.verifiers()
	if err != nil {
		return err
	}
	signed, err := log.Checkpoints(ctx)
	if err != nil {
		return err
	}
	for _, one := range signed {
		checkpoint, err := proof.Open(one, keys)
		if err != nil {
			return err
		}
		if checkpoint.Head != r.State.Head() {
			continue
		}
		if *checkpoint != *r.Checkpoint() {
			return fmt.Errorf("%w: the signed checkpoint of sequence %d says %d records with the root %s", archive.ErrFork,
				checkpoint.Sequence, checkpoint.Size, checkpoint.Root)
		}
		fmt.Printf("checkpoints  one vouches for sequence %d and everything before it\n", checkpoint.Sequence)
		return nil
	}
	fmt.Printf("checkpoints  none is of sequence %d: allot verify --archive checks those before it\n", r.State.Head().Sequence)
	return nil
}

// bringCopy brings a copy from the archives to a folder whose log was restored, so
// that the first start replays only what came after it. The log is whole without it.
func (c *Restore) bringCopy(
	ctx context.Context, d *datafolder.Folder, log *archive.Log, list []*archive.Archive, last uint64,
) {
	models := d.Path(datafolder.ReadModels)
	got, err := func() (*copies.Copy, error) {
		keys, err := c.verifiers()
		if err != nil {
			return nil, err
		}
		free, _, err := system.RoomAt(models)
		if err != nil {
			return nil, err
		}
		folder := d.CopyFolder()
		show, end := cli.ProgressBar("bringing State and read models")
		defer end()
		got, err := copies.Join(ctx, copies.JoinConfig{
			Stores: archive.Stores(list), Unsign: cli.OpenSigned(keys), Log: log, Folder: folder, UpTo: last, Needed: true,
			Room: func() int64 { return free }, Logger: cli.Warnings(),
			Tell: func(p copies.Progress) { show(uint64(p.Bytes), uint64(p.Of)) },
		})
		if err == nil {
			err = errors.Join(os.MkdirAll(folder.Snapshots, 0o750), folder.Finish())
		}
		return got, err
	}()
	if err != nil {
		fmt.Printf("the first start replays the log: %v\n", errors.Join(err, os.RemoveAll(models)))
		return
	}
	fmt.Printf("State as of sequence %d and read models as of %d have come from %s: the first start replays what is after them\n",
		got.State.Head().Sequence, got.Models.Head.Sequence, got.From)
}
