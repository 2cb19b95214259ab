package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
)

// Verify is "allot verify": it checks the log, and compares everything
// else in a data folder or an archive with it.
type Verify struct {
	sourceFlags `embed:""`
	keyFlag     `embed:""`
	sinceFlag   `embed:""`
	witnessFlag `embed:""`
	State       string `help:"File that remembers up to where an archive (--archive URL) was verified: the next time begins there." type:"path" placeholder:"FILE"`
}

// notChecked is what is said of signed checkpoints without a key.
const notChecked = "checkpoints  not checked: there is no --public-key"

// rootsNotChecked is what is said of roots of consumption where the log is not replayed.
const rootsNotChecked = "consumption  not checked: restore the whole log, and verify the folder, to compare its roots"

// errNoKey means that a kept checkpoint is named, and no key that signed it.
var errNoKey = errors.New("--since proves nothing without --public-key: give both")

// sayKept tells how many kept checkpoints agree with a log. flags are those that name some.
func (f sinceFlag) sayKept(kept int, flags string) {
	if f.Since == nil {
		fmt.Printf("kept         none: without an earlier checkpoint (%s) a rewrite by the key's owner cannot be detected\n", flags)
	} else {
		fmt.Printf("kept         %d of %d are of this log\n", kept, len(f.Since))
	}
}

// sinceFlag names checkpoints that the auditor has kept.
type sinceFlag struct {
	Since []string `help:"File with a checkpoint that you have kept: the log must still hold everything before it. May be repeated." type:"existingfile" placeholder:"FILE"`
}

// kept reads the files. Their signatures are checked when they are compared.
func (f sinceFlag) kept(keys note.Verifiers) ([]proof.Kept, error) {
	if len(f.Since) > 0 && keys == nil {
		return nil, errNoKey
	}
	var list []proof.Kept
	for _, path := range f.Since {
		signed, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		list = append(list, proof.Kept{Path: path, Signed: signed})
	}
	return list, nil
}

// keyFlag names the public key that verifies checkpoints.
type keyFlag struct {
	PublicKey string `help:"Public key of the operator, or a file with it. Signed checkpoints are checked, and one must vouch for the last commit." placeholder:"KEY|FILE"`
}

// witnessFlag names the witnesses that must have cosigned checkpoints.
type witnessFlag struct {
	Witness []string `help:"Public key of a witness that must have cosigned the checkpoint. May be repeated." placeholder:"VKEY" sep:"none"`
	Quorum  int      `help:"How many of the witnesses must have; 0: more than half of them." default:"0" placeholder:"N"`
}

// trust adds the witnesses to the operator's key.
func (f witnessFlag) trust(operator keyFlag) (proof.Trust, error) {
	keys, err := operator.verifiers()
	trust := proof.Trust{Operator: keys, Quorum: cmp.Or(f.Quorum, proof.Majority(len(f.Witness)))}
	if err != nil {
		return trust, err
	}
	if len(f.Witness) > 0 && keys == nil {
		return trust, errors.New("--witness proves nothing without --public-key: give both")
	}
	if trust.Quorum < 0 || trust.Quorum > len(f.Witness) {
		return trust, fmt.Errorf("--quorum %d: there are %d witnesses: name more with --witness", f.Quorum, len(f.Witness))
	}
	for i, text := range f.Witness {
		one, err := proof.ParseWitness(text)
		if err != nil {
			return trust, fmt.Errorf("--witness: %w", err)
		}
		if slices.Contains(f.Witness[:i], text) {
			return trust, fmt.Errorf("--witness: %s is named twice", one.Name())
		}
		trust.Witnesses = append(trust.Witnesses, one)
	}
	return trust, nil
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
		return nil, fmt.Errorf("--public-key: not a public key that allot signing-key printed: %w", err)
	}
	return note.VerifierList(verifier), nil
}

// Run reads the log once, compares everything with it, and prints the results.
func (c *Verify) Run(ctx context.Context) (err error) {
	trust, err := c.trust(c.keyFlag)
	if err != nil {
		return err
	}
	keys := trust.Operator
	kept, err := c.kept(keys)
	if err != nil {
		return err
	}
	if isArchiveURL(c.Archive) && c.Data == "" && c.NATSURL == "" {
		return c.verifyArchive(ctx, trust, kept)
	}
	if c.State != "" {
		return errors.New("--state is for an archive: name one with --archive URL")
	}
	if c.Archive != "" && c.Data == "" && c.NATSURL == "" {
		if header, err := archiveHeader(c.Archive); err != nil || header.First > 1 {
			return c.verifyRange(trust, kept)
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
	show, end := cli.ProgressBar("verifying")
	defer end()
	evidence := check.Evidence{Keys: keys, Witnesses: trust, Kept: kept, Temporary: temporary, Progress: show}
	if evidence.Checkpoints, err = log.checkpoints(ctx, last); err != nil {
		return err
	}
	if c.Data != "" {
		evidence.Snapshots, evidence.ReadModels = filepath.Join(c.Data, "snapshots"), filepath.Join(c.Data, "readmodel")
	}
	report, err := check.VerifyLog(ctx, log, last, evidence)
	if err != nil {
		return err
	}
	c.print(report, keys != nil)
	return report.Err()
}

func (c *Verify) print(r *check.Report, signed bool) {
	fmt.Printf("log          good up to sequence %d: %d records, digest %s\n", r.Sequence, r.Records, r.Digest)
	if c.Data != "" {
		fmt.Printf("snapshots    %d good\n", r.Snapshots)
		if r.ReadModels.Sequence > 0 {
			fmt.Printf("read models  good at sequence %d\n", r.ReadModels.Sequence)
		}
	}
	if r.Roots > 0 {
		fmt.Printf("consumption  %d roots good\n", r.Roots)
	}
	if signed {
		fmt.Printf("checkpoints  %d good\n", r.Checkpoints)
		c.sayKept(r.Kept, "--since")
	} else {
		fmt.Println(notChecked)
	}
}

// verifyRange checks an archive of a range of the log: its commits follow each other, kept checkpoints agree
// with it, and a checkpoint vouches for its last commit.
func (c *Verify) verifyRange(trust proof.Trust, kept []proof.Kept) error {
	keys := trust.Operator
	var header logfile.Header
	digests := make(map[uint64]ledger.Digest) // the commits that kept checkpoints are of
	for _, k := range kept {
		checkpoint, err := proof.Open(k.Signed, keys)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Path, err)
		}
		digests[checkpoint.Sequence] = ledger.Digest{}
	}
	see := func(sequence uint64, digest ledger.Digest) {
		if _, wanted := digests[sequence]; wanted {
			digests[sequence] = digest
		}
	}
	trailer, err := readArchive(c.Archive, func(h logfile.Header) error {
		header = h
		see(h.First-1, h.Prev)
		return nil
	}, func(entry ledger.Entry) error {
		see(entry.Sequence, ledger.DigestOf(entry.Data))
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Archive, err)
	}
	for _, k := range kept {
		if err := keptInRange(k, keys, header, digests); err != nil {
			return fmt.Errorf("%s: %w", k.Path, err)
		}
	}
	fmt.Printf("log          the commits %d to %d follow each other; without the earlier commits nothing can be replayed\n%s\n",
		header.First, trailer.Sequence, rootsNotChecked)
	if keys == nil {
		fmt.Println(notChecked)
		return nil
	}
	var lacks error
	for _, signed := range trailer.Checkpoints {
		checkpoint, err := proof.Open(signed, keys)
		if err != nil {
			return err
		}
		if checkpoint.Ledger == header.Ledger && checkpoint.Head == trailer.Head {
			if lacks = trust.Cosigned(signed); lacks != nil {
				continue
			}
			fmt.Printf("checkpoints  one vouches for sequence %d and, by the digest chain, for everything before it\n", checkpoint.Sequence)
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%w vouches for sequence %d", check.ErrUnsigned, trailer.Sequence), lacks)
}

// keptInRange checks that a kept checkpoint is of a commit of the range, or of the one before it. By the digest
// chain it then vouches for everything before that commit.
func keptInRange(k proof.Kept, keys note.Verifiers, header logfile.Header, digests map[uint64]ledger.Digest) error {
	checkpoint, err := proof.Open(k.Signed, keys)
	if err != nil {
		return err
	}
	digest := digests[checkpoint.Sequence]
	switch {
	case checkpoint.Ledger != header.Ledger:
		return fmt.Errorf("it is of the ledger %s, but the file is of %s", checkpoint.Ledger, header.Ledger)
	case digest == ledger.Digest{}:
		return fmt.Errorf(
			"it is of sequence %d, but the file begins at %d, so nothing connects the two: export a range that includes that sequence",
			checkpoint.Sequence, header.First,
		)
	case digest != checkpoint.Digest:
		return fmt.Errorf("%w: commit %d has the digest %s, but had %s when the checkpoint was signed",
			ledger.ErrChain, checkpoint.Sequence, digest, checkpoint.Digest)
	}
	fmt.Printf("kept         %s is of this log\n", k.Path)
	return nil
}

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

// verifyArchive verifies an archive with the public key alone, from where the last verification ended.
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
	fmt.Printf("ledger       %s\n%s\n", v.Ledger, rootsNotChecked)
	if from != nil {
		fmt.Printf("before       verified up to sequence %d, as %s says\n", from.Sequence, c.State)
	}
	if !signed {
		fmt.Println(notChecked)
		return
	}
	fmt.Printf("checkpoints  %d good; the last one vouches for everything up to sequence %d\n", v.Checkpoints, v.Vouched)
	if from == nil || c.Since != nil {
		c.sayKept(v.Kept, "--since, --state")
	}
}
