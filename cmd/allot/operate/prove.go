package operate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/cmd/allot/ask"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
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
		c.PublicKey, cli.Clean(statement.Project), from, statement.To.UTC().Format(time.RFC3339), checkpoint.Size)
	return ledger.PlainEncoder(os.Stdout).Encode(map[string]any{
		"project": statement.Project, "from": statement.From, "to": statement.To, "consumed": statement.Consumed,
	})
}

// Checkpoint is "allot checkpoint": it gets the newest signed checkpoint of a running server, and checks that
// nothing was taken back since an earlier one.
type Checkpoint struct {
	cli.Server  `embed:""`
	ask.Moment  `embed:""`
	keyFlag     `embed:""`
	witnessFlag `embed:""`
	Since       string `help:"File with an earlier checkpoint: the server must prove that the log still holds all of it." type:"existingfile" placeholder:"FILE"`
	Out         string `help:"File to write the checkpoint to; default: standard output." type:"path" placeholder:"FILE"`
}

func read(ctx context.Context, server cli.Server, path string, query url.Values) ([]byte, error) {
	client, err := server.Client()
	if err != nil {
		return nil, err
	}
	return client.Read(ctx, cli.Request{Path: path, Query: query})
}

// Run asks for the checkpoint and checks it.
func (c *Checkpoint) Run(ctx context.Context) error {
	trust, err := c.trust(c.keyFlag)
	if err != nil {
		return err
	}
	if trust.Operator == nil && c.Since != "" {
		return errNoKey
	}
	var earlier *proof.Checkpoint
	if c.Since != "" {
		if earlier, err = openKept(c.Since, trust.Operator); err != nil {
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
func (c *Checkpoint) check(ctx context.Context, signed []byte, trust proof.Trust, earlier *proof.Checkpoint) error {
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

const maxKeyBytes = 4096

// keyText returns a key: its argument, or the contents of the file of that name.
func keyText(keyOrFile string) (string, error) {
	if strings.Contains(keyOrFile, "+") && !strings.ContainsAny(keyOrFile, "/\\") {
		return keyOrFile, nil
	}
	text, err := os.ReadFile(keyOrFile)
	if errors.Is(err, os.ErrNotExist) && strings.Contains(keyOrFile, "+") {
		return keyOrFile, nil // base64 has slashes, too
	}
	if err == nil && len(text) > maxKeyBytes {
		err = errors.New("not a key")
	}
	return string(bytes.TrimSpace(text)), err
}

// SigningKey is "allot signing-key": it makes a new key for an operator.
type SigningKey struct {
	Name string `arg:"" help:"The log's name in checkpoints and signatures, such as a domain with a path: witnesses know the log by it, so each ledger needs one of its own."`
	File string `arg:"" help:"File for the private key, which must not exist." type:"path"`
}

// Run writes the private key and prints the public one.
func (c *SigningKey) Run() error {
	private, public, err := note.GenerateKey(rand.Reader, c.Name)
	if err == nil {
		_, err = note.NewSigner(private) // only this call checks the name
	}
	if err != nil {
		return fmt.Errorf("%q cannot name a key: a name must not be empty, or contain blanks or plus signs", c.Name)
	}
	f, err := os.OpenFile(c.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, private)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Println(public)
	return err
}

// Sign is "allot sign": it signs a checkpoint of a log that no server uses.
type Sign struct {
	Data       string `help:"Data folder of a server that is not running." type:"existingdir" required:"" placeholder:"DIR"`
	SigningKey string `help:"File with the operator's private key." type:"existingfile" required:"" placeholder:"FILE"`
}

// Run replays the log for its Merkle tree, and stores a signed checkpoint of its end.
func (c *Sign) Run(ctx context.Context) (err error) {
	signer, err := cli.LoadSigner(c.SigningKey)
	if err != nil {
		return err
	}
	var last uint64
	log, closeLog, err := sourceFlags{Data: c.Data}.openTo(ctx, &last)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	show, end := cli.ProgressBar("replaying")
	r, err := check.Replay(ctx, log, last, "", show, nil)
	end()
	if err != nil {
		return err
	}
	signed, err := r.Checkpoint().Sign(signer)
	if err != nil {
		return err
	}
	kept, err := proof.OpenFolder(filepath.Join(c.Data, datafolder.Checkpoints))
	if err == nil {
		err = kept.Save(r.State.Head().Sequence, signed)
	}
	if err == nil {
		_, err = os.Stdout.Write(signed)
	}
	return err
}
