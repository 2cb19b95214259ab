package blocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/allot-project/allot/ledger/durable"
)

// The stream's index says what is in which block. nats-server writes it at a
// clean stop, and now and then before. If it fits the last block, the server
// believes it. Otherwise the server reads every block, and cuts a block where it
// cannot read on. To prevent that, Settle writes an index that fits. This is the
// form of nats-server 2.15 (server/filestore.go, writeFullState); a test compares
// every byte with what the server writes.
const (
	indexMagic   = 11
	indexVersion = 4
)

type index struct {
	blocks  map[int]indexed
	newest  int // number of its last block
	lastSum [checksumBytes]byte
}

// indexed is one block as an index describes it.
type indexed struct {
	bytes               uint64 // of its records
	first, last         uint64 // sequences; last is first-1 in an empty block
	firstTime, lastTime int64
}

// readIndex reads the index. It returns nil if there is none, or none that can be
// believed, because an index only saves work.
func (f Folder) readIndex() *index {
	data, err := os.ReadFile(f.indexPath())
	if err != nil || len(data) < 2+checksumBytes {
		return nil
	}
	body, sum := data[:len(data)-checksumBytes], data[len(data)-checksumBytes:]
	h := streamHash(f.Stream)
	_, _ = h.Write(body) // a hash.Hash never fails
	if !bytes.Equal(h.Sum(nil), sum) || body[0] != indexMagic || body[1] != indexVersion {
		return nil
	}
	return parseIndex(body[2:])
}

// numbers reads numbers and bytes. After the first malformed one, bad is
// set and all are zero.
type numbers struct {
	data []byte
	bad  bool
}

func (n *numbers) uint() uint64 {
	v, size := binary.Uvarint(n.data)
	return skip(n, v, size)
}

func (n *numbers) int() int64 {
	v, size := binary.Varint(n.data)
	return skip(n, v, size)
}

func skip[T uint64 | int64](n *numbers, v T, size int) T {
	if n.bad || size <= 0 {
		n.bad = true
		return 0
	}
	n.data = n.data[size:]
	return v
}

func (n *numbers) bytes(size uint64) []byte {
	if n.bad || size > uint64(len(n.data)) {
		n.bad = true
		return nil
	}
	b := n.data[:size]
	n.data = n.data[size:]
	return b
}

// fixed reads a number of so many bytes, little-endian.
func (n *numbers) fixed(size uint64) uint64 {
	var whole [8]byte
	copy(whole[:], n.bytes(size))
	return binary.LittleEndian.Uint64(whole[:])
}

func parseIndex(body []byte) *index {
	n := &numbers{data: body}
	n.uint()             // messages
	n.uint()             // bytes
	n.uint()             // first sequence
	baseTime := n.int()  // time of the first message
	n.uint()             // last sequence
	n.int()              // time of the last message
	subjects := n.uint() // of the log; at most one
	for range min(subjects, 2) {
		n.bytes(n.uint())
		n.uint() // messages
		n.uint() // first block
		n.uint() // last block
	}
	count := n.uint()
	ix := &index{blocks: make(map[int]indexed)}
	for i := uint64(0); i < count && !n.bad; i++ {
		number := int(n.uint())
		b := indexed{
			bytes: n.uint(), first: n.uint(), firstTime: n.int() + baseTime, last: n.uint(), lastTime: n.int() + baseTime,
		}
		deleted := n.uint()
		n.uint() // messages with a time to live
		n.uint() // scheduled messages
		if deleted > 0 {
			return nil // nothing is ever deleted from a log
		}
		ix.blocks[number] = b
	}
	ix.newest = int(n.uint())
	copy(ix.lastSum[:], n.bytes(checksumBytes))
	if n.bad || len(n.data) > 0 || subjects > 1 {
		return nil
	}
	return ix
}

// vouches reports whether the index knows the block as full, and the file still
// has the size that it had.
func (ix *index) vouches(b block) bool {
	if ix == nil || b.number >= ix.newest {
		return false
	}
	known, ok := ix.blocks[b.number]
	return ok && known.bytes == uint64(b.size)
}

func (ix *index) facts(b block) blockFacts {
	return blockFacts{block: b, indexed: ix.blocks[b.number], unread: true}
}

// fits reports whether a server would believe the index: it describes the last
// block as it is.
func (ix *index) fits(facts []blockFacts) bool {
	if ix == nil || len(facts) == 0 || len(ix.blocks) != len(facts) {
		return false
	}
	for _, b := range facts {
		if known, ok := ix.blocks[b.number]; !ok || known.bytes != b.bytes || known.first != b.first || known.last != b.last {
			return false
		}
	}
	newest := facts[len(facts)-1]
	return newest.number == ix.newest && newest.lastSum == ix.lastSum
}

func (f Folder) encodeIndex(facts []blockFacts) []byte {
	first, last := facts[0], facts[len(facts)-1]
	var messages, size uint64
	for _, b := range facts {
		messages += b.last - b.first + 1
		size += b.bytes
	}
	buf := []byte{indexMagic, indexVersion}
	add := func(numbers ...uint64) {
		for _, n := range numbers {
			buf = binary.AppendUvarint(buf, n)
		}
	}
	addTime := func(sequence uint64, time int64) {
		buf = binary.AppendVarint(binary.AppendUvarint(buf, sequence), time)
	}
	add(messages, size)
	addTime(first.first, first.firstTime)
	addTime(last.last, last.lastTime)
	add(1, uint64(len(f.Subject)))
	buf = append(buf, f.Subject...)
	add(messages, uint64(first.number), uint64(last.number), uint64(len(facts)))
	for _, b := range facts {
		add(uint64(b.number), b.bytes)
		addTime(b.first, b.firstTime-first.firstTime)
		addTime(b.last, b.lastTime-first.firstTime)
		add(0, 0, 0) // deleted, with a time to live, scheduled
	}
	add(uint64(last.number))
	buf = append(buf, last.lastSum[:]...)
	h := streamHash(f.Stream)
	_, _ = h.Write(buf) // a hash.Hash never fails
	return h.Sum(buf)
}

// Settle changes the files so that a server will change nothing in them: it cuts
// off the unfinished write in the report, and writes an index that fits. The
// report must be without damage.
func (f Folder) Settle(r *Report) error {
	if r.TornBytes > 0 {
		if err := truncate(r.TornPath, r.TornAt); err != nil {
			return err
		}
	}
	return f.settleIndex(r.read)
}

func (f Folder) settleIndex(read []blockFacts) error {
	if !slices.ContainsFunc(read, func(b blockFacts) bool { return !b.empty() }) {
		return nil
	}
	facts := make([]blockFacts, 0, len(read))
	for _, b := range read {
		if b.empty() {
			// A server that stopped between making a block and writing to it
			// leaves an empty one.
			if err := os.Remove(b.path); err != nil {
				return fmt.Errorf("blocks: %w", err)
			}
			continue
		}
		facts = append(facts, b)
	}
	if f.readIndex().fits(facts) {
		return joinErrors(durable.SyncFolder(f.messages()))
	}
	err := durable.Replace(f.indexPath(), f.encodeIndex(facts))
	if durable.NoRoom(err) { // without an index the server reads every block: each was found good just now
		err = os.Remove(f.indexPath())
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return joinErrors(err)
}

func truncate(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	return joinErrors(file.Truncate(size), file.Sync(), file.Close())
}
