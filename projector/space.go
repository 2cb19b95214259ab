package projector

import (
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble cannot go on after a write that failed. So a write that finds the
// disk full waits until there is room, and is tried again: what it holds is in
// the log, and whoever waits for it is told. Reads go on meanwhile.
const (
	roomBytes = 1 << 20
	roomEvery = 50 * time.Millisecond
)

// patientFS is the file system for a folder, whose writes wait for room.
func patientFS(dir string, logger *slog.Logger) vfs.FS {
	return vfs.OnDiskFull(vfs.Default, func() {
		logger.Error("the disk of the read models is full; they wait until there is room", "folder", dir)
		for {
			time.Sleep(roomEvery)
			usage, err := vfs.Default.GetDiskUsage(dir)
			if err != nil || usage.AvailBytes >= roomBytes {
				return // if it is not known, the write is tried
			}
		}
	})
}
