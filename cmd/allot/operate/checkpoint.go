package operate

import (
	"context"
	"fmt"
	"net/url"
	"os"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/cmd/allot/ask"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/proof"
)

// Checkpoint is "allot checkpoint": it gets the newest signed checkpoint
// of a running server, and checks that nothing was taken back since an earlier
// one.
type Checkpoint struct {
	cli.Server  `embed:""`
	ask.Moment  `embed:""`
	keyFlag     `embed:""`
	witnessFlag `embed:""`
	Since       string `help:"File with an earlier checkpoint: the server must prove that the log still holds all of it." type:"existingfile" placeholder:"FILE"`
	Out         string `help:"File to write the checkpoint to; default: standard output." type:"path" placeholder:"FILE"`
}

// read returns an answer of a running server whole.
func read(ctx context.Context, server cli.Server, path string, query url.Values) ([]byte, error) {
	client, err := server.Client()
	if err != nil {
		return nil, err
	}
	return client.Read(ctx, cli.Request{Path: path, Query: query})
}

// Run asks for the checkpoint and checks it.
func (c *Checkpoint) Run(ctx context.Context) error {
	keys, err := c.verifiers()
	if err != nil {
		return err
	}
	if keys == nil && c.Since != "" {
		return errNoKey
	}
	trust, err := c.trust(keys)
	if err != nil {
		return err
	}
	var earlier *proof.Checkpoint
	if c.Since != "" {
		if earlier, err = openKept(c.Since, keys); err != nil {
			return err
		}
	}
	signed, err := read(ctx, c.Server, "/audit/checkpoint", c.In(url.Values{}))
	if err != nil {
		return err
	}
	if err := c.check(ctx, signed, trust, earlier); err != nil {
		return err
	}
	if c.Out == "" {
		_, err = os.Stdout.Write(signed)
		return err
	}
	return os.WriteFile(c.Out, signed, 0o644)
}

// check checks the server's checkpoint as far as the given keys allow and, if
// there is an earlier checkpoint, that the log still holds everything before it.
func (c *Checkpoint) check(
	ctx context.Context, signed []byte, trust proof.Trust, earlier *proof.Checkpoint,
) error {
	if trust.Operator == nil {
		_, err := proof.Unverified(signed)
		return err
	}
	newest, err := trust.Open(signed)
	if err != nil || earlier == nil {
		return err
	}
	query := url.Values{"from": {fmt.Sprint(earlier.Size)}, "at": {fmt.Sprint(newest.Sequence)}}
	answer, err := read(ctx, c.Server, "/audit/proof/growth", query)
	if err != nil {
		return err
	}
	var growth audit.Growth
	if err := audit.ReadEvidence(answer, &growth); err != nil {
		return fmt.Errorf("the server's proof cannot be read: %w", err)
	}
	if err := proof.CheckGrowth(growth.Path, earlier, newest); err != nil {
		return err
	}
	sayGrown(earlier, newest)
	return nil
}

func sayGrown(earlier, later *proof.Checkpoint) {
	fmt.Fprintf(
		os.Stderr, "the log still holds the %d records of the earlier checkpoint, and %d more\n", earlier.Size, later.Size-earlier.Size,
	)
}

// openKept reads a checkpoint that an auditor has kept.
func openKept(file string, keys note.Verifiers) (*proof.Checkpoint, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	kept, err := proof.Open(text, keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return kept, nil
}
