package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/proof"
)

// verified is what a file of --state remembers of an archive.
type verified struct {
	Ledger   ledger.UUID     `json:"ledger"`
	Sequence uint64          `json:"sequence"`
	Digest   ledger.Digest   `json:"digest"`
	Records  int64           `json:"records"`
	Roots    []ledger.Digest `json:"roots"` // of the Merkle tree's complete subtrees
	Parts    int             `json:"parts"`
	Signed   int             `json:"checkpoints"`
	Vouched  uint64          `json:"vouched"` // by a signed checkpoint
}

// readVerified reads such a file; nil if there is none.
func readVerified(path string) (*archive.Verification, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept verified
	if err := json.Unmarshal(text, &kept); err != nil {
		return nil, fmt.Errorf("--state %s: it does not say what was verified: %w; remove it to verify everything", path, err)
	}
	tree, err := proof.TreeOf(kept.Records, kept.Roots)
	if err != nil {
		return nil, fmt.Errorf("--state %s: %w; remove it to verify everything", path, err)
	}
	return &archive.Verification{
		Ledger: kept.Ledger, Parts: kept.Parts, Checkpoints: kept.Signed, Vouched: kept.Vouched,
		Position: archive.Position{Head: ledger.Head{Sequence: kept.Sequence, Digest: kept.Digest}, Tree: tree},
	}, nil
}

func writeVerified(path string, v *archive.Verification) error {
	text, err := ledger.PlainJSON(verified{
		Ledger: v.Ledger, Sequence: v.Sequence, Digest: v.Digest, Records: v.Tree.Size(), Roots: v.Tree.Roots(),
		Parts: v.Parts, Signed: v.Checkpoints, Vouched: v.Vouched,
	})
	if err != nil {
		return err
	}
	return durable.Replace(path, append(text, '\n'))
}

// verifyArchive verifies an archive with the public key alone, from where the
// last verification ended.
func (c *Verify) verifyArchive(ctx context.Context, trust proof.Trust, kept []proof.Kept) (err error) {
	keys := trust.Operator
	a, err := archive.OpenURL(c.Archive)
	if err != nil {
		return err
	}
	options := archive.VerifyOptions{Keys: keys}
	var lacks error
	cosigned := uint64(0) // up to there
	for _, one := range kept {
		checkpoint, err := proof.Open(one.Signed, keys)
		if err != nil {
			return fmt.Errorf("%s: %w", one.Path, err)
		}
		if err := trust.Cosigned(one.Signed); err == nil {
			cosigned = max(cosigned, checkpoint.Sequence)
		} else {
			lacks = fmt.Errorf("%s: %w", one.Path, err)
		}
		options.Kept = append(options.Kept, *checkpoint)
	}
	if trust.Quorum > 0 && cosigned == 0 {
		return errors.Join(errors.New("an archive's parts have the operator's signature alone: name a checkpoint with --since that the "+
			"witnesses have cosigned, which the archive must hold"), lacks)
	}
	if c.State != "" {
		if options.From, err = readVerified(c.State); err != nil {
			return err
		}
		options.Known = func(v *archive.Verification) error {
			if keys != nil && v.Vouched < v.Sequence {
				return nil // without a signature it is not remembered as verified
			}
			return writeVerified(c.State, v)
		}
	}
	if options.Folder, err = os.MkdirTemp("", "allot-verify-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(options.Folder)) }()
	known, err := a.Verify(ctx, options)
	if known.Sequence > 0 {
		c.printArchive(known, options.From, keys != nil)
	}
	if err == nil && trust.Quorum > 0 {
		fmt.Printf("witnesses    vouch for everything up to sequence %d\n", cosigned)
	}
	return err
}

func (c *Verify) printArchive(v, from *archive.Verification, signed bool) {
	fmt.Printf("archive      good up to sequence %d: %d records in %d parts, digest %s\n", v.Sequence, v.Tree.Size(), v.Parts, v.Digest)
	fmt.Printf("ledger       %s\n", v.Ledger)
	if from != nil {
		fmt.Printf("before       verified up to sequence %d, as %s says\n", from.Sequence, c.State)
	}
	if !signed {
		fmt.Println(notChecked)
		return
	}
	fmt.Printf("checkpoints  %d good; the last one vouches for everything up to sequence %d\n", v.Checkpoints, v.Vouched)
	c.sayKept(v.Kept, "--since, --state")
}
