package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/verify"
)

// verifyCommand is "allot verify": the log, and whatever else there is in a
// data folder or an archive, checked against the log.
type verifyCommand struct {
	sourceFlags `embed:""`
	keyFlag     `embed:""`
}

// keyFlag names the public key that checkpoints are signed with.
type keyFlag struct {
	PublicKey string `help:"The operator's public key, or a file with it: signed checkpoints are checked, and one must vouch for the last commit." placeholder:"KEY|FILE"`
}

// verifiers reads the key; nil if none is given.
func (f keyFlag) verifiers() (note.Verifiers, error) {
	if f.PublicKey == "" {
		return nil, nil
	}
	key, err := keyText(f.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("--public-key: %w", err)
	}
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return nil, fmt.Errorf("--public-key: %w", err)
	}
	return note.VerifierList(verifier), nil
}

// Run goes through the log once, compares on the way, and says what is good
// and what is not.
func (c *verifyCommand) Run(ctx context.Context) (err error) {
	keys, err := c.verifiers()
	if err != nil {
		return err
	}
	if c.Archive != "" && c.Data == "" && c.NATSURL == "" {
		if header, err := archiveHeader(c.Archive); err != nil || header.First > 1 {
			return c.verifyRange(keys)
		}
	}
	var last uint64
	log, closeLog, err := c.openTo(ctx, &last)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	temporary, err := os.MkdirTemp("", "allot-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	show, end := progressBar("verifying")
	defer end()
	evidence := verify.Evidence{Keys: keys, Temporary: temporary, Progress: show}
	if evidence.Checkpoints, err = log.checkpoints(ctx, last); err != nil {
		return err
	}
	if c.Data != "" {
		evidence.Snapshots, evidence.ReadModels = filepath.Join(c.Data, "snapshots"), filepath.Join(c.Data, "readmodel")
	}
	report, err := verify.Log(ctx, log, last, evidence)
	if err != nil {
		return err
	}
	c.print(report, keys != nil)
	return report.Err()
}

func (c *verifyCommand) print(r *verify.Report, signed bool) {
	fmt.Printf("log          good up to sequence %d: %d records, digest %s\n", r.Sequence, r.Records, r.Digest)
	if c.Data != "" {
		fmt.Printf("snapshots    %d good\n", r.Snapshots)
		if r.ReadModels.Sequence > 0 {
			fmt.Printf("read models  good at sequence %d\n", r.ReadModels.Sequence)
		}
	}
	if signed {
		fmt.Printf("checkpoints  %d good\n", r.Checkpoints)
	} else {
		fmt.Println("checkpoints  not looked at: there is no --public-key")
	}
}

// verifyRange checks an archive of a range: that its commits follow each
// other, and that a checkpoint vouches for the last one.
func (c *verifyCommand) verifyRange(keys note.Verifiers) error {
	var header archive.Header
	trailer, err := readArchive(c.Archive, func(h archive.Header) error { header = h; return nil }, discardCommit)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Archive, err)
	}
	fmt.Printf("log          the commits %d to %d follow each other; without those before nothing can be replayed\n", header.First, trailer.Sequence)
	if keys == nil {
		fmt.Println("checkpoints  not looked at: there is no --public-key")
		return nil
	}
	for _, signed := range trailer.Checkpoints {
		checkpoint, err := proof.Open(signed, keys)
		if err != nil {
			return err
		}
		if checkpoint.Ledger == header.Ledger && checkpoint.Head == trailer.Head {
			fmt.Printf("checkpoints  one vouches for sequence %d, and by the digest chain for all before\n", checkpoint.Sequence)
			return nil
		}
	}
	return fmt.Errorf("%w vouches for sequence %d", verify.ErrUnsigned, trailer.Sequence)
}
