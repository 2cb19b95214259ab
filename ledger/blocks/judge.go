package blocks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
)

// Beside the server's own files the store has files of Allot's, so that they
// travel with the log: the high-water mark, and, for a time, one of these.
const (
	highWaterFile = "high-water"
	newFile       = "new"         // a log may begin here
	historyFile   = "new.archive" // commits that it begins with
	importFile    = "importing"   // a log is being copied into the store
)

// HighWaterPath returns the path of the file with the newest head of the log in a
// store. Its name sorts before the server's folder, so that a copy that is made
// while a server runs has a mark that is older than the commits, not newer.
func HighWaterPath(store string) string { return filepath.Join(store, highWaterFile) }

// Verdicts of Judge.
var (
	// ErrBehind means that the log ends before a head that was seen.
	ErrBehind = fmt.Errorf("the log is shorter than it was: %w", ledger.ErrLogBehind)
	// ErrGone means that there was a log, and is none.
	ErrGone = fmt.Errorf("the log does not exist: %w", ledger.ErrLogBehind)
	// ErrAnother means that a commit differs from the one that was seen: the log
	// was cut and written again, or swapped.
	ErrAnother = fmt.Errorf("the log is another one: %w", ledger.ErrChain)
	// ErrUnfinished means that an import into this folder has not ended.
	ErrUnfinished = errors.New("an import into this folder is unfinished")
)

// Seen is a head of the log that something else keeps.
type Seen struct {
	ledger.Head
	Where string // who keeps it, for error texts
}

// JudgeOptions are the options of Judge.
type JudgeOptions struct {
	CheckOptions
	// Seen are heads that the log must still hold.
	Seen []Seen
}

// Verdict is the result of Judge.
type Verdict struct {
	*Report             // nil if there is no log
	Begin   *Beginning  // a log may begin here
	Mark    ledger.Head // the high-water mark beside the log
}

// Judge decides whether a server may open the store, without changing a byte. The
// error is the reason why not: a *DamageError, or one that wraps ErrDamaged,
// ErrBehind, ErrGone, ErrAnother or ErrUnfinished.
func (f Folder) Judge(ctx context.Context, opts JudgeOptions) (*Verdict, error) {
	if err := f.Unfinished(); err != nil {
		return nil, err
	}
	return f.JudgeImport(ctx, opts)
}

// Unfinished is an ErrUnfinished if an import into the store has not ended.
func (f Folder) Unfinished() error {
	job, err := f.importing()
	if err == nil && job != nil {
		err = fmt.Errorf("%w: %s", ErrUnfinished, job)
	}
	return err
}

// JudgeImport is Judge for the import itself.
func (f Folder) JudgeImport(ctx context.Context, opts JudgeOptions) (v *Verdict, err error) {
	v = &Verdict{}
	if v.Begin, err = f.Beginning(); err != nil {
		return nil, err
	}
	if v.Mark, err = ReadHighWater(HighWaterPath(f.Store)); err != nil {
		return nil, err
	}
	v.Report, err = f.Check(ctx, opts.CheckOptions)
	if err != nil && (errors.Is(err, ErrNoLog) || f.HalfMade()) {
		v.Report, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v, f.holds(ctx, v, append(opts.Seen, Seen{v.Mark, HighWaterPath(f.Store)}))
}

func (f Folder) holds(ctx context.Context, v *Verdict, seen []Seen) error {
	var last uint64
	if v.Report != nil {
		last = v.Last.Sequence
	}
	for _, s := range seen {
		if s.Sequence > 0 && v.Report == nil {
			return fmt.Errorf("%w in %s, and %s knows sequence %d of it", ErrGone, f.Store, s.Where, s.Sequence)
		}
		if s.Sequence > last {
			return fmt.Errorf("%w: it ends at sequence %d, and %s knows sequence %d", ErrBehind, last, s.Where, s.Sequence)
		}
	}
	if v.Report == nil {
		return nil
	}
	log, err := f.Open()
	if err != nil {
		return err
	}
	for _, s := range seen {
		if s.Sequence == 0 {
			continue
		}
		err := log.Read(ctx, s.Sequence, s.Sequence, func(e ledger.Entry) error {
			if got := ledger.DigestOf(e.Data); got != s.Digest {
				return fmt.Errorf("%w: sequence %d has the digest %.8s, and %s knows it with %.8s",
					ErrAnother, s.Sequence, got, s.Where, s.Digest)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Beginning is the permission to begin a log.
type Beginning struct {
	Ledger ledger.UUID `json:"ledger"` // id of the new ledger
	// History is the head of the commits that the log begins with, which are in
	// the archive at HistoryPath; nil: there are none.
	History *ledger.Head `json:"history,omitempty"`
}

// HistoryPath returns the path of the archive that a log begins with.
func (f Folder) HistoryPath() string { return filepath.Join(f.Store, historyFile) }

// Beginning reads the permission to begin a log; nil if there is none.
func (f Folder) Beginning() (*Beginning, error) {
	return readNote[Beginning](filepath.Join(f.Store, newFile))
}

// MayBegin gives permission to begin a log.
func (f Folder) MayBegin(b Beginning) error { return writeNote(filepath.Join(f.Store, newFile), b) }

// Begun withdraws the permission, because the log has begun.
func (f Folder) Begun() error {
	return errors.Join(removeNote(filepath.Join(f.Store, newFile)), removeNote(f.HistoryPath()))
}

// Import is an unfinished copy of commits into a store.
type Import struct {
	From string      `json:"from"` // the source, in words
	Last ledger.Head `json:"last"` // head of its last commit
	// Anew means that the source is no log: an interrupted import cannot go on,
	// because the source may have changed, and begins anew.
	Anew bool `json:"anew,omitempty"`
}

// String says what was to be imported.
func (i *Import) String() string {
	if i.Last.Sequence == 0 { // what there is was not read yet
		return "it was to come from " + i.From
	}
	return fmt.Sprintf("commits up to %d were to come from %s", i.Last.Sequence, i.From)
}

func (f Folder) importing() (*Import, error) {
	return readNote[Import](filepath.Join(f.Store, importFile))
}

// BeginImport marks the store, so that no server opens it until EndImport. An
// unfinished import of the same commits goes on.
func (f Folder) BeginImport(job Import) error {
	before, err := f.importing()
	if err != nil {
		return err
	}
	if before != nil && before.Last != job.Last && (!before.Anew || !job.Anew) {
		return fmt.Errorf("%w: of commits up to %d (%.8s) from %s; finish that one, or take an empty folder",
			ErrUnfinished, before.Last.Sequence, before.Last.Digest, before.From)
	}
	return writeNote(filepath.Join(f.Store, importFile), job)
}

// errNoImport means that what is in the store is no unfinished import.
var errNoImport = errors.New("blocks: no import is under way here, so nothing is removed")

// DiscardImport removes what an import has written, and leaves its mark, so that it
// begins anew. Nothing of it counts yet.
func (f Folder) DiscardImport() error {
	if job, err := f.importing(); err != nil || job == nil {
		return errors.Join(err, errNoImport)
	}
	entries, err := os.ReadDir(f.Store)
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == importFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(f.Store, entry.Name())); err != nil {
			return fmt.Errorf("blocks: %w", err)
		}
	}
	return nil
}

// AbandonImport removes what an import that begins anew has written, and the mark, if it has one.
func (f Folder) AbandonImport() error {
	if job, err := f.importing(); err != nil || job == nil || !job.Anew {
		return err
	}
	if err := f.DiscardImport(); err != nil {
		return err
	}
	return removeNote(filepath.Join(f.Store, importFile))
}

// EndImport removes the mark: all commits are there, and durable.
func (f Folder) EndImport(last ledger.Head) error {
	if err := WriteHighWater(HighWaterPath(f.Store), last); err != nil {
		return err
	}
	return removeNote(filepath.Join(f.Store, importFile))
}

// readNote reads a small file of JSON; nil if there is none.
func readNote[T any](path string) (*T, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("blocks: %w", err)
	}
	note := new(T)
	if err := json.Unmarshal(data, note); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return note, nil
}

// writeNote replaces a small file of JSON, durably.
func writeNote(path string, note any) error {
	data, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	return joinErrors(durable.Replace(path, append(data, '\n')))
}

func removeNote(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("blocks: %w", err)
	}
	return joinErrors(durable.SyncFolder(filepath.Dir(path)))
}
