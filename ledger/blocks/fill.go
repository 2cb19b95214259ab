package blocks

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash"
	"os"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
)

// Filler appends commits to a log's files in nats-server's form, while no server
// uses them: many times faster than through a server. Each block is durable
// before the next one begins, so that a kill or a power cut leaves a log that ends
// early, as an unfinished write of a server does.
type Filler struct {
	folder Folder
	number int // of the block under way
	last   uint64
	file   *os.File // nil: no block is under way
	out    *bufio.Writer
	size   int
	sum    hash.Hash64
	record []byte
}

// blockBytes is the size at which nats-server begins a new block of a log.
const blockBytes = 8 << 20

// Fill returns what appends after the end in a report. The report was settled, so
// that nothing is cut off afterwards, and the stream exists.
func (f Folder) Fill(r *Report) (*Filler, error) {
	list, err := f.blocks()
	if err != nil {
		return nil, err
	}
	w := &Filler{folder: f, last: r.Last.Sequence}
	for _, b := range list {
		w.number = max(w.number, b.number)
	}
	for i := range r.read {
		if !r.read[i].empty() {
			w.last = max(w.last, r.read[i].last) // entries after the last commit are foreign
		}
	}
	return w, nil
}

// Last returns the sequence of the last entry.
func (w *Filler) Last() uint64 { return w.last }

// Append appends an entry.
func (w *Filler) Append(e ledger.Entry) error {
	if e.Sequence != w.last+1 {
		return fmt.Errorf("%w: sequence %d comes after %d", ledger.ErrLogGap, e.Sequence, w.last)
	}
	length := emptyRecordBytes + len(w.folder.Subject) + len(e.Data)
	if length > maxRecordBytes {
		return fmt.Errorf("%w: entry %d has %d bytes", ledger.ErrTooLarge, e.Sequence, len(e.Data))
	}
	if w.file == nil || w.size+length > blockBytes {
		if err := w.nextBlock(); err != nil {
			return err
		}
	}
	head := binary.LittleEndian.AppendUint32(w.record[:0], uint32(length))
	head = binary.LittleEndian.AppendUint64(head, e.Sequence)
	head = binary.LittleEndian.AppendUint64(head, uint64(time.Now().UnixNano()))
	head = binary.LittleEndian.AppendUint16(head, uint16(len(w.folder.Subject)))
	head = append(head, w.folder.Subject...)
	w.sum.Reset()
	_, _ = w.sum.Write(head[4:20]) // a hash.Hash never fails
	_, _ = w.sum.Write(head[recordHeaderBytes:])
	_, _ = w.sum.Write(e.Data)
	w.record = head
	_, err := w.out.Write(head)
	if err == nil {
		_, err = w.out.Write(e.Data)
	}
	if err == nil {
		_, err = w.out.Write(w.sum.Sum(w.record[:0]))
	}
	w.last, w.size = e.Sequence, w.size+length
	return joinErrors(err)
}

func (w *Filler) nextBlock() error {
	if err := w.endBlock(); err != nil {
		return err
	}
	w.number++
	file, err := os.OpenFile(w.folder.blockPath(w.number), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return joinErrors(err)
	}
	w.file, w.out, w.size = file, bufio.NewWriterSize(file, 1<<20), 0
	w.sum = blockHash(w.folder.Stream, w.number)
	return joinErrors(durable.SyncFolder(w.folder.messages()))
}

func (w *Filler) endBlock() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	return joinErrors(w.out.Flush(), file.Sync(), file.Close())
}

// Close makes everything durable. Whoever opens the files next checks them, and
// settles them.
func (w *Filler) Close() error { return w.endBlock() }
