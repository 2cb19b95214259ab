package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/proof"
)

// sourceFlags name the log that a command reads. Exactly one of them is
// needed.
type sourceFlags struct {
	Data    string `help:"Data folder of a server that is not running." type:"existingdir" placeholder:"DIR"`
	NATSURL string `name:"nats-url" help:"NATS of a running server. If it has users: nats://NAME:PASSWORD@HOST:PORT of an auditor or operator, as ALLOT_NATS_URL in the environment." placeholder:"URL"`
	Archive string `help:"File that allot export wrote, or the URL of an archive that --archive of allot serve named." placeholder:"FILE|URL"`
}

// source is a log to read, with its signed checkpoints.
type source struct {
	ledger.Log
	// checkpoints returns the stored checkpoints of commits up to a sequence. A
	// running server instead signs a checkpoint of just that sequence.
	checkpoints func(ctx context.Context, upTo uint64) ([]proof.Kept, error)
}

// given counts the flags that are given.
func given(flags ...bool) (n int) {
	for _, one := range flags {
		if one {
			n++
		}
	}
	return n
}

// open opens the log. The caller calls close.
func (f sourceFlags) open(ctx context.Context) (log *source, closeLog func() error, err error) {
	if given(f.Data != "", f.NATSURL != "", f.Archive != "") != 1 {
		return nil, nil, errors.New("name the log with exactly one of --data, --nats-url and --archive")
	}
	switch {
	case f.Data != "":
		kept := func(context.Context, uint64) ([]proof.Kept, error) {
			return proof.ReadFolder(filepath.Join(f.Data, datafolder.Checkpoints))
		}
		log, closeLog, err := openData(ctx, f.Data)
		return &source{log, kept}, closeLog, err
	case f.NATSURL != "":
		nc, err := nats.Connect(f.NATSURL, nats.Name("allot reader"), cli.Silent)
		if err != nil {
			return nil, nil, fmt.Errorf("--nats-url: %w", err)
		}
		remote := &remoteLog{c: client.New(nc, client.Options{})}
		return &source{remote, remote.checkpoint}, func() error { nc.Close(); return nil }, nil
	}
	if isArchiveURL(f.Archive) {
		return openArchiveURL(f.Archive)
	}
	whole, err := OpenLogFile(f.Archive)
	return &source{whole, whole.kept}, func() error { return nil }, err
}

// openTo opens the log up to a sequence; 0 becomes the log's last. The caller
// calls close.
func (f sourceFlags) openTo(ctx context.Context, to *uint64) (log *source, closeLog func() error, err error) {
	if log, closeLog, err = f.open(ctx); err != nil {
		return nil, nil, err
	}
	last, err := log.Last(ctx)
	if err == nil && *to > last {
		err = fmt.Errorf("there is no sequence %d: the log ends at sequence %d", *to, last)
	}
	if err != nil {
		return nil, nil, errors.Join(err, closeLog())
	}
	*to = cmp.Or(*to, last)
	return log, closeLog, nil
}

// openData reads the log in a data folder from its files. No server may use the
// folder. It changes nothing, whatever state the files are in.
func openData(ctx context.Context, dir string) (log *blocks.Log, closeLog func() error, err error) {
	d, err := datafolder.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	if log, _, err = d.OpenLog(ctx); err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return log, d.Close, nil
}

// readOnly is a part of logs that can only be read.
type readOnly struct{}

// Append implements ledger.Log.
func (readOnly) Append(_ uint64, _ []byte, done func(error)) {
	done(errors.New("this log can only be read"))
}

// MaxCommitBytes implements ledger.Log.
func (readOnly) MaxCommitBytes() int { return embedded.MaxPayload }

// discardCommit ignores its commit.
func discardCommit(ledger.Entry) error { return nil }
