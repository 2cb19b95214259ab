// Package blocks reads the log's files in nats-server's form, without nats-server
// and without changing a byte. It judges them before a server opens them, because
// a server would cut away what it cannot read. It reads a log that no server
// uses. And it checks the files again from time to time.
package blocks

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// Folder is where a NATS server keeps the log: in one stream, or in a chain of
// them.
type Folder struct {
	Store   string // the server's store directory
	Stream  string // the name of the first stream
	Subject string // subject of all its messages
	Chain   *Chain // nil: there is one stream

	first  uint64 // where the stream begins; 0: at 1
	shared bool   // see Chain.Shared
}

// Chain says where in the log a stream is. Streams of a chain follow one another:
// the oldest are dropped as a whole, and each begins where the one before ends.
type Chain struct {
	// First returns the first sequence of a stream, by its name; 0: it is not of
	// the log.
	First func(stream string) uint64
	// Before returns the head of the last commit before a stream that is not the
	// first one, from its metadata.
	Before func(metadata map[string]string) (ledger.Head, error)
	// Subject returns the subject of all messages of a stream, by its name.
	Subject func(stream string) string
	// Shared reports whether a stream, by its name, is one that several servers make
	// before the log goes on in it. It is of the log once it has a commit.
	Shared func(stream string) bool
}

// account is the account that has the stream.
const account = "$G"

// ErrNoLog means that the folder has no stream of that name.
var ErrNoLog = errors.New("blocks: there is no log")

// Dir returns the folder of the first stream.
func (f Folder) Dir() string { return filepath.Join(f.folders(), f.Stream) }

// folders returns the folder in which each stream has its own.
func (f Folder) folders() string { return filepath.Join(f.Store, "jetstream", account, "streams") }

// Newest returns the folder of the stream that takes commits.
func (f Folder) Newest() (string, error) {
	streams, err := f.streams()
	if err != nil {
		return "", err
	}
	return streams[len(streams)-1].Dir(), nil
}

// streams lists the streams of the log, oldest first, without those that are
// half deleted or half made. The error wraps ErrNoLog if there is none.
func (f Folder) streams() (list []Folder, err error) {
	if f.Chain == nil {
		return []Folder{f}, nil
	}
	if list, err = f.allStreams(); err != nil {
		return nil, err
	}
	note, err := readNote[leaving](filepath.Join(f.Store, leavingFile))
	if err != nil {
		return nil, err
	}
	for len(list) > 1 && list[0].halfDeleted(note) {
		list = list[1:]
	}
	if n := len(list); n > 1 && list[n-1].halfMade() {
		list = list[:n-1]
	}
	// Nobody appends to a stream of several servers before the log goes on in it.
	some := slices.DeleteFunc(slices.Clone(list), func(one Folder) bool { return one.shared && one.holdsNothing() })
	if len(some) == 0 {
		return list[:1], nil
	}
	return some, nil
}

// holdsNothing reports whether a stream has no commit.
func (f Folder) holdsNothing() bool {
	list, err := f.ownBlocks()
	for _, b := range list {
		if b.size > emptyRecordBytes { // more than the memory of where it begins
			return false
		}
	}
	return err == nil || errors.Is(err, ErrNoLog) || errors.Is(err, os.ErrNotExist) // a server is replacing one
}

// Named returns the folder of one stream.
func (f Folder) Named(stream string) string { return filepath.Join(f.folders(), stream) }

// allStreams lists all folders of the log's streams, oldest first. The error wraps
// ErrNoLog if there is none.
func (f Folder) allStreams() (list []Folder, err error) {
	entries, err := os.ReadDir(f.folders())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoLog, f.Store)
	}
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	for _, entry := range entries {
		if first := f.Chain.First(entry.Name()); first > 0 {
			one := f
			one.Stream, one.first, one.Chain = entry.Name(), first, nil
			one.Subject, one.shared = f.Chain.Subject(one.Stream), f.Chain.Shared(one.Stream)
			list = append(list, one)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNoLog, f.Store)
	}
	slices.SortStableFunc(list, func(a, b Folder) int { return cmp.Compare(a.first, b.first) })
	return list, nil
}

// steadily calls look with the streams, again if there are others afterwards: then a
// server was making or deleting one, and look may have seen a half of it.
func (f Folder) steadily(look func([]Folder) error) error {
	for {
		streams, err := f.streams()
		if err != nil {
			return err
		}
		if err = look(streams); !f.changed(streams) {
			return err
		}
	}
}

// changed reports whether the log has other streams now.
func (f Folder) changed(streams []Folder) bool {
	now, err := f.streams()
	same := func(a, b Folder) bool { return a.Stream == b.Stream }
	return err == nil && !slices.EqualFunc(now, streams, same)
}

// begins returns the first sequence of the stream.
func (f Folder) begins() uint64 { return max(f.first, 1) }

func (f Folder) messages() string { return filepath.Join(f.Dir(), "msgs") }
func (f Folder) blockPath(n int) string {
	return filepath.Join(f.messages(), strconv.Itoa(n)+blockSuffix)
}
func (f Folder) indexPath() string { return filepath.Join(f.messages(), "index.db") }

const blockSuffix = ".blk"

// metaFile has the stream's configuration.
const metaFile = "meta.inf"

// block is one block file.
type block struct {
	of     Folder // its stream
	number int
	path   string
	size   int64
}

// blocks lists the block files of all streams in order. The error wraps ErrNoLog if
// there is no stream.
func (f Folder) blocks() (list []block, err error) {
	err = f.steadily(func(streams []Folder) (err error) {
		list, err = blocksOf(streams)
		return err
	})
	return list, err
}

// listing is what the log's folders have at one moment.
type listing struct {
	blocks []block     // in order
	first  uint64      // the first sequence that these can hold
	before ledger.Head // of the last commit before the first stream
	meta   error       // what is wrong with the streams' configurations
}

// listed lists what the log's folders have. The error wraps ErrNoLog if there is no
// stream.
func (f Folder) listed() (l listing, err error) {
	err = f.steadily(func(streams []Folder) (err error) {
		l = listing{first: streams[0].begins()}
		l.before, l.meta = f.checkMeta(streams)
		l.blocks, err = blocksOf(streams)
		return err
	})
	return l, err
}

func blocksOf(streams []Folder) (list []block, err error) {
	for i, one := range streams {
		own, err := one.ownBlocks()
		if errors.Is(err, ErrNoLog) && i > 0 {
			if i == len(streams)-1 {
				continue // it has no commit yet
			}
			err = fmt.Errorf("%w: %s is missing, and there are later streams", ErrDamaged, one.messages())
		}
		if err != nil {
			return nil, err
		}
		list = append(list, own...)
	}
	return list, nil
}

// ownBlocks lists the block files of one stream in order.
func (f Folder) ownBlocks() ([]block, error) {
	entries, err := os.ReadDir(f.messages())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoLog, f.Store)
	}
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	var list []block
	for _, entry := range entries {
		number, isBlock := strings.CutSuffix(entry.Name(), blockSuffix)
		n, err := strconv.Atoi(number)
		if !isBlock || err != nil {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, fmt.Errorf("blocks: %w", err)
		}
		list = append(list, block{of: f, number: n, path: f.blockPath(n), size: info.Size()})
	}
	slices.SortFunc(list, func(a, b block) int { return a.number - b.number })
	return list, nil
}

// checkMeta checks the files with the streams' configurations. A server reads them
// first, and if one is damaged the server believes that its stream does not exist.
// It returns the head of the last commit before the first stream.
func (f Folder) checkMeta(streams []Folder) (before ledger.Head, err error) {
	for i, one := range streams {
		metadata, err := one.checkOwnMeta()
		if err != nil {
			return before, err
		}
		if i > 0 || one.begins() == 1 || one.shared { // its first commit says what was before
			continue
		}
		if before, err = f.Chain.Before(metadata); err == nil && before.Sequence >= one.begins() {
			err = fmt.Errorf("it is to begin after commit %d", before.Sequence)
		}
		if err != nil {
			return before, fmt.Errorf("%w: %s: %w", ErrDamaged, one.Dir(), err)
		}
	}
	return before, nil
}

func (f Folder) sumPath() string { return filepath.Join(f.Dir(), "meta.sum") }

// sumOf returns the checksum of a configuration of the stream, as it is stored.
func (f Folder) sumOf(meta []byte) []byte {
	h := streamHash(f.Stream)
	_, _ = h.Write(meta) // a hash.Hash never fails
	return hex.AppendEncode(nil, h.Sum(nil))
}

// readMeta reads the stream's configuration and its checksum, which a server may
// be replacing.
func (f Folder) readMeta() (meta, sum []byte, err error) {
	path := filepath.Join(f.Dir(), metaFile)
	for {
		meta, err = os.ReadFile(path)
		if err == nil {
			sum, err = os.ReadFile(f.sumPath())
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: the stream's configuration: %w", ErrDamaged, err)
		}
		now, err := os.ReadFile(path)
		if err == nil && !bytes.Equal(now, meta) {
			continue
		}
		return meta, sum, nil
	}
}

// checkOwnMeta checks the configuration of one stream, and returns its metadata.
func (f Folder) checkOwnMeta() (metadata map[string]string, err error) {
	path := filepath.Join(f.Dir(), metaFile)
	meta, sum, err := f.readMeta()
	if err != nil {
		return nil, err
	}
	half := false
	if want := f.sumOf(meta); !bytes.Equal(bytes.TrimSpace(sum), want) {
		if half = f.halfSealed(sum); !half {
			return nil, fmt.Errorf("%w: %s has a wrong checksum", ErrDamaged, path)
		}
	}
	if _, err := os.Stat(filepath.Join(f.Dir(), "meta.key")); err == nil {
		return nil, fmt.Errorf("%w: %s is encrypted", ErrUnreadable, f.Dir())
	}
	var config struct {
		Name        string            `json:"name"`
		Compression string            `json:"compression"`
		FirstSeq    uint64            `json:"first_seq"`
		Sealed      bool              `json:"sealed"`
		Metadata    map[string]string `json:"metadata"`
	}
	if err := json.Unmarshal(meta, &config); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	switch {
	case config.Name != f.Stream:
		return nil, fmt.Errorf("%w: %s is of the stream %q", ErrDamaged, path, config.Name)
	case config.Compression != "" && config.Compression != "none":
		return nil, fmt.Errorf("%w: %s is compressed (%s)", ErrUnreadable, f.Dir(), config.Compression)
	case half && !config.Sealed:
		return nil, fmt.Errorf("%w: %s has a wrong checksum", ErrDamaged, path)
	case max(config.FirstSeq, 1) != f.begins():
		return nil, fmt.Errorf("%w: %s begins at sequence %d", ErrUnreadable, f.Dir(), config.FirstSeq)
	}
	return config.Metadata, nil
}
