package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
)

// maxKeyBytes bounds a file with a key.
const maxKeyBytes = 4096

// keyText is a key, or what is in the file of that name.
func keyText(keyOrFile string) (string, error) {
	if strings.Contains(keyOrFile, "+") && !strings.ContainsAny(keyOrFile, "/\\") {
		return keyOrFile, nil
	}
	text, err := os.ReadFile(keyOrFile)
	if errors.Is(err, os.ErrNotExist) && strings.Contains(keyOrFile, "+") {
		return keyOrFile, nil // base64 has slashes, too
	}
	if err == nil && len(text) > maxKeyBytes {
		err = errors.New("that is no key")
	}
	return string(bytes.TrimSpace(text)), err
}

// loadSigner reads the operator's private key; nil if there is no file.
func loadSigner(file string) (note.Signer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--signing-key: %w", err)
	}
	signer, err := note.NewSigner(string(bytes.TrimSpace(text)))
	if err != nil {
		return nil, fmt.Errorf("--signing-key %s: %w", file, err)
	}
	return signer, nil
}

// signingKeyCommand is "allot signing-key": a new key of an operator.
type signingKeyCommand struct {
	Name string `arg:"" help:"The operator's name in signatures, such as a domain."`
	File string `arg:"" help:"File for the private key, which must not exist." type:"path"`
}

// Run writes the private key and prints the public one.
func (c *signingKeyCommand) Run() error {
	private, public, err := note.GenerateKey(rand.Reader, c.Name)
	if err != nil {
		return err
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

// signCommand is "allot sign": a checkpoint of a log that no server uses.
type signCommand struct {
	Data       string `help:"Data folder of a server that is not running." type:"existingdir" required:"" placeholder:"DIR"`
	SigningKey string `help:"File with the operator's private key." type:"existingfile" required:"" placeholder:"FILE"`
}

// Run replays the log, for its tree, and keeps a signed checkpoint of its end.
func (c *signCommand) Run(ctx context.Context) (err error) {
	signer, err := loadSigner(c.SigningKey)
	if err != nil {
		return err
	}
	var last uint64
	log, closeLog, err := sourceFlags{Data: c.Data}.openTo(ctx, &last)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	show, end := progressBar("replaying")
	r, err := check.Replay(ctx, log, last, "", show, nil)
	end()
	if err != nil {
		return err
	}
	signed, err := r.Checkpoint().Sign(signer)
	if err != nil {
		return err
	}
	kept, err := proof.OpenFolder(filepath.Join(c.Data, checkpointsFolder))
	if err == nil {
		err = kept.Save(r.State.Head().Sequence, signed)
	}
	if err == nil {
		_, err = os.Stdout.Write(signed)
	}
	return err
}

// checkpointCommand is "allot checkpoint": the newest signed checkpoint of a
// running server, and that nothing was taken back since an earlier one.
type checkpointCommand struct {
	serverFlags `embed:""`
	keyFlag     `embed:""`
	Since       string `help:"File with an earlier checkpoint: the server must prove that the log still holds all of it." type:"existingfile" placeholder:"FILE"`
	Out         string `help:"File to keep the checkpoint in; default: it is printed." type:"path" placeholder:"FILE"`
	At          string `help:"As of this sequence or RFC 3339 time."`
}

// Run asks for the checkpoint and checks it.
func (c *checkpointCommand) Run(ctx context.Context) error {
	keys, err := c.verifiers()
	if err != nil {
		return err
	}
	if keys == nil && c.Since != "" {
		return errors.New("--since proves nothing without --public-key")
	}
	query := url.Values{}
	if c.At != "" {
		query.Set("at", c.At)
	}
	signed, err := c.read(ctx, "/audit/checkpoint", query)
	if err != nil {
		return err
	}
	if keys != nil {
		newest, err := proof.Open(signed, keys)
		if err != nil {
			return err
		}
		if err := c.compare(ctx, keys, newest); err != nil {
			return err
		}
	}
	if c.Out == "" {
		_, err = os.Stdout.Write(signed)
		return err
	}
	return os.WriteFile(c.Out, signed, 0o644)
}

// maxAnswerBytes bounds what is read of a server's answer.
const maxAnswerBytes = 64 << 20

func (s serverFlags) read(ctx context.Context, path string, query url.Values) ([]byte, error) {
	resp, err := s.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
}

func (c *checkpointCommand) compare(ctx context.Context, keys note.Verifiers, newest *proof.Checkpoint) error {
	if c.Since == "" {
		return nil
	}
	earlier, err := openKept(c.Since, keys)
	if err != nil {
		return err
	}
	answer, err := c.read(ctx, "/audit/proof/growth", url.Values{"from": {fmt.Sprint(earlier.Size)}, "at": {fmt.Sprint(newest.Sequence)}})
	if err != nil {
		return err
	}
	var growth audit.Growth
	if err := audit.ReadEvidence(answer, &growth); err != nil {
		return fmt.Errorf("the server sent something else than a proof: %w", err)
	}
	if err := proof.CheckGrowth(growth.Path, earlier, newest); err != nil {
		return err
	}
	sayGrown(earlier, newest)
	return nil
}

func sayGrown(earlier, later *proof.Checkpoint) {
	fmt.Fprintf(os.Stderr, "the log holds the %d records that it held, and %d more\n", earlier.Size, later.Size-earlier.Size)
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

// proveCommand is "allot prove": evidence that a record is in the log, or that
// the log holds all of an earlier one.
type proveCommand struct {
	serverFlags `embed:""`
	keyFlag     `embed:""`
	Record      string `arg:"" optional:"" help:"SEQUENCE.INDEX of the record."`
	Since       string `help:"File with a checkpoint that you have kept: evidence that the log still holds all that it vouched for." type:"existingfile" placeholder:"FILE"`
	At          string `help:"In the log as of this sequence or RFC 3339 time."`
}

// Run prints the evidence.
func (c *proveCommand) Run(ctx context.Context) error {
	path, query, err := c.question()
	if err != nil {
		return err
	}
	if c.At != "" {
		query.Set("at", c.At)
	}
	answer, err := c.read(ctx, path, query)
	if err == nil {
		_, err = os.Stdout.Write(answer)
	}
	return err
}

func (c *proveCommand) question() (string, url.Values, error) {
	if (c.Record == "") == (c.Since == "") {
		return "", nil, errors.New("either a RECORD or --since says what is to be proved")
	}
	if c.Since == "" {
		return "/audit/proof/record", url.Values{"record": {c.Record}}, nil
	}
	keys, err := c.verifiers()
	if err != nil {
		return "", nil, err
	}
	if keys == nil {
		return "", nil, errors.New("--since is read with --public-key")
	}
	kept, err := openKept(c.Since, keys)
	if err != nil {
		return "", nil, err
	}
	return "/audit/proof/growth", url.Values{"from": {fmt.Sprint(kept.Size)}}, nil
}

// checkProofCommand is "allot check-proof": evidence, checked offline.
type checkProofCommand struct {
	keyFlag `embed:""`
	File    string `arg:"" help:"What allot prove printed; -: standard input."`
	Since   string `help:"The checkpoint that you have kept, if the evidence is that the log still holds all that it vouched for." type:"existingfile" placeholder:"FILE"`
	Out     string `help:"With --since, file to keep the later checkpoint in." type:"path" placeholder:"FILE"`
}

// Run checks the evidence, and prints the record or the later checkpoint.
func (c *checkProofCommand) Run() error {
	keys, err := c.verifiers()
	if err != nil {
		return err
	}
	if keys == nil {
		return errors.New("--public-key is needed")
	}
	in := os.Stdin
	if c.File != "-" {
		if in, err = os.Open(c.File); err != nil {
			return err
		}
		defer func() { _ = in.Close() }() // nothing was written
	}
	text, err := io.ReadAll(io.LimitReader(in, maxAnswerBytes))
	if err != nil {
		return err
	}
	if c.Since != "" {
		return c.growth(text, keys)
	}
	var evidence audit.Inclusion
	if err := audit.ReadEvidence(text, &evidence); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	line, checkpoint, err := evidence.Check(keys)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "record %s is number %d of the %d that %s vouches for\n", line.Address, evidence.Number, checkpoint.Size, c.PublicKey)
	return ledger.PlainEncoder(os.Stdout).Encode(line)
}

func (c *checkProofCommand) growth(text []byte, keys note.Verifiers) error {
	earlier, err := openKept(c.Since, keys)
	if err != nil {
		return err
	}
	var evidence audit.Growth
	if err := audit.ReadEvidence(text, &evidence); err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	later, err := evidence.Check(keys, earlier)
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

// discardCommit looks at nothing.
func discardCommit(ledger.Entry) error { return nil }
