package projector

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
)

// highWaterFile keeps the head of the newest commit that was ever folded, as a
// high-water mark of the log. Pebble's checkpoint cannot serve as one: data that
// Pebble has not written out dies with the process, and damaged read models are
// set aside. The mark is written to the file before a commit is answered, and
// synced with the read models.
//
// Two slots are written in turn, so that a torn write leaves the other one
// intact.
type highWaterFile struct {
	f    *os.File
	head ledger.Head
}

func openHighWater(path string) (*highWaterFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("projector: high-water mark: %w", err)
	}
	m := &highWaterFile{f: f}
	var slots [blocks.SlotsBytes]byte
	if _, err := f.ReadAt(slots[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("projector: high-water mark: %w", err), f.Close())
	}
	m.head, _ = blocks.NewestSlot(slots[:])
	return m, nil
}

// set raises the high-water mark. Replays of older commits do not change it.
func (m *highWaterFile) set(head ledger.Head) error {
	if head.Sequence <= m.head.Sequence {
		return nil
	}
	slot, at := blocks.Slot(head)
	if _, err := m.f.WriteAt(slot[:], at); err != nil {
		return fmt.Errorf("projector: high-water mark: %w", err)
	}
	m.head = head
	return nil
}
