package blocks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/ledger/durable"
)

// A NATS server seals, makes and deletes a stream in several steps each. If it
// ends between two of them, its files look like damage. So whoever has it change
// a stream writes down before what may be found.

// sealingFile and leavingFile are the names of these notes, beside the log.
const (
	sealingFile = "sealing"
	leavingFile = "leaving"
)

// sealing says that a stream is being sealed: its configuration is replaced, and
// then the checksum of it.
type sealing struct {
	Stream string `json:"stream"`
	Sum    string `json:"sum"` // the checksum before
}

// leaving says that streams that begin before a sequence may be deleted: their
// configuration goes first. The note stays, because a deletion may come late.
type leaving struct {
	Before uint64 `json:"before"`
}

// BeginSeal is called before the newest stream is sealed.
func (f Folder) BeginSeal() error {
	streams, err := f.streams()
	if err != nil {
		return err
	}
	newest := streams[len(streams)-1]
	sum, err := os.ReadFile(newest.sumPath())
	if err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	return writeNote(filepath.Join(f.Store, sealingFile), sealing{newest.Stream, string(sum)})
}

// EndSeal is called when the stream is known to be sealed.
func (f Folder) EndSeal() error { return removeNote(filepath.Join(f.Store, sealingFile)) }

// BeginDrop is called before streams that begin before a sequence are deleted.
func (f Folder) BeginDrop(before uint64) error {
	path := filepath.Join(f.Store, leavingFile)
	note, err := readNote[leaving](path)
	if err != nil || note != nil && note.Before >= before {
		return err
	}
	return writeNote(path, leaving{before})
}

// SyncStreams makes the names of the streams durable. A NATS server syncs what is
// in a stream's folder, and not the name of the folder.
func (f Folder) SyncStreams() error { return joinErrors(durable.SyncFolder(f.folders())) }

// halfDeleted reports whether the deletion of the stream was begun and not ended.
func (f Folder) halfDeleted(note *leaving) bool {
	if note == nil || f.begins() >= note.Before {
		return false
	}
	_, err := os.Stat(filepath.Join(f.Dir(), metaFile))
	return errors.Is(err, os.ErrNotExist)
}

// halfMade reports whether a server that was making the stream has ended before
// the stream was whole: it has no commit, and is made again.
func (f Folder) halfMade() bool { return !f.whole() && f.holdsNothing() }

// unmade returns the log's first stream if a server that was making it has ended before
// it was whole: then there is no log yet.
func (f Folder) unmade() (first Folder, found bool) {
	if f.Chain == nil {
		return first, false
	}
	list, err := f.allStreams()
	if err != nil || len(list) != 1 {
		return first, false
	}
	return list[0], list[0].halfMade()
}

// SettleNothing removes what a server has left of a log that it was about to begin, so
// that the next one begins it.
func (f Folder) SettleNothing() error {
	if first, found := f.unmade(); found {
		return f.remove(first)
	}
	return nil
}

// remove removes a stream of which nothing counts. If it ends in the middle, the rest is
// still one of those.
func (f Folder) remove(one Folder) error {
	if err := os.RemoveAll(one.Dir()); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	return f.SyncStreams()
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

// halfSealed reports whether the stream's configuration is that of a sealed one,
// and its checksum is still the one before.
func (f Folder) halfSealed(sum []byte) bool {
	note, err := readNote[sealing](filepath.Join(f.Store, sealingFile))
	return err == nil && note != nil && note.Stream == f.Stream && note.Sum == string(sum)
}

// settleChanges ends what a server that has ended had begun, so that the next one
// finds whole streams.
func (f Folder) settleChanges() error {
	if f.Chain == nil {
		return nil
	}
	all, err := f.allStreams()
	if err != nil {
		return err
	}
	streams, err := f.streams()
	if err != nil {
		return err
	}
	for _, one := range all {
		// See halfMade: a server would take some of it as it is. Of what is half deleted
		// it takes nothing, and leaves it where it is. A whole stream without a commit
		// may be one in which several servers are about to go on.
		outside := one.begins() > streams[len(streams)-1].begins() || one.begins() < streams[0].begins()
		if outside && (!one.shared || !one.whole()) || one.shared && one.halfMade() {
			if err := f.remove(one); err != nil {
				return err
			}
		}
	}
	for _, one := range streams {
		if err := one.settleSum(); err != nil {
			return err
		}
	}
	return f.EndSeal()
}

// settleSum writes the checksum of a configuration that was replaced.
func (f Folder) settleSum() error {
	meta, sum, err := f.readMeta()
	if err != nil {
		return err
	}
	if want := f.sumOf(meta); !bytes.Equal(bytes.TrimSpace(sum), want) && f.halfSealed(sum) {
		return joinErrors(durable.Replace(f.sumPath(), want))
	}
	return nil
}
