package snapshots

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Checkpoints is a folder of signed checkpoints of the log, a few hundred
// bytes each. They are never pruned: each one bears witness.
type Checkpoints struct{ dir string }

const checkpointSuffix = ".checkpoint"

// OpenCheckpoints opens or makes the folder.
func OpenCheckpoints(dir string) (*Checkpoints, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	return &Checkpoints{dir: dir}, nil
}

// Save keeps a signed checkpoint of the log up to a sequence.
func (c *Checkpoints) Save(sequence uint64, signed []byte) error {
	path := filepath.Join(c.dir, fmt.Sprintf("%020d%s", sequence, checkpointSuffix))
	err := os.WriteFile(path+".tmp", signed, 0o640)
	if err == nil {
		err = syncFile(path + ".tmp")
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(c.dir)
	}
	if err != nil {
		return fmt.Errorf("snapshots: checkpoint: %w", err)
	}
	return nil
}

// KeptCheckpoint is one of the folder's files.
type KeptCheckpoint struct {
	Path   string
	Signed []byte
}

// ReadCheckpoints reads all checkpoints of a folder, oldest first; none if
// there is no such folder.
func ReadCheckpoints(dir string) ([]KeptCheckpoint, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+checkpointSuffix))
	if err != nil {
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	slices.Sort(paths)
	list := make([]KeptCheckpoint, 0, len(paths))
	for _, path := range paths {
		signed, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("snapshots: %w", err)
		}
		list = append(list, KeptCheckpoint{path, signed})
	}
	return list, nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
