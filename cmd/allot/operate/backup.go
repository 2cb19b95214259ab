package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/ledger/system"
	"github.com/allot-project/allot/snapshots/copies"
)

// Backup is "allot backup": it brings an archive up to the end of a log,
// now. Only what the archive lacks is read.
type Backup struct {
	Data       string   `help:"Data folder of a server that is not running." type:"existingdir" placeholder:"DIR"`
	Archive    string   `help:"File that allot export wrote, or the URL of an archive that --archive of allot serve named." placeholder:"FILE|URL"`
	URL        string   `name:"url" help:"URL of a running server, such as http://HOST:PORT: the log comes over HTTP. The token needs the policy rule allot:audit." placeholder:"URL"`
	CAFile     string   `name:"ca-file" help:"Certificates to trust for --url, instead of the system's." type:"existingfile" placeholder:"FILE"`
	Token      string   `help:"Token to send to --url as X-Auth-Token; not on the command line, where others see it." default:"admin" secret:""`
	To         []string `help:"URL of the archive: file:///FOLDER or s3://BUCKET/PREFIX. May be repeated. A server may archive there, too." required:"" placeholder:"URL"`
	Mend       bool     `help:"Read all parts of the archive first, and write those that are damaged again, beside the damaged ones."`
	SigningKey string   `help:"File with the operator's private key, to sign what is added. Without it the server at --url signs it, if it has a key." type:"existingfile" placeholder:"FILE"`
}

// Run writes what the archives lack, and reads it back.
func (c *Backup) Run(ctx context.Context) (err error) {
	targets, err := archive.OpenURLs(c.To)
	if err != nil {
		return err
	}
	signer, err := cli.LoadSigner(c.SigningKey)
	if err != nil {
		return err
	}
	log, closeLog, err := c.source(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	cfg, err := c.config(ctx, log, signer)
	if err != nil {
		return err
	}
	cfg.Archives, cfg.Bounds = targets, archive.Usual
	cfg.Bounds.Age = backupAge
	if cfg.Folder, err = os.MkdirTemp("", "allot-backup-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.Folder)) }()
	if c.Mend {
		for _, one := range targets {
			if err := mend(ctx, one, cfg); err != nil {
				return err
			}
		}
	}
	show, end := cli.ProgressBar("backing up")
	cfg.Progress = show
	all, err := archive.Backup(ctx, cfg)
	end()
	if err != nil {
		return err
	}
	for _, one := range all {
		fmt.Printf("%s holds the log up to sequence %d, in %d parts of %d bytes\n", one.Archive, one.Verified.Sequence,
			one.Parts, one.Bytes)
	}
	return nil
}

// source opens the log, over HTTP if --url names a server.
func (c *Backup) source(ctx context.Context) (ledger.Log, func() error, error) {
	if c.Data+c.Archive != "" && c.URL == os.Getenv("ALLOT_URL") {
		c.URL = "" // the environment names the server of other commands
	}
	if given(c.Data != "", c.Archive != "", c.URL != "") != 1 {
		return nil, nil, errors.New("name the log with exactly one of --url, --data and --archive")
	}
	if c.URL == "" {
		log, closeLog, err := sourceFlags{Data: c.Data, Archive: c.Archive}.open(ctx)
		return log, closeLog, err
	}
	server, err := cli.Server{URL: c.URL, CAFile: c.CAFile, Token: c.Token}.Client()
	return &httpLog{server: server}, func() error { return nil }, err
}

// mend writes the damaged parts of an archive again, and says which.
func mend(ctx context.Context, a *archive.Archive, cfg archive.Config) error {
	done, err := archive.Rewrite(ctx, a, cfg)
	if done != nil {
		for _, name := range done.Written {
			fmt.Printf("%s: %s was damaged, and is written again\n", a, name)
		}
	}
	return err
}

// backupAge is no bound: a part ends by its size, or at the end of the log.
const backupAge = 100 * 365 * 24 * time.Hour

func (c *Backup) config(ctx context.Context, log ledger.Log, signer note.Signer) (archive.Config, error) {
	last, err := log.Last(ctx)
	if err == nil && last == 0 {
		err = errors.New("the log is empty: there is nothing to back up")
	}
	if err != nil {
		return archive.Config{}, err
	}
	header, err := logfile.HeaderOf(ctx, log, 1)
	if err != nil {
		return archive.Config{}, err
	}
	head, err := chain.HeadBefore(ctx, log, last+1)
	if err != nil {
		return archive.Config{}, err
	}
	cfg := archive.Config{
		Ledger: header.Ledger, Log: log, Head: func() ledger.Head { return head }, Now: time.Now,
		Logger: cli.Warnings(),
	}
	server, isRunning := log.(*httpLog)
	switch {
	case signer != nil:
		cfg.Sign = func(c *proof.Checkpoint) ([]byte, error) { return c.Sign(signer) }
	case isRunning:
		cfg.Sign = func(c *proof.Checkpoint) ([]byte, error) { return server.sign(ctx, c) }
	}
	return cfg, nil
}

// Restore is "allot restore": it begins a data folder with what archives hold of a log.
type Restore struct {
	archivesFlag  `embed:""`
	keyFlag       `embed:""`
	Data          string     `help:"Data folder, without a log or with an unfinished restore of the same log." required:"" type:"path" placeholder:"DIR"`
	At            cli.Moment `help:"Restore the log as of this sequence or time (RFC 3339); default: all of it." placeholder:"SEQUENCE|TIME"`
	WithoutCopies bool       `help:"Leave copies of State and read models in the archives alone: the first start replays the log."`
}

// Run restores. Every commit keeps its sequence, and is verified before it is
// written. An interrupted run goes on where it was.
func (c *Restore) Run(ctx context.Context) (err error) {
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
	signed, _, err := log.Checkpoints(ctx, head.Sequence)
	if err == nil && keys != nil {
		err = vouched(ctx, log, keys, head)
	}
	if err != nil {
		return err
	}
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err = c.fill(ctx, d, log, head); err == nil {
		err = keepCheckpoints(d, signed, head.Sequence)
	}
	took := time.Since(begun)
	if err == nil && !c.WithoutCopies {
		c.bringCopy(ctx, d, log, list, head.Sequence)
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	fmt.Printf("%s holds the log up to sequence %d, durably; digest %s; %v\n", c.Data, head.Sequence, head.Digest,
		took.Round(time.Millisecond))
	return nil
}

func (c *Restore) end(ctx context.Context, log *archive.Log) (ledger.Head, error) {
	last, err := log.Last(ctx)
	if err != nil {
		return ledger.Head{}, err
	}
	if last == 0 {
		return ledger.Head{}, fmt.Errorf("%w: it has no part that begins with sequence 1", archive.ErrEmpty)
	}
	to := last
	if n, err := strconv.ParseUint(string(c.At), 10, 64); err == nil {
		to = n
	} else if c.At != "" {
		at, err := ledger.ParseTime(string(c.At))
		if err != nil {
			return ledger.Head{}, fmt.Errorf("--at %q is neither a sequence nor a time such as 2026-11-22T14:00:00Z", c.At)
		}
		if at.After(time.Now()) {
			return ledger.Head{}, fmt.Errorf("--at %s is in the future; nothing was changed", c.At)
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

// vouched looks for a signed checkpoint of a commit, or of one behind it, up to which nothing breaks the chain.
func vouched(ctx context.Context, log *archive.Log, keys note.Verifiers, head ledger.Head) error {
	last, err := log.Last(ctx)
	if err != nil {
		return err
	}
	for from := head.Sequence; from <= last; {
		signed, to, err := log.Checkpoints(ctx, from)
		if err != nil {
			return err
		}
		for _, one := range signed {
			checkpoint, err := proof.Open(one, keys)
			if err != nil {
				return fmt.Errorf("%w; nothing was changed", err)
			}
			if checkpoint.Sequence < head.Sequence {
				continue
			}
			if err := follows(ctx, log, head, checkpoint.Head); err != nil {
				return err
			}
			fmt.Printf("checkpoints  that of sequence %d vouches, by the digest chain, for everything before it\n", checkpoint.Sequence)
			return nil
		}
		from = to + 1
	}
	return fmt.Errorf("no signed checkpoint vouches for sequence %d: restore without --public-key, or --at what "+
		"allot verify --archive says is signed; nothing was changed", head.Sequence)
}

// follows checks that the chain leads from one head to another.
func follows(ctx context.Context, log ledger.Log, from, to ledger.Head) error {
	links := chain.New(from)
	err := log.Read(ctx, from.Sequence+1, to.Sequence, func(e ledger.Entry) error {
		_, err := links.NextLink(e)
		return err
	})
	if err == nil && links.Head() != to {
		err = fmt.Errorf("the archive is not the log of the checkpoint of sequence %d; nothing was changed", to.Sequence)
	}
	return err
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
