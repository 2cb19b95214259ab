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
// intact. A new file has a good one, too: that of no head.
const (
	slotsBytes    = 2 * slotBytes // of the file
	slotBytes     = 64            // sequence 8 | digest 32 | check 8 | block 4 | offset 4 | check 8
	slotUsedBytes = 8 + 32
	slotCheck     = 8
	slotExtent    = slotUsedBytes + slotCheck // where the block is
	slotEnd       = slotExtent + 8            // where the check of the extent is
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
	f      *os.File
	blocks *syncer // syncs the log's blocks before the mark; nil: the server syncs them itself

	mu     sync.Mutex
	head   ledger.Head // guarded by mu
	synced extent      // up to where the blocks are durable; guarded by mu
	dirty  bool        // written since the last sync; guarded by mu

	failure error         // of the first sync that failed; the goroutine that syncs has it
	failed  chan struct{} // closed after failure is set
	stopped chan struct{}
	idle    sync.WaitGroup
}

// ReadHighWater returns the head in a file without changing anything; the zero
// head if there is no file. The error wraps ErrDamaged if the file cannot be read
// as a mark.
func ReadHighWater(path string) (ledger.Head, error) {
	head, _, err := readHighWater(path)
	return head, err
}

func readHighWater(path string) (head ledger.Head, synced extent, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return head, synced, nil
	}
	if err != nil {
		return head, synced, fmt.Errorf("blocks: high-water mark: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	return readSlots(f)
}

func readSlots(f *os.File) (newest ledger.Head, synced extent, err error) {
	var slots [slotsBytes]byte
	if _, err := f.ReadAt(slots[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return newest, synced, fmt.Errorf("blocks: high-water mark: %w", err)
	}
	newest, good := newestSlot(slots[:])
	if !good {
		return newest, synced, fmt.Errorf("%w: %s: %w", ErrDamaged, f.Name(), ErrNoPosition)
	}
	_, at := slotOf(newest)
	return newest, decodeExtent(slots[at : at+slotBytes]), nil
}

// newestSlot returns the newest head in the two slots of a file, and whether one of
// them is good.
func newestSlot(slots []byte) (newest ledger.Head, good bool) {
	for _, slot := range [][]byte{slots[:slotBytes], slots[slotBytes:]} {
		sum := sha256.Sum256(slot[:slotUsedBytes])
		if !bytes.Equal(sum[:slotCheck], slot[slotUsedBytes:slotUsedBytes+slotCheck]) {
			continue
		}
		good = true
		if sequence := binary.BigEndian.Uint64(slot); sequence > newest.Sequence {
			newest = ledger.Head{Sequence: sequence, Digest: ledger.Digest(slot[8:slotUsedBytes])}
		}
	}
	return newest, good
}

// slotOf returns a head in the form in which it is written, and its place in the
// file.
func slotOf(head ledger.Head) (slot [slotBytes]byte, at int64) {
	binary.BigEndian.PutUint64(slot[:], head.Sequence)
	copy(slot[8:], head.Digest[:])
	sum := sha256.Sum256(slot[:slotUsedBytes])
	copy(slot[slotUsedBytes:], sum[:slotCheck])
	return slot, int64(head.Sequence%2) * slotBytes
}

// OpenHighWater opens or makes the file of a log. For a replica, whose server syncs the log's
// blocks only now and then, the blocks are synced before the mark each time, and the mark says
// up to where.
func (f Folder) OpenHighWater(replica bool) (*HighWater, error) {
	file, err := openOrMake(HighWaterPath(f.Store))
	if err != nil {
		return nil, fmt.Errorf("blocks: high-water mark: %w", err)
	}
	m := &HighWater{f: file, failed: make(chan struct{}), stopped: make(chan struct{})}
	if replica {
		m.blocks = &syncer{Folder: f}
	}
	if m.head, _, err = readSlots(file); err == nil {
		err = m.begin(f.Store)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	m.idle.Go(m.syncLoop)
	return m, nil
}

// openOrMake opens a file. A new one is durable with the mark of no head before it is
// written: else a power cut could leave torn first marks, and none that is good.
func openOrMake(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if !errors.Is(err, os.ErrNotExist) {
		return f, err
	}
	if err := replaceMark(path, ledger.Head{}); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// begin makes the file's name durable, and forgets up to where the blocks were synced: the
// NATS server that is about to start may write any of them again.
func (m *HighWater) begin(dir string) error {
	if err := errors.Join(m.write(m.head), m.f.Sync()); err != nil {
		return fmt.Errorf("blocks: high-water mark: %w", err)
	}
	return joinErrors(durable.SyncFolder(dir))
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
	if err := m.write(head); err != nil {
		return err
	}
	m.head, m.dirty = head, true
	return nil
}

// write writes the slot of a head. m.mu must be held.
func (m *HighWater) write(head ledger.Head) error {
	slot, at := slotOf(head)
	m.synced.encode(slot[:])
	if _, err := m.f.WriteAt(slot[:], at); err != nil {
		return fmt.Errorf("blocks: high-water mark: %w", err)
	}
	return nil
}

// sync makes the mark durable. After a failure it does nothing more: another try would succeed
// without what the system has given up to write, and the mark would tell a lie.
func (m *HighWater) sync() error {
	if m.failure != nil {
		return m.failure
	}
	if m.failure = m.syncOnce(); m.failure != nil {
		close(m.failed)
	}
	return m.failure
}

func (m *HighWater) syncOnce() error {
	if err := m.syncBlocks(); err != nil {
		return err
	}
	m.mu.Lock()
	dirty := m.dirty
	m.dirty = false
	m.mu.Unlock()
	if !dirty {
		return nil
	}
	if err := m.f.Sync(); err != nil {
		return fmt.Errorf("blocks: high-water mark: %w", err)
	}
	return nil
}

// Await returns why a sync failed, once one has: what the log's files hold is not sure then
// before the next start has written them again. It returns nil once the mark is closed.
func (m *HighWater) Await() error {
	select {
	case <-m.failed:
		return m.failure
	case <-m.stopped:
		return nil
	}
}

// syncBlocks makes the log's blocks durable, and notes up to where. It does so although no
// commit came: the NATS server writes some again after it has started.
func (m *HighWater) syncBlocks() error {
	if m.blocks == nil || m.Head().Sequence == 0 {
		return nil
	}
	synced, err := m.blocks.sync()
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if synced == m.synced {
		return nil
	}
	m.synced, m.dirty = synced, true
	return m.write(m.head)
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
		if m.sync() != nil {
			return
		}
	}
}

// Close syncs and closes the file.
func (m *HighWater) Close() error {
	close(m.stopped)
	m.idle.Wait()
	return errors.Join(m.sync(), m.f.Close())
}

// WriteHighWater replaces the file by one with this head, durably. The head may
// be before the mark that is there, which only a repair may do.
func WriteHighWater(path string, head ledger.Head) error { return joinErrors(replaceMark(path, head)) }

func replaceMark(path string, head ledger.Head) error {
	var content [slotsBytes]byte
	slot, at := slotOf(head)
	copy(content[at:], slot[:])
	return durable.Replace(path, content[:])
}
