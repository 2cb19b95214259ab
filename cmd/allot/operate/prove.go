package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/cmd/allot/ask"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// Prove is "allot prove": it prints evidence that a record is in the log, that the log still
// holds all of an earlier log, or of what a project has consumed.
type Prove struct {
	cli.Server `embed:""`
	ask.Moment `embed:""`
	keyFlag    `embed:""`
	Record     string `arg:"" optional:"" help:"SEQUENCE.INDEX of the record."`
	Since      string `help:"File with a checkpoint that you have kept: print evidence that the log still holds everything before it." type:"existingfile" placeholder:"FILE"`
	Project    string `help:"Project: print a statement of what it has consumed, with evidence." placeholder:"ID"`
	From       string `help:"With --project: the whole hour from which on (RFC 3339). Default: the ledger's beginning." placeholder:"TIME"`
	To         string `help:"With --project: the whole hour up to which (RFC 3339)." placeholder:"TIME"`
}

// Run prints the evidence.
func (c *Prove) Run(ctx context.Context) error {
	path, query, err := c.question()
	if err != nil {
		return err
	}
	answer, err := read(ctx, c.Server, path, c.In(query))
	if err != nil {
		return err
	}
	if !json.Valid(answer) {
		return cli.ErrNotAllot
	}
	_, err = os.Stdout.Write(answer)
	return err
}

func (c *Prove) question() (string, url.Values, error) {
	given := slices.DeleteFunc([]string{c.Record, c.Since, c.Project}, func(s string) bool { return s == "" })
	switch {
	case len(given) != 1:
		return "", nil, errors.New("say what to prove: give a RECORD, --since or --project")
	case c.Project == "" && c.From+c.To != "" || c.Project != "" && c.To == "":
		return "", nil, errors.New("--project needs --to, and --from and --to need --project")
	case c.Record != "":
		return "/audit/proof/record", url.Values{"record": {c.Record}}, nil
	case c.Project != "":
		query := url.Values{"project": {c.Project}, "to": {c.To}}
		if c.From != "" {
			query.Set("from", c.From)
		}
		return "/audit/proof/consumption", query, nil
	}
	keys, err := c.verifiers()
	if err != nil {
		return "", nil, err
	}
	if keys == nil {
		return "", nil, errors.New("--since needs --public-key to check the checkpoint")
	}
	kept, err := openKept(c.Since, keys)
	if err != nil {
		return "", nil, err
	}
	return "/audit/proof/growth", url.Values{"from": {fmt.Sprint(kept.Size)}}, nil
}

// CheckProof is "allot check-proof": it checks evidence offline.
type CheckProof struct {
	keyFlag     `embed:""`
	witnessFlag `embed:""`
	File        string `arg:"" help:"File with the output of allot prove; -: standard input."`
	Since       string `help:"File with the checkpoint that you have kept, for evidence of allot prove --since." type:"existingfile" placeholder:"FILE"`
	Out         string `help:"With --since: file to write the later checkpoint to." type:"path" placeholder:"FILE"`
}

// Run checks the evidence, and prints the record or the later checkpoint.
func (c *CheckProof) Run() error {
	trust, err := c.trust(c.keyFlag)
	if err != nil {
		return err
	}
	if trust.Operator == nil {
		return errors.New("--public-key is needed")
	}
	in := os.Stdin
	if c.File != "-" {
		if in, err = os.Open(c.File); err != nil {
			return err
		}
		defer func() { _ = in.Close() }() // nothing was written
	}
	text, err := io.ReadAll(io.LimitReader(in, cli.MaxAnswerBytes))
	if err != nil {
		return err
	}
	if c.Since != "" {
		return c.growth(text, trust)
	}
	if isStatement(text) {
		return c.statement(text, trust)
	}
	var evidence audit.Inclusion
	if err := audit.ReadEvidence(text, &evidence); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	line, checkpoint, err := evidence.Check(trust)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		os.Stderr, "record %s is number %d of the %d that %s vouches for\n", line.Address, evidence.Number, checkpoint.Size,
		c.PublicKey,
	)
	return ledger.PlainEncoder(os.Stdout).Encode(line)
}

func (c *CheckProof) growth(text []byte, trust proof.Trust) error {
	earlier, err := openKept(c.Since, trust.Operator)
	if err != nil {
		return err
	}
	var evidence audit.Growth
	if err := audit.ReadEvidence(text, &evidence); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	later, err := evidence.Check(trust, earlier)
	if err != nil {
		return err
	}
	sayGrown(earlier, later)
	if c.Out != "" {
		return os.WriteFile(c.Out, []byte(evidence.Checkpoint), 0o644)
	}
	_, err = os.Stdout.WriteString(evidence.Checkpoint)
	return err
}

func isStatement(text []byte) bool {
	var members struct {
		End json.RawMessage `json:"end"`
	}
	return json.Unmarshal(text, &members) == nil && members.End != nil
}

func (c *CheckProof) statement(text []byte, trust proof.Trust) error {
	var statement audit.Statement
	if err := audit.ReadEvidence(text, &statement); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	checkpoint, err := statement.Check(trust)
	if err != nil {
		return err
	}
	from := "the ledger's beginning"
	if statement.From != nil {
		from = statement.From.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(os.Stderr, "%s vouches for what project %s consumed from %s to %s, by its log of %d records\n",
		c.PublicKey, statement.Project, from, statement.To.UTC().Format(time.RFC3339), checkpoint.Size)
	return ledger.PlainEncoder(os.Stdout).Encode(map[string]any{
		"project": statement.Project, "from": statement.From, "to": statement.To, "consumed": statement.Consumed,
	})
}
