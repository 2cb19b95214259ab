// Package blocks reads the log's files in nats-server's form, without nats-server
// and without changing a byte. It judges them before a server opens them, because
// a server would cut away what it cannot read. It reads a log that no server
// uses. And it checks the files again from time to time.
package blocks

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/allot-project/allot/ledger/durable"
)

// Folder is where a NATS server keeps the log: in one stream.
type Folder struct {
	Store   string // the server's store directory
	Stream  string // the stream's name
	Subject string // subject of all its messages
}

// account is the account that has the stream.
const account = "$G"

// ErrNoLog means that the folder has no stream of that name.
var ErrNoLog = errors.New("blocks: there is no log")

// Dir returns the folder of the stream.
func (f Folder) Dir() string { return filepath.Join(f.folders(), f.Stream) }

// folders returns the folder in which each stream has its own.
func (f Folder) folders() string { return filepath.Join(f.Store, "jetstream", account, "streams") }

func (f Folder) messages() string { return filepath.Join(f.Dir(), messagesFolder) }
func (f Folder) blockPath(n int) string {
	return filepath.Join(f.messages(), strconv.Itoa(n)+blockSuffix)
}
func (f Folder) indexPath() string { return filepath.Join(f.messages(), "index.db") }

const (
	messagesFolder = "msgs"
	blockSuffix    = ".blk"
)

// metaFile has the stream's configuration.
const metaFile = "meta.inf"

type block struct {
	number int
	path   string
	size   int64
}

// blocks lists the block files in order. The error wraps ErrNoLog if there is no
// stream.
func (f Folder) blocks() ([]block, error) {
	list, err := blocksIn(f.messages())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoLog, f.Store)
	}
	return list, joinErrors(err)
}

func blocksIn(dir string) ([]block, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
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
			return nil, err
		}
		list = append(list, block{number: n, path: filepath.Join(dir, entry.Name()), size: info.Size()})
	}
	slices.SortFunc(list, func(a, b block) int { return a.number - b.number })
	return list, nil
}

// SyncStreams makes the stream's name durable. A NATS server syncs what is in a
// stream's folder, and not the name of the folder.
func (f Folder) SyncStreams() error { return joinErrors(durable.SyncFolder(f.folders())) }

// HalfMade reports whether a server that was making the stream has ended before
// the stream was whole: it has no commit, so there is no log yet.
func (f Folder) HalfMade() bool {
	_, err := os.Stat(f.Dir())
	return err == nil && !f.whole() && f.holdsNothing()
}

// whole reports whether the stream has a configuration.
func (f Folder) whole() bool {
	whole := true
	for _, path := range []string{filepath.Join(f.Dir(), metaFile), f.sumPath()} {
		_, err := os.Stat(path)
		whole = whole && !errors.Is(err, os.ErrNotExist)
	}
	return whole
}

// holdsNothing reports whether the stream has no message.
func (f Folder) holdsNothing() bool {
	list, err := f.blocks()
	some := slices.ContainsFunc(list, func(b block) bool { return b.size > 0 })
	return !some && (err == nil || errors.Is(err, ErrNoLog))
}

// SettleNothing removes what a server has left of a log that it was about to begin, so
// that the next one begins it: that would take the half for a log, and lose it at the
// start after.
func (f Folder) SettleNothing() error {
	if !f.HalfMade() {
		return nil
	}
	if err := os.RemoveAll(f.Dir()); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	return f.SyncStreams()
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

// checkMeta checks the file with the stream's configuration. A server reads it
// first, and if it is damaged the server believes that its stream does not exist.
func (f Folder) checkMeta() error {
	path := filepath.Join(f.Dir(), metaFile)
	meta, sum, err := f.readMeta()
	if err != nil {
		return err
	}
	if want := f.sumOf(meta); !bytes.Equal(bytes.TrimSpace(sum), want) {
		return fmt.Errorf("%w: %s has a wrong checksum", ErrDamaged, path)
	}
	if _, err := os.Stat(filepath.Join(f.Dir(), "meta.key")); err == nil {
		return fmt.Errorf("%w: %s is encrypted", ErrUnreadable, f.Dir())
	}
	var config struct {
		Name        string `json:"name"`
		Compression string `json:"compression"`
		FirstSeq    uint64 `json:"first_seq"`
	}
	if err := json.Unmarshal(meta, &config); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	switch {
	case config.Name != f.Stream:
		return fmt.Errorf("%w: %s is of the stream %q", ErrDamaged, path, config.Name)
	case config.Compression != "" && config.Compression != "none":
		return fmt.Errorf("%w: %s is compressed (%s)", ErrUnreadable, f.Dir(), config.Compression)
	case config.FirstSeq > 1:
		return fmt.Errorf("%w: %s begins at sequence %d", ErrUnreadable, f.Dir(), config.FirstSeq)
	}
	return nil
}
