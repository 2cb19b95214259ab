package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/proof"
)

// Repair is "allot repair": the only command that may remove anything from
// a log. It never changes the damaged files. It writes a good log beside them,
// sets them aside, and puts the good log in their place.
type Repair struct {
	Data     string `help:"Data folder of a server that is not running." required:"" type:"existingdir" placeholder:"DIR"`
	Archive  string `help:"File that allot export wrote, or the URL of an archive: take missing commits from it." placeholder:"FILE|URL"`
	NATSURL  string `name:"nats-url" help:"NATS of a running server with the same log: take missing commits from it." placeholder:"URL"`
	CutAfter uint64 `help:"Give up all commits after this sequence. They stay in a folder of their own." placeholder:"SEQUENCE"`
}

// Run lists the damage. With a source of commits, or a sequence to cut after, it
// also mends the log.
func (c *Repair) Run(ctx context.Context) (err error) {
	sources := given(c.Archive != "", c.NATSURL != "", c.CutAfter > 0)
	if sources > 1 {
		return errors.New("give only one of --archive, --nats-url and --cut-after")
	}
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if done, err := finishRepair(ctx, d); done || err != nil {
		return err
	}
	verdict, trouble := d.Judge(ctx, blocks.CheckOptions{})
	if errors.Is(trouble, blocks.ErrUnfinished) {
		return trouble
	}
	if trouble == nil && sources == 0 || trouble == nil && c.CutAfter == 0 && verdict.Report != nil {
		fmt.Println("nothing is wrong with the log's files")
		return nil
	}
	if sources == 0 {
		return errors.Join(survey(ctx, d), trouble)
	}
	return c.repair(ctx, d)
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

func (c *Repair) repair(ctx context.Context, d *datafolder.Folder) error {
	source, closeSource, err := c.source(ctx)
	if err != nil {
		return err
	}
	a := &repairSource{own: d.Files(), source: source, cutAfter: c.CutAfter}
	last, err := a.measure(ctx)
	if err == nil {
		err = c.build(ctx, d, a, last)
	}
	if err = errors.Join(err, closeSource()); err != nil {
		return err
	}
	_, err = finishRepair(ctx, d)
	return err
}

// source opens the source of missing commits; nil if there is none.
func (c *Repair) source(ctx context.Context) (ledger.Log, func() error, error) {
	if c.CutAfter > 0 {
		return nil, func() error { return nil }, nil
	}
	log, closeLog, err := sourceFlags{Archive: c.Archive, NATSURL: c.NATSURL}.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return log.Log, closeLog, nil
}

// build writes the good log beside the damaged one. Unless commits are to be
// given up, it checks the result against all heads that were seen of the log.
func (c *Repair) build(ctx context.Context, d *datafolder.Folder, a *repairSource, last ledger.Head) error {
	if err := os.RemoveAll(d.Path(repairFolder)); err != nil {
		return err
	}
	files := a.own
	files.Store = d.Path(filepath.Join(repairFolder, datafolder.Log))
	if err := datafolder.Fill(ctx, files, blocks.Import{From: "a repair", Last: last}, a.Read, "repairing"); err != nil {
		return err
	}
	seen, err := d.Seen()
	if err != nil {
		return err
	}
	if c.CutAfter > 0 {
		seen = nil
	}
	if _, err := files.JudgeImport(ctx, blocks.JudgeOptions{Seen: seen}); err != nil {
		return fmt.Errorf(
			"the commits that were found are not enough: %w; nothing was changed. Use a newer export or another server, "+
				"or give up the missing commits with --cut-after",
			err,
		)
	}
	return files.EndImport(last)
}

// repairFolder has the good log, until it takes its place.
const repairFolder = "repair"

// finishRepair puts the good log that a repair has built in its place. It can be
// interrupted anywhere and called again.
func finishRepair(ctx context.Context, d *datafolder.Folder) (done bool, err error) {
	built := d.Path(filepath.Join(repairFolder, datafolder.Log))
	files := d.Files()
	files.Store = built
	verdict, err := files.Judge(ctx, blocks.JudgeOptions{})
	if errors.Is(err, blocks.ErrUnfinished) || err == nil && verdict.Report == nil {
		return false, nil // The build was interrupted; it begins anew.
	}
	if err != nil {
		return false, err
	}
	aside := d.Path(fmt.Sprintf("%s-%d", datafolder.Aside, time.Now().UnixNano()))
	if err := os.MkdirAll(aside, 0o750); err != nil {
		return false, err
	}
	if err := setAside(d, aside, verdict.Last); err != nil {
		return false, err
	}
	if err := os.Rename(built, d.Path(datafolder.Log)); err != nil {
		return false, err
	}
	if err := errors.Join(os.Remove(d.Path(repairFolder)), durable.SyncTree(d.Dir)); err != nil {
		return false, err
	}
	fmt.Printf(
		"the log is good up to sequence %d (digest %s); the files from before are in %s\n", verdict.Last.Sequence,
		verdict.Last.Digest, aside,
	)
	return true, nil
}

// setAside moves the log away, with everything that knows of commits that the
// good log lacks. Read models and snapshots are rebuilt. Signed checkpoints stay,
// as evidence of what was given up.
func setAside(d *datafolder.Folder, aside string, last ledger.Head) error {
	seen, err := d.Seen()
	if err != nil {
		return err
	}
	move := []string{datafolder.Log}
	for _, s := range seen {
		if s.Sequence > last.Sequence || s.Sequence == last.Sequence && s.Digest != last.Digest {
			move = append(move, datafolder.ReadModels, datafolder.Snapshots)
			break
		}
	}
	for _, name := range move {
		err := os.Rename(d.Path(name), filepath.Join(aside, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return setCheckpointsAside(d, aside, last)
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
