package proof

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
)

// Checkpoint describes the log up to a commit, for a signature. Its text is that
// of a tlog checkpoint (c2sp.org/tlog-checkpoint), so that the tools of
// transparency logs can read it:
//
//	name of the operator's key, which is the log's origin
//	number of records
//	root of the tree of all records, base64
//	ledger UUID
//	sequence SEQUENCE of the last commit
//	digest SHA-256 of the last commit, hexadecimal
//
// By the log's digest chain the last line vouches for the whole log, too, even
// where only a range of it is at hand.
type Checkpoint struct {
	Ledger ledger.UUID
	Size   int64
	Root   ledger.Digest
	ledger.Head
}

// ErrCheckpoint means that a text is not a checkpoint, or is not signed with a
// known key.
var ErrCheckpoint = errors.New("proof: not a good checkpoint")

// ErrSigner means that a checkpoint is signed, but with none of the known keys. It
// wraps ErrCheckpoint.
var ErrSigner = fmt.Errorf("%w: none of its signatures is of a key that was given", ErrCheckpoint)

// maxCheckpointBytes is the size of the longest checkpoint that is read, in
// bytes.
const maxCheckpointBytes = 16 << 10

const (
	ledgerPrefix   = "ledger "
	sequencePrefix = "sequence "
	digestPrefix   = "digest "
)

// Text returns the checkpoint as it is signed with a key of that name. Witnesses know
// the log by it.
func (c *Checkpoint) Text(origin string) string { return origin + "\n" + c.String() }

// String returns all of it that follows from the log.
func (c *Checkpoint) String() string {
	return fmt.Sprintf("%d\n%s\n%s%s\n%s%d\n%s%s\n", c.Size, base64.StdEncoding.EncodeToString(c.Root[:]),
		ledgerPrefix, c.Ledger, sequencePrefix, c.Sequence, digestPrefix, c.Digest)
}

// Sign returns the signed checkpoint.
func (c *Checkpoint) Sign(key note.Signer) ([]byte, error) {
	signed, err := note.Sign(&note.Note{Text: c.Text(key.Name())}, key)
	if err != nil {
		return nil, fmt.Errorf("proof: sign: %w", err)
	}
	return signed, nil
}

// Open checks the signature of a signed checkpoint and reads it. The error
// wraps ErrCheckpoint.
func Open(signed []byte, keys note.Verifiers) (*Checkpoint, error) {
	if len(signed) > maxCheckpointBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrCheckpoint, len(signed))
	}
	n, err := note.Open(signed, keys)
	var unknown *note.UnverifiedNoteError
	if errors.As(err, &unknown) {
		return nil, fmt.Errorf("%w: it is signed with %s", ErrSigner, names(unknown.Note.UnverifiedSigs))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	for _, sig := range n.Sigs {
		// A signature has one form, so that no two files are the same checkpoint.
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return nil, fmt.Errorf("%w: signature: %w", ErrCheckpoint, err)
		}
	}
	origin, _, _ := strings.Cut(n.Text, "\n")
	if !slices.ContainsFunc(n.Sigs, func(s note.Signature) bool { return s.Name == origin }) {
		return nil, fmt.Errorf("%w: it is of the log %q, and signed with %s", ErrCheckpoint, origin, names(n.Sigs))
	}
	return Parse(n.Text)
}

// names returns the keys of signatures as they begin in public keys: NAME+HASH.
func names(list []note.Signature) string {
	all := make([]string, len(list))
	for i, sig := range list {
		all[i] = fmt.Sprintf("%s+%08x", sig.Name, sig.Hash)
	}
	return strings.Join(all, ", ")
}

// Unverified reads a signed checkpoint without checking its signature.
func Unverified(signed []byte) (*Checkpoint, error) {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	return Parse(text + "\n")
}

// Parse reads a checkpoint's text.
func Parse(text string) (*Checkpoint, error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 7 || lines[6] != "" {
		return nil, fmt.Errorf("%w: %d lines, not 6", ErrCheckpoint, len(lines)-1)
	}
	c := &Checkpoint{}
	var err error
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 1 {
		return nil, fmt.Errorf("%w: %q is not a size", ErrCheckpoint, lines[1])
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return nil, fmt.Errorf("%w: %q is not a root", ErrCheckpoint, lines[2])
	}
	c.Root = ledger.Digest(root)
	id, found := strings.CutPrefix(lines[3], ledgerPrefix)
	if c.Ledger, err = ledger.ParseUUID(id); !found || err != nil {
		return nil, fmt.Errorf("%w: %q is not a ledger", ErrCheckpoint, lines[3])
	}
	number, found := strings.CutPrefix(lines[4], sequencePrefix)
	if c.Sequence, err = strconv.ParseUint(number, 10, 64); !found || err != nil || c.Sequence == 0 {
		return nil, fmt.Errorf("%w: %q is not a sequence", ErrCheckpoint, lines[4])
	}
	digest, found := strings.CutPrefix(lines[5], digestPrefix)
	if err := c.Digest.UnmarshalText([]byte(digest)); !found || err != nil {
		return nil, fmt.Errorf("%w: %q is not a digest", ErrCheckpoint, lines[5])
	}
	if c.Text(lines[0]) != text {
		return nil, fmt.Errorf("%w: it is not in the canonical form", ErrCheckpoint)
	}
	return c, nil
}
