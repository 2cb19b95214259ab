package blocks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/allot-project/allot/ledger/system"
)

// Pace slows a reader down, so that it leaves room for others. A rate.Limiter
// implements it; its burst must be at least PaceBytes.
type Pace interface {
	WaitN(ctx context.Context, n int) error
}

// PaceBytes is how much is read at once, in bytes.
const PaceBytes = 256 << 10

// ReadPaced reads a file from the disk, past the system's cache, at a pace.
func ReadPaced(ctx context.Context, path string, pace Pace) (data []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	system.Uncache(file) // a damaged sector would stay hidden behind a good copy in memory
	data = make([]byte, 0, info.Size())
	for len(data) < cap(data) {
		piece := min(PaceBytes, cap(data)-len(data))
		if err := pace.WaitN(ctx, piece); err != nil {
			return nil, fmt.Errorf("blocks: %w", err)
		}
		n, err := io.ReadFull(file, data[len(data):len(data)+piece])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break // the file was cut meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("blocks: %w", err)
		}
	}
	return data, nil
}

// Scrub reads the whole log at a pace while a server appends to it. It calls tell
// for every damage: a block that differs from what was written, or does not
// follow the one before. It asks for the durable head before it reads the newest
// block, which may end with an unfinished write.
func (f Folder) Scrub(
	ctx context.Context, pace Pace, durable func() uint64, tell func(*DamageError), read func(bytes int64),
) error {
	list, err := f.blocks()
	if err != nil {
		return err
	}
	if err := f.checkMeta(); err != nil {
		tell(&DamageError{Path: f.Dir(), Reason: err.Error()})
	}
	j := newJoint()
	for _, b := range list {
		sequence := durable()
		buf, err := ReadPaced(ctx, b.path, pace)
		if err != nil {
			return err
		}
		facts := f.scanBytes(b, buf)
		read(int64(len(buf)))
		if damage := j.next(&facts); damage != nil {
			tell(damage)
			j.lost = true
		}
		// After the durable head there may be an unfinished write.
		if facts.bad != nil && facts.last < sequence {
			facts.bad.After = j.chain.Head()
			tell(facts.bad)
			j.lost = true
		}
	}
	return nil
}
