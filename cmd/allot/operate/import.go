package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/proof"
)

// Import is "allot import": it begins a new data folder with an exported log.
type Import struct {
	File string `arg:"" help:"File that allot export wrote, from sequence 1 on." type:"existingfile"`
	Data string `help:"Data folder, without a log or with an unfinished import of the same file." required:"" type:"path" placeholder:"DIR"`
}

// Run reads the whole file before it writes anything. Every commit keeps its
// sequence, so generations and addresses stay the same. Run refuses a log that
// has commits, unless they come from an earlier, unfinished run of this import.
func (c *Import) Run(ctx context.Context) (err error) {
	source, err := OpenLogFile(c.File)
	if err != nil {
		return err
	}
	for _, signed := range source.Trailer.Checkpoints {
		if _, err := proof.Unverified(signed); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
	}
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.NeverServed(); err != nil {
		return err
	}
	from := filepath.Base(c.File)
	into := blocks.Import{From: from, Last: source.Trailer.Head}
	if err := datafolder.Fill(ctx, d.Files(), into, source.Read, "importing"); err != nil {
		return err
	}
	if err := keepCheckpoints(d, source.Trailer.Checkpoints, math.MaxUint64); err != nil {
		return err
	}
	if err := d.Files().EndImport(source.Trailer.Head); err != nil {
		return err
	}
	fmt.Printf("%s holds the log up to sequence %d; its last commit's digest is %s\n", c.Data, source.Trailer.Sequence, source.Trailer.Digest)
	return nil
}

// keepCheckpoints writes signed checkpoints up to a sequence into the folder. allot verify checks
// who signed them, and says what is wrong with one.
func keepCheckpoints(d *datafolder.Folder, list [][]byte, upTo uint64) error {
	for _, signed := range list {
		checkpoint, err := proof.Unverified(signed)
		if err != nil || checkpoint.Sequence > upTo {
			continue
		}
		folder, err := proof.OpenFolder(d.Path(datafolder.Checkpoints))
		if err == nil {
			err = folder.Save(checkpoint.Sequence, signed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
