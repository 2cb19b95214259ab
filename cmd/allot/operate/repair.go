package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// mending are the flags of what mends a log.
type mending struct {
	Data     string   `help:"Data folder of a server that is not running." required:"" type:"existingdir" placeholder:"DIR"`
	Archive  []string `help:"A copy of the log, or what is left of one: another server's data folder, a folder with a log that was set aside, a file that allot export wrote, or the URL of an archive. Can be repeated: each commit comes from the first copy that has it whole." placeholder:"FOLDER|FILE|URL"`
	NATSURL  string   `name:"nats-url" help:"NATS of a running server with the same log: take missing commits from it." placeholder:"URL"`
	CutAfter uint64   `help:"Give up all commits after this sequence. They stay in a folder of their own." placeholder:"SEQUENCE"`
}

// Repair is "allot repair": with allot cluster heal the only command that may remove anything
// from a log. It never changes the damaged files. It writes a good log beside them, sets
// them aside, and puts the good log in their place.
type Repair struct {
	mending `embed:""`
}

// Run lists the damage. With copies of the log, or a sequence to cut after, it also mends the log.
func (c *Repair) Run(ctx context.Context) (err error) {
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if done, err := finishRepair(ctx, d); done || err != nil {
		return err
	}
	named := len(c.Archive) > 0 || c.NATSURL != ""
	verdict, trouble := d.Judge(ctx, blocks.CheckOptions{})
	if errors.Is(trouble, blocks.ErrUnfinished) {
		return trouble
	}
	if trouble == nil && c.CutAfter == 0 && (!named || verdict.Report != nil) {
		fmt.Println("nothing is wrong with the log's files")
		return nil
	}
	if !named && c.CutAfter == 0 {
		return errors.Join(survey(ctx, d), trouble)
	}
	if of, err := ofCluster(d); of || err != nil {
		return errors.Join(err, fmt.Errorf("%s is of one of several servers; nothing was changed. If the others have the log, "+
			"start this one: they fill it. If none has all of it: allot cluster heal --data %s", c.Data, c.Data))
	}
	return c.mend(ctx, d, buildLog)
}

// Heal is "allot cluster heal": it lets a cluster begin again whose log most servers have lost, with what all copies
// of the log have together.
type Heal struct {
	mending `embed:""`
}

// Run merges the copies, of which the folder's own is the first, into a log that the cluster begins with.
func (c *Heal) Run(ctx context.Context) (err error) {
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	done, err := finishRepair(ctx, d)
	if err == nil && !done {
		err = c.mend(ctx, d, buildBeginning)
	}
	if err == nil {
		fmt.Println("start this server, and the others with empty folders or with the logs that they have set aside: " +
			"the cluster begins again with this log")
	}
	return err
}

// survey prints all damage, not only the first.
func survey(ctx context.Context, d *datafolder.Folder) error {
	whole := 0
	damage, err := d.Files().ScanIntact(ctx, func(ledger.Entry) error { whole++; return nil })
	if errors.Is(err, blocks.ErrNoLog) {
		return nil
	}
	for _, one := range damage {
		fmt.Println(&one)
	}
	fmt.Printf("%d entries are whole\n", whole)
	return err
}

// mend merges the copies of a log, has what they have together built beside the log that is there, and puts it in its
// place.
func (c *mending) mend(
	ctx context.Context, d *datafolder.Folder, build func(context.Context, *datafolder.Folder, *mergedLog) error,
) error {
	copies, err := c.copies(ctx, d)
	if err != nil {
		return err
	}
	log := &mergedLog{copies: copies.list, seen: copies.seen, to: c.CutAfter}
	if c.CutAfter > 0 {
		log.seen = slices.DeleteFunc(log.seen, func(s blocks.Seen) bool { return s.Sequence > c.CutAfter })
	}
	if err = log.measure(ctx); err == nil {
		if err = os.RemoveAll(d.Path(repairFolder)); err == nil {
			err = build(ctx, d, log)
		}
	}
	if err = errors.Join(err, copies.close()); err != nil {
		return err
	}
	_, err = finishRepair(ctx, d)
	return err
}

// repairFolder has the good log, until it takes its place.
const repairFolder = "repair"

func inRepair(d *datafolder.Folder) blocks.Folder {
	files := d.Files()
	files.Store = d.Path(filepath.Join(repairFolder, datafolder.Log))
	return files
}

// buildLog writes the good log of a single server.
func buildLog(ctx context.Context, d *datafolder.Folder, log *mergedLog) error {
	files := inRepair(d)
	into := blocks.Import{From: "a repair", Last: log.head}
	if err := datafolder.Fill(ctx, files, into, log.Read, "repairing"); err != nil {
		return err
	}
	if _, err := files.JudgeImport(ctx, blocks.JudgeOptions{Seen: log.seen}); err != nil {
		return err
	}
	return files.EndImport(log.head)
}

// buildBeginning writes what a cluster begins with.
func buildBeginning(ctx context.Context, d *datafolder.Folder, log *mergedLog) error {
	files := inRepair(d)
	if err := os.MkdirAll(files.Store, 0o750); err != nil {
		return err
	}
	show, end := cli.ProgressBar("healing")
	defer end()
	err := durable.ReplaceWith(files.HistoryPath(), func(file *os.File) error {
		out := bufio.NewWriterSize(file, 1<<20)
		_, err := logfile.Write(ctx, out, log, logfile.Extent{From: 1, To: log.head.Sequence, Progress: show})
		return errors.Join(err, out.Flush())
	})
	if err != nil {
		return err
	}
	begin, err := beginsWith(files.HistoryPath())
	if err != nil {
		return err
	}
	if *begin.History != log.head {
		return fmt.Errorf("%s ends with %v, and should with %v", files.HistoryPath(), *begin.History, log.head)
	}
	return errors.Join(files.MayBegin(begin), durable.SyncTree(d.Path(repairFolder)))
}

// built returns the head of the log that a repair has built; false: it was interrupted before.
func built(ctx context.Context, files blocks.Folder) (last ledger.Head, done bool, err error) {
	verdict, err := files.Judge(ctx, blocks.JudgeOptions{})
	switch {
	case errors.Is(err, blocks.ErrUnfinished):
		return last, false, nil
	case err != nil:
		return last, false, err
	case verdict.Begin != nil && verdict.Begin.History != nil:
		return *verdict.Begin.History, true, nil
	case verdict.Report == nil:
		return last, false, nil
	}
	return verdict.Last, true, nil
}

// finishRepair puts the good log that a repair has built in its place. It can be
// interrupted anywhere and called again.
func finishRepair(ctx context.Context, d *datafolder.Folder) (done bool, err error) {
	files := inRepair(d)
	last, done, err := built(ctx, files)
	if err != nil || !done {
		return false, err
	}
	aside := d.Path(fmt.Sprintf("%s-%d", datafolder.Aside, time.Now().UnixNano()))
	err = inOrder(ctx, d.Rejoined,
		func() error { return setAside(ctx, d, aside, last) },
		func() error { return os.Rename(files.Store, d.Path(datafolder.Log)) },
		func() error { return os.Remove(d.Path(repairFolder)) },
		func() error { return durable.SyncTree(d.Dir) })
	if err != nil {
		return false, err
	}
	fmt.Printf("the log is good up to sequence %d (digest %s); the files from before are in %s\n",
		last.Sequence, last.Digest, aside)
	return true, nil
}

// inOrder takes steps until one fails, or until it is told to stop.
func inOrder(ctx context.Context, steps ...func() error) error {
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// setAside moves the log away, with everything that knows of commits that the good log lacks, and with what was
// set aside before, which is not needed for another repair. Read models and snapshots are rebuilt. Signed
// checkpoints stay, as evidence of what was given up.
func setAside(ctx context.Context, d *datafolder.Folder, aside string, last ledger.Head) error {
	seen, err := d.Seen()
	if err != nil {
		return err
	}
	before, err := d.SetAside()
	if err != nil {
		return err
	}
	move := append([]string{datafolder.Log}, before...)
	for _, s := range seen {
		if s.Sequence > last.Sequence || s.Sequence == last.Sequence && s.Digest != last.Digest {
			move = append(move, datafolder.ReadModels, datafolder.Snapshots)
			break
		}
	}
	steps := []func() error{func() error { return os.MkdirAll(aside, 0o750) }}
	for _, name := range move {
		steps = append(steps, func() error {
			err := os.Rename(d.Path(name), filepath.Join(aside, name))
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		})
	}
	return inOrder(ctx, append(steps, func() error { return setCheckpointsAside(d, aside, last) })...)
}

func setCheckpointsAside(d *datafolder.Folder, aside string, last ledger.Head) error {
	kept, err := proof.ReadFolder(d.Path(datafolder.Checkpoints))
	if err != nil {
		return err
	}
	for _, one := range kept {
		if checkpoint, err := proof.Unverified(one.Signed); err == nil && checkpoint.Sequence <= last.Sequence {
			continue
		}
		into := filepath.Join(aside, datafolder.Checkpoints)
		if err := os.MkdirAll(into, 0o750); err != nil {
			return err
		}
		if err := os.Rename(one.Path, filepath.Join(into, filepath.Base(one.Path))); err != nil {
			return err
		}
	}
	return nil
}
