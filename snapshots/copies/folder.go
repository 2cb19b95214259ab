package copies

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/snapshots"
)

// Folder is where a copy comes together, beside what it is to replace.
//
//	Read models' folder/joining/parts/SHA-256   files that have come, whole
//	Read models' folder/joining/making/         the copy, while it is put together
//	Read models' folder/joining/ready/          the copy, checked and synced
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

// Names in the folder. All other files are named by digests, or as a fileName says.
const (
	partsName  = "parts"
	makingName = "making"
	readyName  = "ready"
)

// partPath is where a file lies in the folder until all of them have come.
func partPath(sum ledger.Digest) string { return filepath.Join(partsName, sum.String()) }

// begin makes room for a copy. Whole files that came before stay: another try
// may need them.
func (f Folder) begin() (*os.Root, error) {
	err := os.RemoveAll(f.path(makingName))
	if err == nil {
		err = os.MkdirAll(f.path(partsName), 0o750)
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(f.path())
}

// assemble puts the files of a copy together. Files may be the same, such as empty ones:
// Pebble writes into none that it finds.
func assemble(into *os.Root, m *manifest) error {
	models := filepath.Join(makingName, modelsName)
	if err := into.MkdirAll(models, 0o750); err != nil {
		return err
	}
	for _, one := range m.Files {
		target := filepath.Join(models, string(one.Name))
		if one.Name == stateName {
			target = filepath.Join(makingName, snapshots.Name(m.State.Sequence))
		}
		if err := into.Link(partPath(one.Sum), target); err != nil {
			return err
		}
	}
	return nil
}

// decide makes the copy that was assembled the one that counts.
func (f Folder) decide() error {
	err := durable.SyncTree(f.path(makingName))
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

// Finish puts a copy that is ready in its place. It goes on where a former call was
// interrupted. The read models must not be open.
func (f Folder) Finish() error {
	for _, step := range f.steps() {
		if err := step(); err != nil {
			return fmt.Errorf("copies: %w", err)
		}
	}
	return nil
}

// steps are what Finish does, each of which can be done again.
func (f Folder) steps() []func() error {
	ready, models := f.path(readyName), f.path(readyName, modelsName)
	return []func() error{
		ifThere(models, f.placeSnapshot),
		ifThere(models, func() error { return os.RemoveAll(f.Models) }),
		ifThere(models, f.placeModels),
		ifThere(ready, func() error { return os.RemoveAll(f.path()) }),
	}
}

// ifThere is a step that is done while something waits for it.
func ifThere(path string, step func() error) func() error {
	return func() error {
		if there, err := exists(path); err != nil || !there {
			return err
		}
		return step()
	}
}

// placeSnapshot copies the State to the other snapshots, which may be on another disk.
func (f Folder) placeSnapshot() error {
	paths, err := snapshots.Files(f.path(readyName))
	if err != nil {
		return err
	}
	for _, path := range paths {
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		err = durable.ReplaceWith(filepath.Join(f.Snapshots, filepath.Base(path)), func(out *os.File) error {
			_, err := io.Copy(out, in)
			return err
		})
		if err = errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (f Folder) placeModels() error {
	if err := os.Rename(f.path(readyName, modelsName), f.Models); err != nil {
		return err
	}
	return errors.Join(durable.SyncFolder(f.path(readyName)), durable.SyncFolder(f.ReadModels))
}

// Clean removes what has come of a copy that is wanted no more, unless it is ready.
func (f Folder) Clean() error {
	if there, err := exists(f.path(readyName)); err != nil || there {
		return err
	}
	return os.RemoveAll(f.path())
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
