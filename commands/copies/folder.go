package copies

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/snapshots"
)

// Folder is where a copy comes together, beside what it is to replace.
//
//	Read models' folder/joining/parts/SHA-256   files that have come, whole
//	Read models' folder/joining/making/         the copy, while it is put together
//	Read models' folder/joining/ready/          the copy, checked and synced
//	Read models' folder/joining/old/            what it has replaced
//
// The rename of making to ready is what decides: before it nothing has
// changed, and after it Finish does the rest, at the next start if need be.
type Folder struct {
	ReadModels string // the folder that has Models in it
	Models     string // the read models' files
	Snapshots  string // the folder
}

func (f Folder) path(names ...string) string {
	return filepath.Join(append([]string{f.ReadModels, "joining"}, names...)...)
}

const (
	partsName  = "parts"
	makingName = "making"
	readyName  = "ready"
	oldName    = "old"
)

// partPath is where a file of a copy lies until all of them have come.
func (f Folder) partPath(one file) string { return f.path(partsName, one.Sum) }

// begin makes room for a copy. Whole files that came before stay: another try
// may need them.
func (f Folder) begin() error {
	err := os.RemoveAll(f.path(makingName))
	if err == nil {
		err = os.MkdirAll(f.path(partsName), 0o750)
	}
	return err
}

// assemble puts the files of a copy together.
func (f Folder) assemble(m *manifest) error {
	if err := os.MkdirAll(f.path(makingName, modelsName), 0o750); err != nil {
		return err
	}
	for _, one := range m.Files {
		// Two files may be the same, such as empty ones, and Pebble must not
		// write into both when it writes into one. Tables are never written.
		target := f.path(makingName, filepath.FromSlash(one.Name))
		if filepath.Ext(one.Name) == ".sst" || one.Name == stateName {
			if err := os.Link(f.partPath(one), target); err != nil {
				return err
			}
			continue
		}
		if err := copyFile(f.partPath(one), target); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // nothing was written
	return durable.ReplaceWith(to, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
}

// decide makes the copy that was assembled the one that counts.
func (f Folder) decide(stateSequence uint64) error {
	err := os.Rename(f.path(makingName, stateName), f.path(makingName, snapshots.Name(stateSequence)))
	if err == nil {
		err = durable.SyncTree(f.path(makingName))
	}
	if err == nil {
		err = os.Rename(f.path(makingName), f.path(readyName))
	}
	if err == nil {
		err = durable.SyncFolder(f.path())
	}
	if err != nil {
		return fmt.Errorf("copies: %w", err)
	}
	return nil
}

// Finish puts a copy that is ready in its place, and removes what others left:
// copies that are not. It goes on where a former call was interrupted. Nobody
// may have the read models open.
func (f Folder) Finish() error {
	for _, step := range f.steps() {
		if err := step(); err != nil {
			return fmt.Errorf("copies: %w", err)
		}
	}
	return nil
}

// Clean removes what a former process left behind, unless it is ready.
func (f Folder) Clean() error {
	if there, err := exists(f.path(readyName)); err != nil || there {
		return err
	}
	return os.RemoveAll(f.path())
}

// steps are what Finish does, each of which can be done again.
func (f Folder) steps() []func() error {
	ready := false
	ifReady := func(do func() error) func() error {
		return func() error {
			if !ready {
				return nil
			}
			return do()
		}
	}
	return []func() error{
		func() (err error) {
			ready, err = exists(f.path(readyName))
			return err
		},
		ifReady(f.placeSnapshot),
		ifReady(f.moveOld),
		ifReady(f.placeModels),
		func() error { return ignoreMissing(os.RemoveAll(f.path(readyName))) },
		func() error { return ignoreMissing(os.RemoveAll(f.path())) },
	}
}

// placeSnapshot moves the State to the other snapshots.
func (f Folder) placeSnapshot() error {
	paths, err := snapshots.Files(f.path(readyName))
	if err != nil {
		return err
	}
	for _, path := range paths {
		target := filepath.Join(f.Snapshots, filepath.Base(path))
		err := os.Rename(path, target)
		if errors.Is(err, syscall.EXDEV) { // they may be on a disk of their own
			if err = copyFile(path, target); err == nil {
				err = os.Remove(path)
			}
		}
		if err != nil {
			return err
		}
	}
	return durable.SyncFolder(f.Snapshots)
}

// moveOld makes room for the read models, unless they have come already.
func (f Folder) moveOld() error {
	if there, err := exists(f.path(readyName, modelsName)); err != nil || !there {
		return err
	}
	if there, err := exists(f.Models); err != nil || !there {
		return err
	}
	if err := os.RemoveAll(f.path(oldName)); err != nil {
		return err
	}
	if err := os.Rename(f.Models, f.path(oldName)); err != nil {
		return err
	}
	return durable.SyncFolder(f.ReadModels)
}

func (f Folder) placeModels() error {
	if there, err := exists(f.path(readyName, modelsName)); err != nil || !there {
		return err
	}
	if err := os.Rename(f.path(readyName, modelsName), f.Models); err != nil {
		return err
	}
	return errors.Join(durable.SyncFolder(f.path(readyName)), durable.SyncFolder(f.ReadModels))
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
