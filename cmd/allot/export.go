package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/snapshots"
)

// exportCommand is "allot export": a log, or a range of it, into a file.
type exportCommand struct {
	sourceFlags `embed:""`
	From        uint64 `help:"First sequence." default:"1"`
	To          uint64 `help:"Last sequence; 0: the last one there is." default:"0"`
	JSON        bool   `name:"json" help:"Records as lines of JSON, to be read and not to be imported."`
	File        string `arg:"" help:"The file, which must not exist." type:"path"`
}

// Run writes the file under another name first: what has the name is whole.
func (c *exportCommand) Run(ctx context.Context) (err error) {
	log, closeLog, err := c.openTo(ctx, &c.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	checkpoints, err := log.checkpoints(ctx, c.To)
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.File); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists", c.File)
	}
	part, err := os.CreateTemp(filepath.Dir(c.File), filepath.Base(c.File)+".part-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // it has its name by then
	out := bufio.NewWriterSize(part, 1<<20)
	head, err := c.write(ctx, out, log, checkpoints)
	err = errors.Join(err, out.Flush(), part.Sync(), part.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(part.Name(), c.File); err != nil {
		return err
	}
	fmt.Printf("%s holds the commits %d to %d; the last one's digest is %s\n", c.File, c.From, head.Sequence, head.Digest)
	return nil
}

func (c *exportCommand) write(ctx context.Context, out *bufio.Writer, log ledger.Log, kept []snapshots.KeptCheckpoint) (ledger.Head, error) {
	if !c.JSON {
		show, end := progressBar("exporting")
		defer end()
		return archive.Write(ctx, out, log, archive.Extent{
			From: c.From, To: c.To, Checkpoints: within(kept, c.From, c.To), Progress: show,
		})
	}
	var head ledger.Head
	lines := ledger.PlainEncoder(out)
	err := log.Read(ctx, c.From, c.To, func(e ledger.Entry) error {
		commit, err := ledger.DecodeCommit(e.Data)
		if err != nil {
			return &ledger.BadEntryError{Sequence: e.Sequence, Err: err}
		}
		head = commit.Head()
		for i := range commit.Records {
			if err := lines.Encode(audit.LineOf(ledger.Address{Sequence: commit.Sequence, Index: i}, &commit.Records[i])); err != nil {
				return err
			}
		}
		return nil
	})
	return head, err
}

// maxExported is how many checkpoints an export holds at most: the newest.
const maxExported = 1000

// within picks the checkpoints of a range of sequences. What is no checkpoint
// is not the export's to hide.
func within(kept []snapshots.KeptCheckpoint, from, to uint64) [][]byte {
	var list [][]byte
	for _, one := range kept {
		if c, err := unverified(one.Signed); err != nil || c.Sequence >= from && c.Sequence <= to {
			list = append(list, one.Signed)
		}
	}
	return list[max(0, len(list)-maxExported):]
}

// unverified reads a signed checkpoint whatever its signature.
func unverified(signed []byte) (*proof.Checkpoint, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	return proof.Parse(text + "\n")
}

// importCommand is "allot import": an archive into a new data folder.
type importCommand struct {
	File string `arg:"" help:"File that allot export wrote, from sequence 1 on." type:"existingfile"`
	Data string `help:"Data folder, without a log so far." required:"" type:"path" placeholder:"DIR"`
}

// Run looks through the whole file before it writes anything. Every commit
// gets the sequence that it had, so that generations and addresses are the
// same; a log that has commits is refused.
func (c *importCommand) Run(ctx context.Context) (err error) {
	source, err := openArchive(c.File)
	if err != nil {
		return err
	}
	for _, signed := range source.trailer.Checkpoints {
		if _, err := unverified(signed); err != nil {
			return fmt.Errorf("%s: %w", c.File, err)
		}
	}
	for _, remains := range []string{"readmodel", "snapshots"} {
		if _, err := os.Stat(filepath.Join(c.Data, remains)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s has been a server's: it has a folder %q", c.Data, remains)
		}
	}
	target, closeLog, err := openData(ctx, c.Data, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	last, err := target.Last(ctx)
	if err != nil {
		return err
	}
	if last > 0 {
		return fmt.Errorf("the log in %s has %d commits: only an empty one can take an import", c.Data, last)
	}
	head, err := copyLog(ctx, source, target)
	if err == nil {
		err = c.keepCheckpoints(source)
	}
	if err == nil {
		fmt.Printf("%s holds %d commits; the last one's digest is %s\n", c.Data, head.Sequence, head.Digest)
	}
	return err
}

// keepCheckpoints keeps the signed checkpoints of the archive. Who signed them
// is for allot verify to say.
func (c *importCommand) keepCheckpoints(source *archiveLog) error {
	if len(source.trailer.Checkpoints) == 0 {
		return nil
	}
	folder, err := snapshots.OpenCheckpoints(filepath.Join(c.Data, checkpointsFolder))
	if err != nil {
		return err
	}
	for _, signed := range source.trailer.Checkpoints {
		checkpoint, err := unverified(signed)
		if err == nil {
			err = folder.Save(checkpoint.Sequence, signed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendsUnderWay is how many commits an import has on their way to the log.
const appendsUnderWay = 64

// copyLog appends every commit under its own sequence.
func copyLog(ctx context.Context, source *archiveLog, target ledger.Log) (ledger.Head, error) {
	show, end := progressBar("importing")
	defer end()
	answers := make(chan error, appendsUnderWay)
	waiting := 0
	var head ledger.Head
	err := source.Read(ctx, 1, source.last, func(e ledger.Entry) error {
		if len(e.Data) > target.MaxCommitBytes() {
			return fmt.Errorf("sequence %d: %w: it has %d bytes", e.Sequence, ledger.ErrTooLarge, len(e.Data))
		}
		if waiting == appendsUnderWay {
			waiting--
			if err := <-answers; err != nil {
				return err
			}
		}
		waiting++
		target.Append(e.Sequence, e.Data, func(err error) { answers <- err })
		head = ledger.Head{Sequence: e.Sequence, Digest: ledger.DigestOf(e.Data)}
		show(e.Sequence, source.last)
		return nil
	})
	for ; waiting > 0; waiting-- {
		err = errors.Join(err, <-answers)
	}
	return head, err
}
