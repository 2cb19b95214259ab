// Package copies gives a server that lacks them State and read models, so that it need
// not replay the log from its beginning. A copy is a list of files, each with its
// SHA-256, size and name. The files are:
//
//   - make: how a copy is made
//   - give: what the replica does that has one
//   - keeper: how copies come into archives
//   - peer, archived: where a copy is, which is another replica or an archive
//   - join, take: how a server chooses and gets one, when that is faster than a replay
//   - folder: how files come to where they belong, all of them or none
//
// Nothing of a copy is believed for who sent it. Where it stands, a sequence and the
// digest of its commit, is compared with the log; every file and block of a table has a
// checksum; and a State is decoded. What is not good is thrown away, the next copy is
// taken, and without one the log is replayed.
package copies

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/projector"
)

// Why there is no copy.
var (
	// ErrNone: there is no source of one.
	ErrNone = errors.New("copies: neither a replica nor an archive has a copy of State and read models")
	// ErrNotWorth: to replay what is missing takes less.
	ErrNotWorth = errors.New("copies: a replay takes less than a copy")
	// ErrOtherForm: it is of a release that stores things otherwise.
	ErrOtherForm = errors.New("copies: another release stores things otherwise")

	// errBad: a copy is not what it should be.
	errBad = errors.New("the copy is not good")
)

// form is what two builds must have in common.
type form struct {
	projector.Form
	Level uint64 `json:"level"` // of features
}

func ownForm() form { return form{projector.OwnForm(), ledger.Level} }

// offer is what is known of a copy before it is taken.
type offer struct {
	Form   form               `json:"form"`
	Models projector.Position `json:"models"`
	Bytes  int64              `json:"bytes"` // about
}

// manifest is what a copy consists of.
type manifest struct {
	Form   form               `json:"form"`
	State  ledger.Head        `json:"state"`
	Models projector.Position `json:"models"`
	Files  []file             `json:"files"`
}

type file struct {
	Sum  ledger.Digest `json:"sha256"`
	Size int64         `json:"size"`
	Name fileName      `json:"name"`
}

// fileName is what a file is called in a copy: stateName, or what Pebble calls it. It
// leads out of no folder.
type fileName string

// stateName is the file of the State. Pebble calls no file so.
const stateName fileName = "state"

var fileNames = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

func (n *fileName) UnmarshalText(text []byte) error {
	if len(text) > 100 || !fileNames.Match(text) {
		return fmt.Errorf("%.200q is no file's name in a copy", text)
	}
	*n = fileName(text)
	return nil
}

// maxManifest bounds what is read as a manifest, in bytes: some 500,000 files.
const maxManifest = 64 << 20

// isTable reports whether it is one of Pebble's tables, which are never written again.
func (f file) isTable() bool { return path.Ext(string(f.Name)) == ".sst" }

func readManifest(text []byte) (*manifest, error) {
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: its manifest cannot be read: %w", errBad, err)
	}
	return m, m.check()
}

// check refuses a manifest that contradicts itself, or that this build could not use.
func (m *manifest) check() error {
	if m.Form != ownForm() {
		return fmt.Errorf("%w: it is of the form %+v, and this release reads %+v", ErrOtherForm, m.Form, ownForm())
	}
	if m.State.Sequence == 0 || m.State.Sequence > m.Models.Head.Sequence {
		return fmt.Errorf("%w: its State is at %d, and its read models are at %d",
			errBad, m.State.Sequence, m.Models.Head.Sequence)
	}
	names, sizes, total := make(map[fileName]bool), make(map[ledger.Digest]int64), int64(0)
	for _, f := range m.Files {
		size, twice := sizes[f.Sum]
		if f.Name == "" || names[f.Name] || f.Size < 0 || f.Size > math.MaxInt64-total || twice && size != f.Size {
			return fmt.Errorf("%w: it lists the file %q with %d bytes", errBad, f.Name, f.Size)
		}
		names[f.Name], sizes[f.Sum] = true, f.Size
		total += f.Size
	}
	if !names[stateName] || len(names) < 2 {
		return fmt.Errorf("%w: it lacks the State or the read models", errBad)
	}
	return nil
}

// bytes is how much room a copy takes.
func (m *manifest) bytes() (total int64) {
	for _, f := range m.Files {
		total += f.Size
	}
	return total
}

func (m *manifest) offer() offer { return offer{m.Form, m.Models, m.bytes()} }

// compareCopy copies a file, which must be of a size and have a checksum.
func compareCopy(ctx context.Context, into io.Writer, from io.Reader, one file) error {
	sum := sha256.New()
	comes := io.LimitReader(&bucket.Interruptible{Context: ctx, In: from}, one.Size)
	size, err := io.Copy(io.MultiWriter(sum, into), comes)
	if err != nil {
		return err
	}
	if n, err := from.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: the file %s has more than %d bytes", errBad, one.Sum, one.Size)
	} else if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if size != one.Size || ledger.Digest(sum.Sum(nil)) != one.Sum {
		return fmt.Errorf("%w: the file %s has other bytes than it should", errBad, one.Sum)
	}
	return nil
}
