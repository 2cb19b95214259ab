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
)

// Folder is where a NATS server keeps one stream.
type Folder struct {
	Store   string // the server's store directory
	Stream  string // the stream's name
	Subject string // subject of all its messages
}

// account is the account that has the stream.
const account = "$G"

// ErrNoLog means that the folder has no stream of that name.
var ErrNoLog = errors.New("blocks: there is no log")

// Dir returns the stream's own folder.
func (f Folder) Dir() string {
	return filepath.Join(f.Store, "jetstream", account, "streams", f.Stream)
}

func (f Folder) messages() string { return filepath.Join(f.Dir(), "msgs") }
func (f Folder) blockPath(n int) string {
	return filepath.Join(f.messages(), strconv.Itoa(n)+blockSuffix)
}
func (f Folder) indexPath() string { return filepath.Join(f.messages(), "index.db") }

const blockSuffix = ".blk"

// block is one block file.
type block struct {
	number int
	path   string
	size   int64
}

// blocks lists the block files in order. The error wraps ErrNoLog if there is no
// stream.
func (f Folder) blocks() ([]block, error) {
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
		list = append(list, block{number: n, path: f.blockPath(n), size: info.Size()})
	}
	slices.SortFunc(list, func(a, b block) int { return a.number - b.number })
	return list, nil
}

// checkMeta checks the file with the stream's configuration. A server reads it
// first, and if it is damaged the server believes that the stream does not exist.
func (f Folder) checkMeta() error {
	path := filepath.Join(f.Dir(), "meta.inf")
	meta, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: the stream's configuration: %w", ErrDamaged, err)
	}
	sum, err := os.ReadFile(filepath.Join(f.Dir(), "meta.sum"))
	if err != nil {
		return fmt.Errorf("%w: the stream's configuration: %w", ErrDamaged, err)
	}
	h := streamHash(f.Stream)
	_, _ = h.Write(meta) // a hash.Hash never fails
	if want := hex.AppendEncode(nil, h.Sum(nil)); !bytes.Equal(bytes.TrimSpace(sum), want) {
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
