package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands/client"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/proof"
)

// sourceFlags say which log a command reads: exactly one of them.
type sourceFlags struct {
	Data    string `help:"Data folder of a server that is not running." type:"existingdir" placeholder:"DIR"`
	NATSURL string `name:"nats-url" help:"NATS of a running server; with users, nats://NAME:PASSWORD@HOST:PORT of an auditor or operator." placeholder:"URL"`
	Archive string `help:"File that allot export wrote." type:"existingfile" placeholder:"FILE"`
}

// source is a log to read, with the signed checkpoints that are kept of it.
type source struct {
	ledger.Log
	// checkpoints are those of commits up to a sequence, where they are kept;
	// a server that runs signs one of just that.
	checkpoints func(ctx context.Context, upTo uint64) ([]proof.Kept, error)
}

// open opens the log. The caller calls close.
func (f sourceFlags) open(ctx context.Context) (log *source, closeLog func() error, err error) {
	given := 0
	for _, source := range []string{f.Data, f.NATSURL, f.Archive} {
		if source != "" {
			given++
		}
	}
	if given != 1 {
		return nil, nil, errors.New("one of --data, --nats-url and --archive says which log")
	}
	switch {
	case f.Data != "":
		kept := func(context.Context, uint64) ([]proof.Kept, error) {
			return proof.ReadFolder(filepath.Join(f.Data, checkpointsFolder))
		}
		log, closeLog, err := openData(ctx, f.Data)
		return &source{log, kept}, closeLog, err
	case f.NATSURL != "":
		nc, err := nats.Connect(f.NATSURL, nats.Name("allot reader"))
		if err != nil {
			return nil, nil, fmt.Errorf("connect to the server: %w", err)
		}
		remote := &remoteLog{client.New(nc, client.Options{})}
		return &source{remote, remote.checkpoint}, func() error { nc.Close(); return nil }, nil
	}
	whole, err := openArchive(f.Archive)
	return &source{whole, whole.kept}, func() error { return nil }, err
}

// openTo opens the log up to a sequence; 0 becomes the last one there is. The
// caller calls close.
func (f sourceFlags) openTo(ctx context.Context, to *uint64) (log *source, closeLog func() error, err error) {
	if log, closeLog, err = f.open(ctx); err != nil || *to > 0 {
		return log, closeLog, err
	}
	if *to, err = log.Last(ctx); err != nil {
		return nil, nil, errors.Join(err, closeLog())
	}
	return log, closeLog, nil
}

// openData reads the log in a data folder that no server uses, from its files:
// nothing is changed, whatever state they are in.
func openData(ctx context.Context, dir string) (log ledger.Log, closeLog func() error, err error) {
	d, err := openDataFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	if _, err = d.judge(ctx, blocks.CheckOptions{}); err == nil {
		log, err = d.files().Open()
	}
	if errors.Is(err, blocks.ErrNoLog) {
		err = d.missing()
	}
	if err != nil {
		return nil, nil, errors.Join(err, d.close())
	}
	return log, d.close, nil
}

// remoteLog is the log of a running server, read only.
type remoteLog struct{ c *client.Client }

var errReadOnly = errors.New("this log can only be read")

// Append implements ledger.Log.
func (l *remoteLog) Append(_ uint64, _ []byte, done func(error)) { done(errReadOnly) }

// MaxCommitBytes implements ledger.Log.
func (l *remoteLog) MaxCommitBytes() int { return embedded.MaxPayload }

// Last implements ledger.Log.
func (l *remoteLog) Last(ctx context.Context) (uint64, error) {
	answer, err := l.c.Commits(ctx, wire.CommitsQuery{From: 1, Limit: 1})
	return answer.Sequence, err
}

// checkpoint asks the server to sign one, which it does if it has a key.
func (l *remoteLog) checkpoint(ctx context.Context, upTo uint64) ([]proof.Kept, error) {
	answer, err := l.c.Checkpoint(ctx, wire.CheckpointQuery{When: wire.When{At: wire.Instant(fmt.Sprint(upTo))}})
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Code == wire.ErrorNotFound {
		return nil, nil
	}
	return []proof.Kept{{Path: "of the server", Signed: []byte(answer.Result.Signed)}}, err
}

// Read implements ledger.Log.
func (l *remoteLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for from <= to {
		answer, err := l.c.Commits(ctx, wire.CommitsQuery{From: from, Limit: int(min(1000, to-from+1))})
		if err != nil {
			return err
		}
		if len(answer.Result.Commits) == 0 {
			return fmt.Errorf("%w at sequence %d", ledger.ErrLogGap, from)
		}
		for _, c := range answer.Result.Commits {
			if c.Sequence != from || ledger.DigestOf(c.Data).String() != c.Digest {
				return &ledger.BadEntryError{Sequence: from, Err: ledger.ErrCorrupt}
			}
			if err := yield(ledger.Entry{Sequence: c.Sequence, Data: c.Data}); err != nil {
				return err
			}
			from++
		}
	}
	return nil
}

// archiveLog is the log in a file that "allot export" wrote, read only. Every
// Read goes through the file, and checks it.
type archiveLog struct {
	path    string
	trailer archive.Trailer
	last    uint64
}

// openArchive checks the whole file, which must begin at the beginning.
func openArchive(path string) (*archiveLog, error) {
	l := &archiveLog{path: path}
	var err error
	l.trailer, err = l.scan(discardCommit)
	l.last = l.trailer.Sequence
	return l, err
}

// kept are the checkpoints in the file.
func (l *archiveLog) kept(context.Context, uint64) ([]proof.Kept, error) {
	list := make([]proof.Kept, len(l.trailer.Checkpoints))
	for i, signed := range l.trailer.Checkpoints {
		list[i] = proof.Kept{Path: fmt.Sprintf("%d of %s", i, l.path), Signed: signed}
	}
	return list, nil
}

// archiveHeader reads how an archive begins.
func archiveHeader(path string) (header archive.Header, err error) {
	_, err = readArchive(path, func(h archive.Header) error { header = h; return errEnough }, discardCommit)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return header, err
}

// readArchive is archive.Read of a file.
func readArchive(path string, begin func(archive.Header) error, yield func(ledger.Entry) error) (archive.Trailer, error) {
	f, err := os.Open(path)
	if err != nil {
		return archive.Trailer{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return archive.Read(f, begin, yield)
}

func (l *archiveLog) scan(yield func(ledger.Entry) error) (archive.Trailer, error) {
	trailer, err := readArchive(l.path, func(h archive.Header) error {
		if h.First != 1 {
			return fmt.Errorf("it begins at sequence %d, but a log is read from its beginning", h.First)
		}
		return nil
	}, yield)
	if err != nil {
		return trailer, fmt.Errorf("%s: %w", l.path, err)
	}
	return trailer, nil
}

// Append implements ledger.Log.
func (l *archiveLog) Append(_ uint64, _ []byte, done func(error)) { done(errReadOnly) }

// MaxCommitBytes implements ledger.Log.
func (l *archiveLog) MaxCommitBytes() int { return embedded.MaxPayload }

// Last implements ledger.Log.
func (l *archiveLog) Last(context.Context) (uint64, error) { return l.last, nil }

// Read implements ledger.Log.
func (l *archiveLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if to > l.last {
		return fmt.Errorf("%w: %s ends at sequence %d", ledger.ErrLogGap, l.path, l.last)
	}
	_, err := l.scan(func(e ledger.Entry) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.Sequence < from:
			return nil
		case e.Sequence > to:
			return errEnough
		}
		return yield(e)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a scan early.
var errEnough = errors.New("that is enough")
