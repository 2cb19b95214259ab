package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

// Export is "allot export": it writes a log, or a range of it, to a file.
type Export struct {
	sourceFlags `embed:""`
	From        uint64 `help:"First sequence." default:"1"`
	To          uint64 `help:"Last sequence; 0: the log's last." default:"0"`
	JSON        bool   `name:"json" help:"Write records as lines of JSON, for reading; they cannot be imported."`
	File        string `arg:"" help:"The file, which must not exist." type:"path"`
}

// Run writes a file that is whole, or none.
func (c *Export) Run(ctx context.Context) (err error) {
	log, closeLog, err := c.openTo(ctx, &c.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if c.From > c.To {
		return fmt.Errorf("there is nothing from sequence %d on: the log, or --to, ends at %d", c.From, c.To)
	}
	checkpoints, err := log.checkpoints(ctx, c.To)
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.File); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists", c.File)
	}
	var head ledger.Head
	err = durable.ReplaceWith(c.File, func(file *os.File) error {
		out := bufio.NewWriterSize(file, 1<<20)
		var err error
		head, err = c.write(ctx, out, log, checkpoints)
		return errors.Join(err, out.Flush(), file.Chmod(0o600))
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s holds the commits %d to %d; the last one's digest is %s\n", c.File, c.From, head.Sequence, head.Digest)
	return nil
}

func (c *Export) write(ctx context.Context, out *bufio.Writer, log ledger.Log, kept []proof.Kept) (ledger.Head, error) {
	if !c.JSON {
		show, end := cli.ProgressBar("exporting")
		defer end()
		return logfile.Write(ctx, out, log, logfile.Extent{
			From: c.From, To: c.To, Checkpoints: within(kept, c.From, c.To), Progress: show,
		})
	}
	head, err := chain.HeadBefore(ctx, log, c.From)
	if err != nil {
		return head, err
	}
	head.Sequence = c.From - 1
	lines := ledger.PlainEncoder(out)
	err = chain.Read(ctx, log, head, c.To, func(commit *ledger.Commit) error {
		head = commit.Head()
		for i := range commit.Records {
			at := ledger.Address{Sequence: commit.Sequence, Index: i}
			if err := lines.Encode(audit.LineOf(at, &commit.Records[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return head, err
}

// maxExported is the largest number of checkpoints in an export: the newest.
const maxExported = 1000

// within picks the checkpoints of a range of sequences. It keeps entries that are
// no checkpoints, because an export must not hide them.
func within(kept []proof.Kept, from, to uint64) [][]byte {
	var list [][]byte
	for _, one := range kept {
		if c, err := proof.Unverified(one.Signed); err != nil || c.Sequence >= from && c.Sequence <= to {
			list = append(list, one.Signed)
		}
	}
	return list[max(0, len(list)-maxExported):]
}

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
