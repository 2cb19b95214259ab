package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
)

// Init is "allot init": it permits a ledger to begin in a folder.
type Init struct {
	Data     string `help:"Data folder." default:"data" type:"path"`
	From     string `help:"File that allot export wrote. The ledger begins with its commits, which keep their sequences. For the first server of a cluster." type:"existingfile" placeholder:"FILE"`
	External bool   `help:"The log will be in the NATS server that --nats-url of allot serve names, not in the folder."`
}

// Run refuses a folder that holds a ledger, or parts of one.
func (c *Init) Run(ctx context.Context) (err error) {
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, name := range []string{datafolder.Log, datafolder.ReadModels, datafolder.Snapshots, datafolder.Checkpoints} {
		found, err := d.Has(name)
		if err != nil {
			return err
		}
		if found && (name != datafolder.Log || !halfMade(ctx, d)) {
			return fmt.Errorf(
				"%s belongs to a ledger, and a new one cannot begin beside it: move it away, or name another folder", d.Path(name),
			)
		}
	}
	d.External = c.External
	begin := blocks.Beginning{Ledger: ledger.UUID(uuid.New())}
	if c.From != "" {
		if begin, err = c.history(d.Files()); err != nil {
			return err
		}
	}
	if err := d.Files().MayBegin(begin); err != nil {
		return err
	}
	fmt.Printf("the ledger %s can begin in %s; start it with: allot serve --data %s\n", begin.Ledger, c.Data, c.Data)
	return nil
}

// halfMade reports whether a server ended while it made the log here, which it was the only one to have:
// no commit was ever in it. The next start removes it, and begins.
func halfMade(ctx context.Context, d *datafolder.Folder) bool {
	_, err := d.Files().Judge(ctx, blocks.JudgeOptions{})
	return err == nil && d.OfKind(false) == nil && d.Files().HalfMade()
}

// history checks an archive and keeps a copy of it, from which the server fills
// the log once its cluster is there.
func (c *Init) history(files blocks.Folder) (blocks.Beginning, error) {
	if c.External {
		return blocks.Beginning{}, errors.New("--from is for a cluster of embedded NATS servers, --external for a log in another NATS server: give only one of the two")
	}
	begin, err := beginsWith(c.From)
	if err == nil {
		err = os.MkdirAll(files.Store, 0o750)
	}
	if err != nil {
		return begin, err
	}
	in, err := os.Open(c.From)
	if err != nil {
		return begin, err
	}
	err = durable.ReplaceWith(files.HistoryPath(), func(out *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
	return begin, errors.Join(err, in.Close())
}

// beginsWith checks an archive that a ledger is to begin with.
func beginsWith(path string) (blocks.Beginning, error) {
	source, err := OpenLogFile(path)
	if err != nil {
		return blocks.Beginning{}, err
	}
	header, err := archiveHeader(path)
	last := source.Trailer.Head
	return blocks.Beginning{Ledger: header.Ledger, History: &last}, err
}

// Rejoin is "allot cluster rejoin": it lets a server of a cluster take part again whose log is lost.
type Rejoin struct {
	Data string `help:"Data folder." default:"data" type:"path"`
}

// Run refuses a folder that holds a log.
func (c *Rejoin) Run(context.Context) (err error) {
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	found, err := d.Has(datafolder.Log + "/jetstream")
	if err != nil {
		return err
	}
	if found {
		return fmt.Errorf("%s holds a log, which is not lost: nothing was changed", d.Path(datafolder.Log))
	}
	if err := d.MayRejoin(); err != nil {
		return err
	}
	fmt.Printf("the server of %s may take part again: start it as before, and the others fill its log\n", c.Data)
	return nil
}
