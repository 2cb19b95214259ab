package projector

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/allot-project/allot/ledger"
)

// markFile keeps the position of the newest commit that was ever folded, as a
// high-water mark of the log. Pebble's checkpoint is no such mark: what it
// has not yet written out dies with the process, and it may be set aside when
// it is damaged. The mark is written to the file before a commit is answered,
// and synced with the read models.
//
// Two slots are written in turn, so that a torn write leaves the other one.
type markFile struct {
	path   string
	f      *os.File
	head   ledger.Head
	failed error // since the file was opened
}

const (
	slotBytes     = 64 // sequence 8 | digest 32 | check 8, padded
	slotUsedBytes = 8 + 32
	slotCheck     = 8
)

func openMark(path string) (*markFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("projector: mark: %w", err)
	}
	m := &markFile{path: path, f: f}
	var slots [2 * slotBytes]byte
	if _, err := f.ReadAt(slots[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("projector: mark: %w", err), f.Close())
	}
	for _, slot := range [][]byte{slots[:slotBytes], slots[slotBytes:]} {
		sum := sha256.Sum256(slot[:slotUsedBytes])
		sequence := binary.BigEndian.Uint64(slot)
		if bytes.Equal(sum[:slotCheck], slot[slotUsedBytes:slotUsedBytes+slotCheck]) && sequence > m.head.Sequence {
			m.head = ledger.Head{Sequence: sequence, Digest: ledger.Digest(slot[8:slotUsedBytes])}
		}
	}
	return m, nil
}

// set moves the mark forward. Replays of older commits leave it.
func (m *markFile) set(head ledger.Head) error {
	if head.Sequence <= m.head.Sequence {
		return nil
	}
	if _, err := m.f.WriteAt(slotOf(head), int64(head.Sequence%2)*slotBytes); err != nil {
		m.failed = fmt.Errorf("projector: mark: %w", err)
		return m.failed
	}
	m.head = head
	return nil
}

func slotOf(head ledger.Head) []byte {
	var slot [slotBytes]byte
	binary.BigEndian.PutUint64(slot[:], head.Sequence)
	copy(slot[8:], head.Digest[:])
	sum := sha256.Sum256(slot[:slotUsedBytes])
	copy(slot[slotUsedBytes:], sum[:slotCheck])
	return slot[:]
}

// renew writes the mark into another file, which takes the place of one that
// failed.
func (m *markFile) renew() error {
	f, err := os.OpenFile(m.path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("projector: mark: %w", err)
	}
	if m.head.Sequence > 0 {
		_, err = f.WriteAt(slotOf(m.head), int64(m.head.Sequence%2)*slotBytes)
	}
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), m.path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("projector: mark: %w", err), f.Close())
	}
	_ = m.f.Close() // it has failed already
	m.f, m.failed = f, nil
	return nil
}
