package copies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
)

// Where copies are in a store:
//
//	copies/files/SHA-256                         a file, which copies may share
//	copies/manifests/SEQUENCE-DIGEST-SHA-256     a copy: where its read models stand,
//	                                             and the checksum of this object
//
// A manifest is written after its files, so that what it lists was there.
const (
	storedFiles     = bucket.Copies + "files/"
	storedManifests = bucket.Copies + "manifests/"
)

// storedTitle begins each manifest, so that nothing else that is signed with the
// same key is taken for one.
const storedTitle = "allot copy 1\n"

// storedName names a copy in a store.
type storedName struct {
	models ledger.Head
	sum    ledger.Digest // of its manifest
}

// String returns the name of its manifest's object.
func (n storedName) String() string {
	return fmt.Sprintf("%s%020d-%s-%s", storedManifests, n.models.Sequence, n.models.Digest, n.sum)
}

func parseStoredName(text string) (n storedName, isOne bool) {
	fields := strings.Split(strings.TrimPrefix(text, storedManifests), "-")
	if len(fields) != 3 {
		return n, false
	}
	var err error
	n.models.Sequence, err = strconv.ParseUint(fields[0], 10, 64)
	err = errors.Join(err, n.models.Digest.UnmarshalText([]byte(fields[1])), n.sum.UnmarshalText([]byte(fields[2])))
	return n, err == nil && n.models.Sequence > 0 && n.String() == text
}

// listStored lists the copies in a store, the newest first.
func listStored(ctx context.Context, store bucket.Store) (list []storedName, err error) {
	err = store.List(ctx, storedManifests, func(o bucket.Object) error {
		if name, isOne := parseStoredName(o.Name); isOne {
			list = append(list, name)
		}
		return nil
	})
	slices.Reverse(list)
	return list, err
}

type storedCopy struct {
	store bucket.Store
	name  storedName
	// unsign returns the text of a signed manifest; nil: signatures are not checked.
	unsign func(signed []byte) (text []byte, err error)
	read   *manifest // nil: it was not read yet
}

// String names it.
func (c *storedCopy) String() string { return c.store.String() }

func (c *storedCopy) offer(ctx context.Context) (offer, error) {
	m, err := c.manifest(ctx)
	if err != nil {
		return offer{}, err
	}
	return m.offer(), nil
}

// manifest reads a manifest, and compares it with its name.
func (c *storedCopy) manifest(ctx context.Context) (*manifest, error) {
	if c.read != nil {
		return c.read, nil
	}
	body, err := c.store.Open(ctx, c.name.String())
	if err != nil {
		return nil, err
	}
	object, err := io.ReadAll(io.LimitReader(body, maxManifest))
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	if ledger.Digest(sha256.Sum256(object)) != c.name.sum {
		return nil, fmt.Errorf("%w: its manifest has another checksum than its name says", errBad)
	}
	text, _, _ := bytes.Cut(object, []byte("\n\n")) // signatures follow an empty line
	if c.unsign != nil {
		if text, err = c.unsign(object); err != nil {
			return nil, fmt.Errorf("%w: its manifest is not signed with the operator's key: %w", errBad, err)
		}
	}
	text, ours := bytes.CutPrefix(text, []byte(storedTitle))
	if !ours {
		return nil, fmt.Errorf("%w: its manifest is none that this release knows", ErrOtherForm)
	}
	m, err := readManifest(text)
	if err == nil && m.Models.Head != c.name.models {
		err = fmt.Errorf("%w: its manifest is of sequence %d, and not of %d", errBad, m.Models.Head.Sequence, c.name.models.Sequence)
	}
	c.read = m
	return m, err
}

func (c *storedCopy) open(ctx context.Context, sum ledger.Digest) (io.ReadCloser, error) {
	return c.store.Open(ctx, storedFiles+sum.String())
}
