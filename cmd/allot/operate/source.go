package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// sourceFlags name the log that a command reads. Exactly one of them is needed.
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

// openTo opens the log up to a sequence; 0 becomes the log's last. The caller calls close.
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

type readOnly struct{}

func (readOnly) Append(_ uint64, _ []byte, done func(error)) {
	done(errors.New("this log can only be read"))
}

func (readOnly) MaxCommitBytes() int { return embedded.MaxPayload }

func discardCommit(ledger.Entry) error { return nil }

// LogFile is the log in a file that "allot export" wrote, read only. Every
// Read reads and checks the whole file.
type LogFile struct {
	readOnly

	path    string
	Trailer logfile.Trailer
}

// OpenLogFile checks the whole file. Its log must begin at sequence 1.
func OpenLogFile(path string) (*LogFile, error) {
	l := &LogFile{path: path}
	var err error
	l.Trailer, err = l.scan(discardCommit)
	return l, err
}

func (l *LogFile) kept(context.Context, uint64) ([]proof.Kept, error) {
	list := make([]proof.Kept, len(l.Trailer.Checkpoints))
	for i, signed := range l.Trailer.Checkpoints {
		list[i] = proof.Kept{Path: fmt.Sprintf("%d of %s", i, l.path), Signed: signed}
	}
	return list, nil
}

func archiveHeader(path string) (header logfile.Header, err error) {
	_, err = readArchive(path, func(h logfile.Header) error { header = h; return errEnough }, discardCommit)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return header, err
}

// readArchive is logfile.Read for a named file.
func readArchive(
	path string, begin func(logfile.Header) error, yield func(ledger.Entry) error,
) (logfile.Trailer, error) {
	f, err := os.Open(path)
	if err != nil {
		return logfile.Trailer{}, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return logfile.Read(f, begin, yield)
}

func (l *LogFile) scan(yield func(ledger.Entry) error) (logfile.Trailer, error) {
	trailer, err := readArchive(l.path, func(h logfile.Header) error {
		if h.First != 1 {
			return fmt.Errorf("it begins at sequence %d, but a log must begin at sequence 1", h.First)
		}
		return nil
	}, yield)
	if err != nil {
		return trailer, fmt.Errorf("%s: %w", l.path, err)
	}
	return trailer, nil
}

// Last implements ledger.Log.
func (l *LogFile) Last(context.Context) (uint64, error) { return l.Trailer.Sequence, nil }

// Read implements ledger.Log.
func (l *LogFile) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if to > l.Trailer.Sequence {
		return fmt.Errorf("%w: %s ends at sequence %d", ledger.ErrLogBehind, l.path, l.Trailer.Sequence)
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

var errEnough = errors.New("that is enough")

// isArchiveURL tells the URL of an archive from the name of a file.
func isArchiveURL(text string) bool { return strings.Contains(text, "://") }

// cachedParts is how many bytes of parts a command keeps on the disk.
const cachedParts = 512 << 20

// openArchiveURL opens the log in an archive. Its parts are fetched and verified when they are read.
func openArchiveURL(url string) (*source, func() error, error) {
	a, err := archive.OpenURL(url)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.MkdirTemp("", "allot-archive-")
	if err != nil {
		return nil, nil, err
	}
	log := archive.NewLog([]*archive.Archive{a}, folder, cachedParts)
	kept := func(ctx context.Context, to uint64) ([]proof.Kept, error) {
		last, err := log.Last(ctx)
		if err != nil || last == 0 {
			return nil, err
		}
		if to == 0 || to > last {
			to = last
		}
		signed, to, err := log.Checkpoints(ctx, to)
		var list []proof.Kept
		for i, one := range signed {
			list = append(list, proof.Kept{Path: fmt.Sprintf("%d of the part of %s to %d", i, a, to), Signed: one})
		}
		return list, err
	}
	return &source{log, kept}, func() error { return os.RemoveAll(folder) }, nil
}

type archivesFlag struct {
	From []string `help:"URL of the archive: file:///FOLDER or s3://BUCKET/PREFIX. If it is repeated, what one archive lacks comes from another." required:"" placeholder:"URL"`
}

// open opens the archives, which must be of one ledger.
func (f archivesFlag) open(ctx context.Context) ([]*archive.Archive, error) {
	var list []*archive.Archive
	for _, url := range f.From {
		a, err := archive.OpenURL(url)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	first, err := list[0].Ledger(ctx)
	if err != nil {
		return nil, err
	}
	if first.IsNil() {
		return nil, fmt.Errorf("%w: there is nothing in %s", archive.ErrEmpty, list[0])
	}
	var errs []error
	for _, a := range list {
		errs = append(errs, a.Belongs(ctx, first, false), a.Refresh(ctx))
	}
	return list, errors.Join(errs...)
}
