package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// Backup is "allot backup": it brings an archive up to the end of a log,
// now. Only what the archive lacks is read.
type Backup struct {
	sourceFlags `embed:""`
	URL         string   `name:"url" help:"URL of a running server, such as http://HOST:PORT: the log comes over HTTP. The token needs the policy rule allot:audit." placeholder:"URL"`
	CAFile      string   `name:"ca-file" help:"Certificates to trust for --url, instead of the system's." type:"existingfile" placeholder:"FILE"`
	Token       string   `help:"Token to send to --url as X-Auth-Token; not on the command line, where others see it." default:"admin" secret:""`
	To          []string `help:"URL of the archive: file:///FOLDER or s3://BUCKET/PREFIX. May be repeated. A server may archive there, too." required:"" placeholder:"URL"`
	Mend        bool     `help:"Read all parts of the archive first, and write those that are damaged again, beside the damaged ones."`
	SigningKey  string   `help:"File with the operator's private key, to sign what is added. Without it the server at --url signs it, if it has a key." type:"existingfile" placeholder:"FILE"`
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
		fmt.Printf("%s holds the log up to sequence %d, verified, in %d parts of %d bytes\n", one.Archive, one.Verified.Sequence,
			one.Parts, one.Bytes)
	}
	return nil
}

// source opens the log, over HTTP if --url names a server.
func (c *Backup) source(ctx context.Context) (ledger.Log, func() error, error) {
	if c.URL == "" {
		log, closeLog, err := c.open(ctx)
		return log, closeLog, err
	}
	if c.sourceFlags != (sourceFlags{}) {
		return nil, nil, errors.New("--url names the log: leave --data, --nats-url and --archive out")
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
