// Package logfile stores a log, or a range of it, in a portable file: a zstd
// stream of msgpack values.
//
//	["allot archive", version, ledger (16 bytes), first sequence, digest of the commit before it (32 bytes)]
//	[sequence, commit as it is stored]       for each commit, in order
//	[0, number of commits, digest of the last commit (32 bytes), [signed checkpoints]]
//
// Version 2 is a part of a chain of files, and says where the Merkle tree of all
// records stands after its last commit, in a fifth element of the last array:
//
//	[number of records, root (32 bytes) of each complete subtree, the largest first ...]
//
// Its zstd stream has a frame for each MiB or so of commits. A skippable frame at
// the end, which decoders pass over, says where each of them begins, see Index.
//
// The commits are those of the log, byte for byte, so sequences, digests and
// generations are the same wherever the file is imported.
package logfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/proof"
)

const (
	magic        = "allot archive"
	maxTreeRoots = 64
	// maxCheckpoints and maxCheckpointBytes bound the checkpoints in a file.
	maxCheckpoints     = 10_000
	maxCheckpointBytes = 16 << 10
	// maxCommitBytes is the size of the largest commit that is read.
	maxCommitBytes = 128 << 20
	// maxWindow bounds the memory of decompression.
	maxWindow = 64 << 20
)

// The versions of files.
const (
	Exported = 1 // a file that stands for itself
	Part     = 2 // a part of a chain of files
)

// ErrDamaged means that a file is not an archive, or not a whole one.
var ErrDamaged = errors.New("archive: the file is damaged")

// ErrRange means that the log does not have a range of sequences.
var ErrRange = errors.New("archive: no such range")

// Header describes the contents of an archive.
type Header struct {
	Ledger ledger.UUID
	First  uint64        // sequence of the first commit
	Prev   ledger.Digest // of the commit before it; zero if First is 1
}

// Progress is called with the progress of an archive.
type Progress func(done, total uint64)

// Trailer is the end of an archive.
type Trailer struct {
	ledger.Head             // of the last commit
	Checkpoints [][]byte    // signed; the reader must check what they say
	Tree        *proof.Tree // after the last commit, as the file says; nil: it does not
}

// Extent says what goes into an archive.
type Extent struct {
	From, To    uint64 // sequences
	Checkpoints [][]byte
	Progress    Progress // nil: not reported
}

// Write archives a range of a log. It returns the head of the last commit.
func Write(ctx context.Context, out io.Writer, log ledger.Log, extent Extent) (ledger.Head, error) {
	from, to := extent.From, extent.To
	last, err := log.Last(ctx)
	if err != nil {
		return ledger.Head{}, err
	}
	if from < 1 || to < from || to > last {
		return ledger.Head{}, fmt.Errorf("%w: %d to %d of a log that ends at %d", ErrRange, from, to, last)
	}
	header, err := HeaderOf(ctx, log, from)
	if err != nil {
		return ledger.Head{}, err
	}
	w, err := NewWriter(out, header, Exported)
	if err != nil {
		return ledger.Head{}, err
	}
	err = log.Read(ctx, from, to, func(e ledger.Entry) error {
		if extent.Progress != nil {
			extent.Progress(e.Sequence-from+1, to-from+1)
		}
		return w.Add(e)
	})
	if err != nil {
		return w.Head(), errors.Join(err, w.packer.Close())
	}
	return w.Head(), w.End(extent.Checkpoints, nil)
}

// HeaderOf reads the header of a file that begins at a sequence from the log.
func HeaderOf(ctx context.Context, log ledger.Log, from uint64) (Header, error) {
	header := Header{First: from}
	last, err := log.Last(ctx)
	if err != nil {
		return header, err
	}
	err = log.Read(ctx, 1, last, func(e ledger.Entry) error {
		id, err := beginning(e.Data)
		if err != nil {
			return &chain.BadEntryError{Sequence: e.Sequence, Err: err}
		}
		if header.Ledger = id; !id.IsNil() {
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
	case err == nil:
		return header, fmt.Errorf("%w: no ledger begins in it", ledger.ErrInvariant)
	default:
		return header, err
	}
	before, err := chain.HeadBefore(ctx, log, from)
	header.Prev = before.Digest
	return header, err
}

func encode(enc *msgpack.Encoder, values ...any) error {
	err := enc.EncodeArrayLen(len(values))
	for _, value := range values {
		if err == nil {
			err = enc.Encode(value)
		}
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// Read reads an archive to its end. It calls begin with the header, then yield
// with every entry. It checks that the commits follow one another; about foreign
// entries see chain.Chain. Nothing is known to be whole before Read has returned
// without an error.
func Read(in io.Reader, begin func(Header) error, yield func(ledger.Entry) error) (Trailer, error) {
	return read(in, begin, (*chain.Chain).Next, func(e ledger.Entry, _ *ledger.Commit) error { return yield(e) })
}

// ReadLinks is Read for callers that need not know whether the contents of each
// commit can be decoded: it follows the digests only.
func ReadLinks(in io.Reader, begin func(Header) error, yield func(ledger.Entry) error) (Trailer, error) {
	return read(in, begin, followLink, func(e ledger.Entry, _ *ledger.Commit) error { return yield(e) })
}

// followLink is chain.Chain.Next for callers that need no commit.
func followLink(links *chain.Chain, e ledger.Entry) (*ledger.Commit, error) {
	_, err := links.NextLink(e)
	return nil, err
}

// ReadCommits is Read for callers that want the commits decoded.
func ReadCommits(in io.Reader, begin func(Header) error, yield func(*ledger.Commit) error) (Trailer, error) {
	return read(in, begin, (*chain.Chain).Next, func(_ ledger.Entry, commit *ledger.Commit) error {
		if commit == nil {
			return nil
		}
		return yield(commit)
	})
}

func read(
	in io.Reader, begin func(Header) error, link func(*chain.Chain, ledger.Entry) (*ledger.Commit, error),
	yield func(ledger.Entry, *ledger.Commit) error,
) (Trailer, error) {
	unpacker, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return Trailer{}, damaged("%v", err)
	}
	defer unpacker.Close()
	r := &reader{in: unpacker, dec: msgpack.NewDecoder(unpacker)}
	header, err := r.header()
	if err != nil {
		return Trailer{}, err
	}
	if err := begin(header); err != nil {
		return Trailer{}, err
	}
	links := chain.New(ledger.Head{Sequence: header.First - 1, Digest: header.Prev})
	for count := uint64(0); ; count++ {
		entry, err := r.entry(header.First+count, count, links)
		var commit *ledger.Commit
		if err == nil && entry.Sequence > 0 {
			commit, err = link(links, entry)
		}
		var bad *chain.BadEntryError
		if errors.As(err, &bad) {
			err = fmt.Errorf("%w: %w", ErrDamaged, bad)
		}
		if err != nil {
			return Trailer{}, err
		}
		if entry.Sequence == 0 {
			return Trailer{Head: links.Head(), Checkpoints: r.checkpoints, Tree: r.tree}, r.end()
		}
		if err := yield(entry, commit); err != nil {
			return Trailer{}, err
		}
	}
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

type reader struct {
	in          io.Reader
	dec         *msgpack.Decoder
	version     uint64
	ledger      ledger.UUID
	checkpoints [][]byte
	tree        *proof.Tree
	begins      bool // the ledger has not begun yet
}

// bytes reads a binary value of a bounded length.
func (r *reader) bytes(limit int) ([]byte, error) {
	n, err := r.dec.DecodeBytesLen()
	if err != nil {
		return nil, err
	}
	if n < 0 || n > limit {
		return nil, fmt.Errorf("%d bytes, at most %d", n, limit)
	}
	// A false length costs no more memory than about twice the bytes that are there.
	var data []byte
	for len(data) < n {
		have := len(data)
		data = slices.Grow(data, min(n-have, 1<<20))[:min(n, have+1<<20)]
		if err := r.dec.ReadFull(data[have:]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

func (r *reader) fixed(into []byte) error {
	data, err := r.bytes(len(into))
	if err == nil && copy(into, data) != len(into) {
		err = fmt.Errorf("%d bytes, not %d", len(data), len(into))
	}
	return err
}

var errBeginning = errors.New("none begins so")

func (r *reader) header() (Header, error) {
	var h Header
	if n, err := r.dec.DecodeArrayLen(); err != nil || n != 5 {
		return h, damaged("it is not an archive that allot export wrote: %v", cmp.Or(err, errBeginning))
	}
	name, err := r.bytes(len(magic))
	if err != nil || string(name) != magic {
		return h, damaged("it is not an archive that allot export wrote: %v", cmp.Or(err, errBeginning))
	}
	r.version, err = r.dec.DecodeUint64()
	if err != nil || r.version < 1 || r.version > Part {
		return h, damaged("version %d: %v", r.version, cmp.Or(err, errBeginning))
	}
	if err := r.fixed(h.Ledger[:]); err != nil {
		return h, damaged("ledger: %v", err)
	}
	r.ledger = h.Ledger
	if h.First, err = r.dec.DecodeUint64(); err != nil || h.First == 0 {
		return h, damaged("first sequence %d: %v", h.First, cmp.Or(err, errBeginning))
	}
	if err := r.fixed(h.Prev[:]); err != nil {
		return h, damaged("digest: %v", err)
	}
	return h, nil
}

// entry reads the next entry; at the end its sequence is 0.
func (r *reader) entry(where, count uint64, links *chain.Chain) (ledger.Entry, error) {
	fields, err := r.dec.DecodeArrayLen()
	if err != nil {
		return ledger.Entry{}, damaged("it ends before sequence %d: %v", where, err)
	}
	sequence, err := r.dec.DecodeUint64()
	switch {
	case err != nil:
		return ledger.Entry{}, damaged("sequence %d: %v", where, err)
	case sequence == 0 && fields == int(r.version)+3:
		if r.begins {
			return ledger.Entry{}, damaged("the ledger %s does not begin in it", r.ledger)
		}
		if err := links.End(); err != nil {
			return ledger.Entry{}, err
		}
		return ledger.Entry{}, r.trailer(count, links.Head())
	case sequence != where || fields != 2:
		return ledger.Entry{}, damaged("sequence %d stands where %d should", sequence, where)
	}
	data, err := r.bytes(maxCommitBytes)
	if err != nil {
		return ledger.Entry{}, damaged("sequence %d: %v", where, err)
	}
	if where == 1 {
		r.begins = true
	}
	if r.begins {
		if err := r.belongs(data); err != nil {
			return ledger.Entry{}, fmt.Errorf("%w: %w", ErrDamaged, &chain.BadEntryError{Sequence: where, Err: err})
		}
	}
	return ledger.Entry{Sequence: where, Data: data}, nil
}

// belongs checks that the first commits begin the ledger that the header names.
func (r *reader) belongs(data []byte) error {
	id, err := beginning(data)
	switch {
	case err != nil:
		return err
	case id.IsNil():
		return nil // the next one may
	case id != r.ledger:
		return fmt.Errorf("%w: it does not begin the ledger %s, which the header names", ledger.ErrInvariant, r.ledger)
	}
	r.begins = false
	return nil
}

var errFound = errors.New("archive: found")

// beginning returns the ledger that begins in one of a log's first commits, or
// nil. Before that commit there may be terms, because one of several servers has
// to lead first, and nothing else.
func beginning(data []byte) (ledger.UUID, error) {
	commit, err := ledger.DecodeCommit(data)
	if err != nil {
		return ledger.UUID{}, err
	}
	for _, record := range commit.Records {
		for _, event := range record.Events {
			switch event := event.(type) {
			case ledger.LedgerCreated:
				return event.Ledger, nil
			case ledger.TermBegan:
			default:
				return ledger.UUID{}, fmt.Errorf("%w: %s comes before the ledger has begun", ledger.ErrInvariant, ledger.KindOf(event))
			}
		}
	}
	return ledger.UUID{}, nil
}

func (r *reader) trailer(count uint64, head ledger.Head) error {
	n, err := r.dec.DecodeUint64()
	if err != nil || n != count || count == 0 {
		return damaged("it has %d commits, but should have %d: %v", count, n, err)
	}
	var digest ledger.Digest
	if err := r.fixed(digest[:]); err != nil || digest != head.Digest {
		return damaged("the last commit has another digest than the end says: %v", err)
	}
	number, err := r.dec.DecodeArrayLen()
	if err != nil || number > maxCheckpoints {
		return damaged("%d checkpoints: %v", number, err)
	}
	for range number {
		checkpoint, err := r.bytes(maxCheckpointBytes)
		if err != nil {
			return damaged("checkpoint: %v", err)
		}
		r.checkpoints = append(r.checkpoints, checkpoint)
	}
	if r.version < Part {
		return nil
	}
	return r.treeAfter()
}

// treeAfter reads where the Merkle tree stands after the last commit.
func (r *reader) treeAfter() error {
	n, err := r.dec.DecodeArrayLen()
	if err != nil || n < 1 || n > maxTreeRoots+1 {
		return damaged("a tree of %d elements: %v", n, err)
	}
	size, err := r.dec.DecodeInt64()
	if err != nil {
		return damaged("the number of records: %v", err)
	}
	roots := make([]ledger.Digest, n-1)
	for i := range roots {
		if err := r.fixed(roots[i][:]); err != nil {
			return damaged("the tree: %v", err)
		}
	}
	if r.tree, err = proof.TreeOf(size, roots); err != nil {
		return damaged("%v", err)
	}
	return nil
}

// end checks that nothing follows the trailer, and that the zstd stream is whole.
func (r *reader) end() error {
	if _, err := r.dec.PeekCode(); !errors.Is(err, io.EOF) {
		return damaged("there are bytes after the end")
	}
	return nil
}
