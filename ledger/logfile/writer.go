package logfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/proof"
)

// Writer writes an archive entry by entry. It is for one goroutine.
type Writer struct {
	out     *counted
	index   Index
	inFrame int // bytes of commits in the frame under way
	version int
	first   uint64
	count   uint64
	chain   *chain.Chain
	packer  *zstd.Encoder
	enc     *msgpack.Encoder
}

// NewWriter writes the header of a file, which is a Part or Exported.
func NewWriter(out io.Writer, header Header, version int) (*Writer, error) {
	// One goroutine, so that the same entries give the same bytes, and background
	// work leaves the other cores alone.
	counted := &counted{out: out}
	packer, err := zstd.NewWriter(counted, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	w := &Writer{
		out: counted, index: Index{{Sequence: header.First}}, version: version, first: header.First, packer: packer,
		enc:   msgpack.NewEncoder(packer),
		chain: chain.New(ledger.Head{Sequence: header.First - 1, Digest: header.Prev}),
	}
	if err := encode(w.enc, magic, version, header.Ledger[:], header.First, header.Prev[:]); err != nil {
		return nil, errors.Join(err, packer.Close())
	}
	return w, nil
}

// Head returns the head of the last commit.
func (w *Writer) Head() ledger.Head { return w.chain.Head() }

// Next returns the sequence of the next entry.
func (w *Writer) Next() uint64 { return w.first + w.count }

// Add writes the next entry.
func (w *Writer) Add(e ledger.Entry) error { return w.add(e, (*chain.Chain).Next) }

// AddLinked is Add for callers that have decoded the entry.
func (w *Writer) AddLinked(e ledger.Entry) error { return w.add(e, followLink) }

func (w *Writer) add(e ledger.Entry, follow func(*chain.Chain, ledger.Entry) (*ledger.Commit, error)) error {
	if e.Sequence != w.Next() {
		return fmt.Errorf("%w: sequence %d comes after %d", ledger.ErrLogGap, e.Sequence, w.Next()-1)
	}
	if _, err := follow(w.chain, e); err != nil {
		return err
	}
	return w.put(e)
}

// frameBytes is how many bytes of commits are in a frame of a part. A reader of
// one commit unpacks so much for it.
const frameBytes = 1 << 20

func (w *Writer) put(e ledger.Entry) error {
	if w.version >= Part && w.inFrame >= frameBytes {
		if err := w.packer.Close(); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		w.packer.Reset(w.out)
		w.index, w.inFrame = append(w.index, Frame{Sequence: e.Sequence, Offset: w.out.bytes}), 0
	}
	w.count++
	w.inFrame += len(e.Data)
	return encode(w.enc, e.Sequence, e.Data)
}

// End writes the end of the archive. A part says where the Merkle tree stands.
func (w *Writer) End(checkpoints [][]byte, tree *proof.Tree) error {
	err := w.chain.End()
	digest := w.chain.Head().Digest
	trailer := []any{uint64(0), w.count, digest[:], checkpoints}
	if w.version >= Part {
		state := []any{tree.Size()}
		for _, root := range tree.Roots() {
			state = append(state, root[:])
		}
		trailer = append(trailer, state)
	}
	if err == nil {
		err = encode(w.enc, trailer...)
	}
	if err = errors.Join(err, w.packer.Close()); err != nil || w.version < Part {
		return err
	}
	return w.index.write(w.out)
}

// Abandon frees what the Writer holds. The archive is not whole.
func (w *Writer) Abandon() {
	_ = w.packer.Close() // what it writes is not read
}
