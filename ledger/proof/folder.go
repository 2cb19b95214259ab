package proof

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/ledger/durable"
)

// Folder is a folder of signed checkpoints of the log, a few hundred bytes each.
// They are never pruned, because each one is evidence.
type Folder struct{ dir string }

const checkpointSuffix = ".checkpoint"

// OpenFolder opens or makes the folder.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("proof: %w", err)
	}
	return &Folder{dir: dir}, nil
}

// Save stores a signed checkpoint of the log up to a sequence.
func (f *Folder) Save(sequence uint64, signed []byte) error {
	path := filepath.Join(f.dir, fmt.Sprintf("%020d%s", sequence, checkpointSuffix))
	if err := durable.Replace(path, signed); err != nil {
		return fmt.Errorf("proof: checkpoint: %w", err)
	}
	return nil
}

// Kept is a signed checkpoint that was kept, and its place.
type Kept struct {
	Path   string
	Signed []byte
}

// ReadFolder reads all checkpoints of a folder, oldest first; none if
// there is no such folder.
func ReadFolder(dir string) ([]Kept, error) {
	paths, err := durable.Files(dir, checkpointSuffix)
	if err != nil {
		return nil, fmt.Errorf("proof: signed checkpoints: %w", err)
	}
	list := make([]Kept, 0, len(paths))
	for _, path := range paths {
		signed, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("proof: signed checkpoint: %w", err)
		}
		list = append(list, Kept{path, signed})
	}
	return list, nil
}
