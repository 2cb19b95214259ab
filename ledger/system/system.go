// Package system has the calls of the operating system that Go's standard library
// lacks, so that the rest of the program has none of its own. On wasip1 the host
// answers them: there the server runs on a simulated machine.
package system

import (
	"errors"
	"os"
	"path/filepath"
)

// RoomAt measures the disk of a folder; if there is none yet, that of the folder
// in which it will be.
func RoomAt(folder string) (free, size int64, err error) {
	for {
		free, size, err = Room(folder)
		above := filepath.Dir(folder)
		if !errors.Is(err, os.ErrNotExist) || above == folder {
			return free, size, err
		}
		folder = above
	}
}
