package logfile

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/ledger"
)

// Frame is where a frame of a part begins: in the file, and in the log.
type Frame struct {
	Sequence uint64
	Offset   int64
}

// Index has the frames of a part, in order. With it one commit is read without
// all those before it. It is the last frame of the file, which decoders skip:
//
//	0x184D2A5A | size 4 | (sequence 8, offset 8) for each frame | checksum 4 | size 4 | "allotidx"
//
// all little-endian. Both sizes are that of what follows the first one, and the
// checksum is the CRC-32C of what describes the frames.
type Index []Frame

const (
	skippable   = 0x184D2A5A
	indexMagic  = "allotidx"
	frameSize   = 16
	footerSize  = 4 + 4 + len(indexMagic)
	maxIndexLen = 64 << 20
)

var sums = crc32.MakeTable(crc32.Castagnoli)

func (x Index) write(out io.Writer) error {
	body := make([]byte, 0, len(x)*frameSize+footerSize)
	for _, f := range x {
		body = binary.LittleEndian.AppendUint64(body, f.Sequence)
		body = binary.LittleEndian.AppendUint64(body, uint64(f.Offset))
	}
	size := uint32(cap(body))
	body = binary.LittleEndian.AppendUint32(body, crc32.Checksum(body, sums))
	body = append(binary.LittleEndian.AppendUint32(body, size), indexMagic...)
	head := binary.LittleEndian.AppendUint32(nil, skippable)
	_, err := out.Write(append(binary.LittleEndian.AppendUint32(head, size), body...))
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

// ReadIndex reads the index at the end of a part of a size.
func ReadIndex(file io.ReaderAt, size int64) (Index, error) {
	if size < int64(footerSize) {
		return nil, damaged("it has no index")
	}
	footer := make([]byte, footerSize)
	if _, err := file.ReadAt(footer, size-int64(footerSize)); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	bytes := int64(binary.LittleEndian.Uint32(footer[4:]))
	frames := bytes - int64(footerSize)
	if string(footer[8:]) != indexMagic || bytes > min(size, maxIndexLen) || frames < frameSize || frames%frameSize != 0 {
		return nil, damaged("it does not end with an index")
	}
	body := make([]byte, frames)
	if _, err := file.ReadAt(body, size-bytes); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if crc32.Checksum(body, sums) != binary.LittleEndian.Uint32(footer) {
		return nil, damaged("its index has a wrong checksum")
	}
	x := make(Index, 0, frames/frameSize)
	for ; len(body) > 0; body = body[frameSize:] {
		x = append(x, Frame{binary.LittleEndian.Uint64(body), int64(binary.LittleEndian.Uint64(body[8:]))})
	}
	return x, nil
}

// ReadRange calls yield for the entries from..to of a part in a file, which was
// read and found good before. It unpacks only the frames that hold them.
func ReadRange(file io.ReaderAt, size int64, from, to uint64, yield func(ledger.Entry) error) error {
	x, err := ReadIndex(file, size)
	if err != nil {
		return err
	}
	at, found := slices.BinarySearchFunc(x, from, func(f Frame, s uint64) int {
		if f.Sequence < s {
			return -1
		}
		return int(min(f.Sequence-s, 1))
	})
	if !found {
		at--
	}
	if at < 0 || x[at].Offset < 0 || x[at].Offset > size {
		return damaged("its index has no frame for sequence %d", from)
	}
	return unpacked(io.NewSectionReader(file, x[at].Offset, size-x[at].Offset), func(unpacker io.Reader) error {
		r := &reader{in: unpacker, dec: msgpack.NewDecoder(unpacker)}
		if at == 0 {
			if _, err := r.header(); err != nil {
				return err
			}
		}
		return r.entries(x[at].Sequence, from, to, yield)
	})
}

// unpacked calls read with what a zstd stream holds.
func unpacked(in io.Reader, read func(io.Reader) error) error {
	unpacker, err := zstd.NewReader(in, zstd.WithDecoderMaxMemory(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return damaged("%v", err)
	}
	defer unpacker.Close()
	return read(unpacker)
}

// entries yields the entries from..to, of which the next one has a sequence.
func (r *reader) entries(next, from, to uint64, yield func(ledger.Entry) error) error {
	for ; next <= to; next++ {
		fields, err := r.dec.DecodeArrayLen()
		if err != nil || fields != 2 {
			return damaged("sequence %d: %d fields, %v", next, fields, err)
		}
		sequence, err := r.dec.DecodeUint64()
		if err != nil || sequence != next {
			return damaged("sequence %d stands where %d should: %v", sequence, next, err)
		}
		data, err := r.bytes(maxCommitBytes)
		if err != nil {
			return damaged("sequence %d: %v", next, err)
		}
		if next < from {
			continue
		}
		if err := yield(ledger.Entry{Sequence: next, Data: data}); err != nil {
			return err
		}
	}
	return nil
}

type counted struct {
	out   io.Writer
	bytes int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.out.Write(p)
	c.bytes += int64(n)
	return n, err
}
