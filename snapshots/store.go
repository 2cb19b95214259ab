// Package snapshots keeps the ledger's State at some sequences in files, so that
// a start need not read the whole log. Snapshots are disposable: a damaged or
// missing one costs only time.
//
// A file is
//
//	magic 8 | sequence 8 | digest 32 | check 8 | State | SHA-256 of all before
//
// check is the beginning of the SHA-256 of the bytes before it. So the head,
// which is also a high-water mark of the log, can be trusted even when the State
// after it is damaged.
package snapshots

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
)

const (
	magic       = "ALLOTSN1"
	headerBytes = 8 + 8 + 32
	checkBytes  = 8
	suffix      = ".snapshot"
	// keep is how many snapshots stay; older ones are pruned.
	keep = 3
)

// ErrDamaged means that a file is not a whole snapshot.
var ErrDamaged = errors.New("snapshots: damaged snapshot")

// Store is a folder of snapshots. One process uses it at a time.
type Store struct {
	dir    string
	logger *slog.Logger
	saving sync.Mutex // held while one is written
	// reached says how far the durable read models are; nil: they have reached all.
	reached func() (uint64, error)
}

// Open opens or makes the folder, and removes the remains of unfinished writes.
func Open(dir string, logger *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	leftovers, err := durable.Files(dir, ".tmp")
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("snapshots: %w", err)
		}
	}
	return &Store{dir: dir, logger: logger}, nil
}

// KeepFor says how far the durable read models are, whenever snapshots are pruned. A
// start goes on from the newest snapshot that they have reached, so that one stays. It is
// called before anything is saved.
func (s *Store) KeepFor(reached func() (uint64, error)) { s.reached = reached }

// files lists the snapshots, newest first.
func (s *Store) files() ([]string, error) { return Files(s.dir) }

// Files lists the snapshots in a folder, newest first, without the remains of
// unfinished writes.
func Files(dir string) ([]string, error) {
	paths, err := durable.Files(dir, suffix)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	slices.Reverse(paths)
	return paths, nil
}

// Heads lists the heads of all snapshots, newest first. It skips files whose head
// is damaged, with a warning.
func (s *Store) Heads() ([]ledger.Head, error) {
	paths, err := s.files()
	if err != nil {
		return nil, err
	}
	var heads []ledger.Head
	for _, path := range paths {
		head, err := Position(path)
		if errors.Is(err, ErrDamaged) {
			s.logger.Warn("snapshot skipped", "file", path, "error", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		heads = append(heads, head)
	}
	return heads, nil
}

// Position reads the head of a snapshot, without the rest of it. The error wraps
// ErrDamaged if the head cannot be trusted.
func Position(path string) (ledger.Head, error) {
	f, err := os.Open(path)
	if err != nil {
		return ledger.Head{}, fmt.Errorf("snapshots: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	header := make([]byte, headerBytes+checkBytes)
	if _, err := io.ReadFull(f, header); err != nil {
		return ledger.Head{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return parseHeader(header)
}

func parseHeader(header []byte) (ledger.Head, error) {
	if len(header) < headerBytes+checkBytes || string(header[:8]) != magic {
		return ledger.Head{}, fmt.Errorf("%w: no header", ErrDamaged)
	}
	sum := sha256.Sum256(header[:headerBytes])
	if !bytes.Equal(sum[:checkBytes], header[headerBytes:headerBytes+checkBytes]) {
		return ledger.Head{}, fmt.Errorf("%w: wrong header checksum", ErrDamaged)
	}
	return ledger.Head{
		Sequence: binary.BigEndian.Uint64(header[8:16]),
		Digest:   ledger.Digest(header[16:48]),
	}, nil
}

// Load returns the newest undamaged snapshot at or before a sequence. It skips
// damaged snapshots with a warning.
func (s *Store) Load(atOrBefore uint64) (*ledger.State, bool, error) {
	paths, err := s.files()
	if err != nil {
		return nil, false, err
	}
	for _, path := range paths {
		head, err := Position(path)
		if err == nil && head.Sequence > atOrBefore {
			continue
		}
		state, err := Read(path)
		if errors.Is(err, ErrDamaged) {
			s.logger.Warn("snapshot skipped", "file", path, "error", err)
			continue
		}
		if err != nil {
			return nil, false, err
		}
		return state, true, nil
	}
	return nil, false, nil
}

// Read loads one file. The error wraps ErrDamaged if it is not whole.
func Read(path string) (*ledger.State, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	return Decode(data)
}

// Decode reads a snapshot's bytes. The error wraps ErrDamaged if they are not
// what Save wrote.
func Decode(data []byte) (*ledger.State, error) {
	head, err := parseHeader(data)
	if err != nil {
		return nil, err
	}
	if err := CheckSum(data); err != nil {
		return nil, err
	}
	state, err := ledger.DecodeState(data[headerBytes+checkBytes : len(data)-sha256.Size])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if state.Head() != head {
		return nil, fmt.Errorf("%w: header and State disagree", ErrDamaged)
	}
	return state, nil
}

// CheckSum returns an error that wraps ErrDamaged if the bytes are not what Save
// wrote. It does not decode them.
func CheckSum(data []byte) error {
	end := len(data) - sha256.Size
	if end < headerBytes+checkBytes {
		return fmt.Errorf("%w: cut off", ErrDamaged)
	}
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return fmt.Errorf("%w: wrong checksum", ErrDamaged)
	}
	return nil
}

// Save writes a snapshot and prunes old ones. The State must not change
// meanwhile.
func (s *Store) Save(state *ledger.State) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	begun := time.Now()
	path := filepath.Join(s.dir, Name(state.Head().Sequence))
	if err := Write(path, state); err != nil {
		return err
	}
	s.logger.Info("snapshot written", "sequence", state.Head().Sequence, "took", time.Since(begun))
	return s.prune()
}

// Write writes a snapshot into a file that is in no Store. The State must not
// change meanwhile.
func Write(path string, state *ledger.State) error {
	if err := durable.ReplaceWith(path, func(f *os.File) error { return writeTo(f, state) }); err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	return nil
}

// Name is that of the file with the snapshot at a sequence.
func Name(sequence uint64) string { return fmt.Sprintf("%020d%s", sequence, suffix) }

// Link makes another name, on the same disk, for the newest snapshot whose
// position can be read, and returns that position; false: there is none. The
// file stays under that name when the snapshot is pruned.
func (s *Store) Link(path string) (ledger.Head, bool, error) {
	s.saving.Lock()
	defer s.saving.Unlock()
	paths, err := s.files()
	if err != nil {
		return ledger.Head{}, false, err
	}
	for _, one := range paths {
		head, err := Position(one)
		if errors.Is(err, ErrDamaged) {
			continue
		}
		if err == nil {
			err = os.Link(one, path)
		}
		if err != nil {
			return head, false, fmt.Errorf("snapshots: %w", err)
		}
		return head, true, nil
	}
	return ledger.Head{}, false, nil
}

// writeTo writes a State with its header and a checksum.
func writeTo(f io.Writer, state *ledger.State) error {
	sum := sha256.New()
	out := bufio.NewWriterSize(f, 1<<20)
	body := io.MultiWriter(out, sum)
	_, err := body.Write(header(state.Head()))
	if err == nil {
		err = state.Encode(body)
	}
	if err == nil {
		_, err = out.Write(sum.Sum(nil))
	}
	if err == nil {
		err = out.Flush()
	}
	return err
}

func header(head ledger.Head) []byte {
	b := binary.BigEndian.AppendUint64([]byte(magic), head.Sequence)
	b = append(b, head.Digest[:]...)
	sum := sha256.Sum256(b)
	return append(b, sum[:checkBytes]...)
}

func (s *Store) prune() error {
	paths, err := s.files()
	if err != nil {
		return err
	}
	stay, err := s.needed(paths)
	if err != nil {
		return err
	}
	for _, path := range paths[min(max(keep, stay), len(paths)):] {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // the scrubber removes damaged ones
			return fmt.Errorf("snapshots: %w", err)
		}
		s.logger.Debug("snapshot pruned", "file", strings.TrimPrefix(path, s.dir))
	}
	return nil
}

// needed returns how many of the newest snapshots there are up to the one from which a
// start goes on.
func (s *Store) needed(paths []string) (int, error) {
	if s.reached == nil || len(paths) <= keep {
		return 0, nil
	}
	reached, err := s.reached()
	if err != nil {
		return 0, err
	}
	at := slices.IndexFunc(paths, func(path string) bool { return filepath.Base(path) <= Name(reached) })
	if at < 0 {
		return len(paths), nil
	}
	return at + 1, nil
}
