package blocks

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
)

// Two slots are written in turn, so that a torn write leaves the other one
// intact.
const (
	// SlotsBytes is the size of the file, in bytes.
	SlotsBytes    = 2 * slotBytes
	slotBytes     = 64 // sequence 8 | digest 32 | check 8, padded
	slotUsedBytes = 8 + 32
	slotCheck     = 8
)

// syncEvery bounds how old the mark is after a power cut.
const syncEvery = time.Second

// ErrNoPosition means that a file holds something other than a mark. A file with
// one good slot is not damaged.
var ErrNoPosition = errors.New("the file holds no position")

// HighWater keeps the newest head of a log that was ever seen, in a small file. A
// log that ends before it has lost something, whatever else is gone.
//
// The file is written before a commit is answered, so a killed process leaves it
// up to date. It is synced every second, so after a power cut it is at most a
// second old. It is safe for concurrent use.
type HighWater struct {
	f *os.File

	mu    sync.Mutex
	head  ledger.Head // guarded by mu
	dirty bool        // written since the last sync; guarded by mu

	failed  func(error) // called if a sync failed
	stopped chan struct{}
	idle    sync.WaitGroup
}

// ReadHighWater returns the head in a file without changing anything; the zero
// head if there is no file. The error wraps ErrDamaged if the file cannot be read
// as a mark.
func ReadHighWater(path string) (ledger.Head, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return ledger.Head{}, nil
	}
	if err != nil {
		return ledger.Head{}, fmt.Errorf("blocks: high-water mark: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	return readSlots(f)
}

func readSlots(f *os.File) (ledger.Head, error) {
	var slots [SlotsBytes]byte
	n, err := f.ReadAt(slots[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return ledger.Head{}, fmt.Errorf("blocks: high-water mark: %w", err)
	}
	newest := NewestSlot(slots[:])
	// A power cut can leave a new file full of zeros.
	if newest.Sequence == 0 && len(bytes.Trim(slots[:n], "\x00")) > 0 {
		return newest, fmt.Errorf("%w: %s: %w", ErrDamaged, f.Name(), ErrNoPosition)
	}
	return newest, nil
}

// NewestSlot returns the newest head in the two slots of a file; the zero head if
// neither is good.
func NewestSlot(slots []byte) (newest ledger.Head) {
	for _, slot := range [][]byte{slots[:slotBytes], slots[slotBytes:]} {
		sum := sha256.Sum256(slot[:slotUsedBytes])
		sequence := binary.BigEndian.Uint64(slot)
		if bytes.Equal(sum[:slotCheck], slot[slotUsedBytes:slotUsedBytes+slotCheck]) && sequence > newest.Sequence {
			newest = ledger.Head{Sequence: sequence, Digest: ledger.Digest(slot[8:slotUsedBytes])}
		}
	}
	return newest
}

// Slot returns a head in the form in which it is written, and its place in the
// file.
func Slot(head ledger.Head) (slot []byte, at int64) {
	encoded := encodeSlot(head)
	return encoded[:], int64(head.Sequence%2) * slotBytes
}

// OpenHighWater opens or makes the file. failed is called if it could not be
// synced; a second later that is tried again.
func OpenHighWater(path string, failed func(error)) (*HighWater, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("blocks: high-water mark: %w", err)
	}
	m := &HighWater{f: f, failed: failed, stopped: make(chan struct{})}
	if m.head, err = readSlots(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	m.idle.Go(m.syncLoop)
	return m, nil
}

// Head returns the mark.
func (m *HighWater) Head() ledger.Head {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.head
}

// Set raises the mark. It ignores heads before the mark.
func (m *HighWater) Set(head ledger.Head) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if head.Sequence <= m.head.Sequence {
		return nil
	}
	slot, at := Slot(head)
	if _, err := m.f.WriteAt(slot, at); err != nil {
		return fmt.Errorf("blocks: high-water mark: %w", err)
	}
	m.head, m.dirty = head, true
	return nil
}

func encodeSlot(head ledger.Head) (slot [slotBytes]byte) {
	binary.BigEndian.PutUint64(slot[:], head.Sequence)
	copy(slot[8:], head.Digest[:])
	sum := sha256.Sum256(slot[:slotUsedBytes])
	copy(slot[slotUsedBytes:], sum[:slotCheck])
	return slot
}

// Sync makes the mark durable. If it fails, the next Sync tries again.
func (m *HighWater) Sync() error {
	m.mu.Lock()
	dirty := m.dirty
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := m.f.Sync(); err != nil {
		m.mu.Lock()
		m.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("blocks: high-water mark: %w", err)
	}
	return nil
}

func (m *HighWater) syncLoop() {
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-m.stopped:
			return
		}
		if err := m.Sync(); err != nil {
			m.failed(err)
		}
	}
}

// Close syncs and closes the file.
func (m *HighWater) Close() error {
	close(m.stopped)
	m.idle.Wait()
	return errors.Join(m.Sync(), m.f.Close())
}

// WriteHighWater replaces the file by one with this head, durably. The head may
// be before the mark that is there, which only a repair may do.
func WriteHighWater(path string, head ledger.Head) error {
	var content [SlotsBytes]byte
	slot, at := Slot(head)
	copy(content[at:], slot)
	return joinErrors(durable.Replace(path, content[:]))
}
